"""What is seen of a running program: events, summaries, diagnoses, files.

May import all layers up to autograd; imported by session, display and the package's top.
"""
