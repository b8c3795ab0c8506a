"""The differentiable operations: `record` (how one is declared), families, the table, and op files.

Importing this package declares every op and attaches methods to Tensor.
"""
