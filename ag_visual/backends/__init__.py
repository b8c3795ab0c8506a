"""torch.backends: switches that a program reads and sets. `mkldnn.enabled` and `fast` alone choose.

What is set is read again; what asks for a library is answered by what is used here.
"""

from ag_visual import absent as _absent
from ag_visual.arrays import fast as fast
from ag_visual.backends import (
    cpu as cpu,
    cuda as cuda,
    cudnn as cudnn,
    mkl as mkl,
    mkldnn as mkldnn,
    mps as mps,
    nnpack as nnpack,
    openmp as openmp,
    opt_einsum as opt_einsum,
)
from ag_visual.names import only as _only

__all__ = ["cpu", "cuda", "cudnn", "fast", "mkl", "mkldnn", "mps", "nnpack", "openmp"]
__all__ += ["opt_einsum"]
__dir__ = _only(__all__, __name__)
__getattr__ = _absent.asked(__name__, "backends")
