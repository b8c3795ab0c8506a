"""Ops that look at the same elements otherwise, join them or take them apart."""
