"""Ops that reduce, order or accumulate along dimensions."""
