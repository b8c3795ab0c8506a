"""Cards: the formula of an operation, its derivative, and the numbers of a node."""
