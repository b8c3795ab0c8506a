"""Sparse tensors: made, taken apart, multiplied, and cut; their rules for the ops of dense ones."""
