"""Wrappers that are written out and compiled, one for each op."""
