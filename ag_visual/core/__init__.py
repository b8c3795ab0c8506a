"""Tensors, nodes and what they share: storage, versions, hooks, modes and source positions.

Nothing here computes: mathematics lives in `ops`, running a graph in `engine`.
"""
