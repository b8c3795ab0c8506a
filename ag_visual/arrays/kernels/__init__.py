"""Array functions that NumPy and CuPy lack, each `kernel(xp, arrays, ...)`; no Tensor anywhere."""
