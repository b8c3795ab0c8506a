"""What is being watched, and by whom: session, pages, pausing, Jupyter, magics. Layer 7.

May import core, ops, engine, autograd and observe; imported by display and the package's top.
"""
