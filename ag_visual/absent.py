"""What torch has and this package has not, and what to write in its place: for errors alone.

Every name is torch's, without `torch.`; one that stands for a module holds for all that is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

_TOLD: Final[dict[str, str]] = {
    "compile compiler jit _dynamo _inductor fx export onnx utils.mobile_optimizer": (
        "Nothing is compiled or exported here: leave the line or the decorator out, and the "
        "function or module runs as it is."
    ),
    "backends set_float32_matmul_precision": (
        "Its flags choose kernels of cuDNN, MKL and the like, which are not used here: leave the "
        "line out."
    ),
    "set_num_threads get_num_threads set_num_interop_threads": (
        "Threads are those of NumPy's BLAS: set OMP_NUM_THREADS in the environment of the program."
    ),
    "amp autocast cuda.amp": (
        "There is no automatic mixed precision: leave autocast and GradScaler out, or choose a "
        "dtype with Tensor.to, as in x.to(torch.bfloat16)."
    ),
    "distributions": (
        "Draw with torch.normal, torch.rand, torch.bernoulli or torch.multinomial, and write the "
        "logarithm of the density as a formula."
    ),
    "distributed nn.parallel nn.DataParallel nn.SyncBatchNorm utils.data.distributed "
    "multiprocessing futures": (
        "A program runs in one process on one device: call the module itself."
    ),
    "testing": ("Compare with torch.allclose, or with numpy.testing.assert_allclose on x.numpy()."),
    "autograd.gradcheck autograd.gradgradcheck": (
        "ag_visual.check_node(y) compares the backward of the node that made y with differences."
    ),
    "autograd.functional autograd.forward_ad vmap func.vmap func.grad func.vjp func.jvp "
    "func.jacrev func.jacfwd func.hessian func.stack_module_state": (
        "Differentiate with torch.autograd.grad: create_graph=True for a derivative of it, "
        "is_grads_batched=True for the rows of a Jacobian."
    ),
    "profiler autograd.profiler": (
        "ag_visual.record() keeps the time of every node of a backward, and ag_visual.show() "
        "draws it."
    ),
    "utils.benchmark": "Python's timeit measures a call.",
    "hub utils.model_zoo": (
        "Weights are read from safetensors files: torch.load(path), then Module.load_state_dict."
    ),
    "sparse sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor "
    "Tensor.to_sparse Tensor.to_sparse_coo Tensor.to_sparse_csr Tensor.to_sparse_csc "
    "Tensor.sparse_mask Tensor.sparse_dim Tensor.dense_dim Tensor.crow_indices "
    "Tensor.col_indices": (
        "Every tensor here is dense: work with the dense one, and pick elements with "
        "torch.nonzero, torch.index_select or torch.scatter."
    ),
    "Tensor.to_dense Tensor.coalesce": "Every tensor here is dense already: leave the call out.",
    "nested jagged Tensor.is_nested Tensor.to_padded_tensor": (
        "Sequences of several lengths are one padded tensor: torch.nn.utils.rnn.pad_sequence, with "
        "a mask or torch.nn.utils.rnn.pack_padded_sequence."
    ),
    "quantization ao nn.quantized nn.intrinsic nn.qat quantize_per_tensor Tensor.dequantize "
    "Tensor.int_repr": "There are no quantized tensors: work with torch.float32.",
    "accelerator cpu mps xpu mtia": (
        "Devices are 'cpu' and 'cuda': torch.cuda.is_available() says whether there is one."
    ),
    "cuda.set_device": "Name the device instead, as in torch.device('cuda', 1).",
    "cuda.Stream cuda.Event cuda.nvtx cuda.comm cuda.ipc_collect": (
        "Kernels of CuPy run in its current stream; torch.cuda.synchronize() waits for them."
    ),
    "cuda.memory_allocated cuda.memory_reserved cuda.max_memory_allocated "
    "cuda.reset_peak_memory_stats": (
        "CuPy owns the memory: cupy.get_default_memory_pool().used_bytes() says how much is taken."
    ),
    "cuda.get_device_properties cuda.get_device_capability cuda.is_bf16_supported": (
        "CuPy knows the device: cupy.cuda.Device(0).attributes; its name is "
        "torch.cuda.get_device_name()."
    ),
    "cuda.FloatTensor cuda.LongTensor cuda.DoubleTensor cuda.HalfTensor": (
        "Write torch.tensor(data, device='cuda'), with a dtype."
    ),
    "channels_last channels_last_3d": "Memory is always in torch.contiguous_format: leave it out.",
    "Tensor.pin_memory": "Memory is not pinned: leave the call out.",
    "Tensor.untyped_storage Tensor.storage storage UntypedStorage TypedStorage FloatStorage": (
        "Whether two tensors share memory, Tensor.data_ptr and Tensor.storage_offset tell."
    ),
    "nn.modules": "Layers stand in torch.nn itself: from torch.nn import Module, Linear.",
    "nn.LazyLinear nn.LazyConv1d nn.LazyConv2d nn.LazyConv3d nn.LazyBatchNorm1d "
    "nn.LazyBatchNorm2d": (
        "Give the number of input features: torch.nn.Linear, torch.nn.Conv2d and the like."
    ),
    "nn.attention.SDPBackend nn.attention.sdpa_kernel": (
        "torch.nn.functional.scaled_dot_product_attention has one way to compute: leave it out."
    ),
    "nn.init.kaiming_normal": "Its name ends in _: torch.nn.init.kaiming_normal_.",
    "nn.init.kaiming_uniform": "Its name ends in _: torch.nn.init.kaiming_uniform_.",
    "nn.init.xavier_normal": "Its name ends in _: torch.nn.init.xavier_normal_.",
    "nn.init.xavier_uniform": "Its name ends in _: torch.nn.init.xavier_uniform_.",
    "utils.data.dataloader": "Write: from torch.utils.data import DataLoader.",
    "utils.dlpack": "torch.from_dlpack reads it; x.__dlpack__() gives it.",
    "utils.tensorboard": "SummaryWriter of the package tensorboardX writes the same files.",
    "utils.cpp_extension ops library classes _C": (
        "There is no C++ below this package: write it as a torch.autograd.Function."
    ),
    "utils._pytree": "Nested containers are walked by hand, or by the package optree.",
    "version torch_version": "torch.__version__ says which release is followed.",
    "nn.utils.parametrizations.orthogonal": (
        "Register a module that makes a matrix orthogonal (by torch.linalg.qr, say) with "
        "torch.nn.utils.parametrize.register_parametrization."
    ),
    "nn.utils.prune": "Multiply by a mask in torch.nn.utils.parametrize.register_parametrization.",
}
SAID: Final[dict[str, str]] = {
    name: text for names, text in _TOLD.items() for name in names.split()
}
"""A sentence for each name."""


def said_of(path: str) -> str | None:
    """What to write in place of a name of torch, as in 'nn.DataParallel'; None: nothing known."""
    while path:
        if path in SAID:
            return SAID[path]
        path = path.rpartition(".")[0]
    return None


def asked(module: str, said: str) -> Callable[[str], NoReturn]:
    """A `__getattr__` for a module, which also says what to write in place of an absent name."""

    def __getattr__(name: str) -> NoReturn:
        known = said_of(f"{said}.{name}")
        text = f"module {module!r} has no attribute {name!r}"
        raise AttributeError(f"{text}. {known}" if known else text, name=name)

    return __getattr__


class Method:
    """Stands in a class where torch's has a method: no instance has it, and its error says more."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        told = SAID[f"Tensor.{self._name}"]
        raise AttributeError(
            f"'Tensor' object has no attribute {self._name!r}. {told}", name=self._name, obj=owner
        )


def mark(tensor: type) -> None:
    """Let a class of tensors say what to write in place of the methods that it lacks."""
    names = {name.removeprefix("Tensor.") for name in SAID if name.startswith("Tensor.")}
    lacking = {name for name in names if not hasattr(tensor, name)}
    for name in lacking:
        setattr(tensor, name, Method(name))
    known: Any = tensor.__dir__

    def __dir__(self: Any) -> list[str]:
        return [name for name in known(self) if name not in lacking]

    tensor.__dir__ = __dir__  # type: ignore[assignment]
