"""What is seen of a running program: events, summaries, blame, files. Layer 6.

May import core, ops, engine and autograd; imported by session, display and the package's top.
"""
