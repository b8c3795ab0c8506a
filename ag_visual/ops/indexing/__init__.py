"""Ops that read and write at indices, masks and bins."""
