"""Ops that work on each element by itself."""
