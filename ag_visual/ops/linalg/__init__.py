"""Products of matrices, decompositions, and what is solved with them."""
