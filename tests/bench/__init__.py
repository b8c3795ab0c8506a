"""Ratios to torch and HIPS autograd: `python -m tests.bench`."""

import os

# Both engines on as many threads; NumPy's BLAS reads this when it is loaded.
THREADS = os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
