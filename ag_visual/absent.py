"""What torch has and this package has not, and what to write in its place: for errors alone.

Every name is torch's, without `torch.`; one that stands for a module holds for all that is in it.
"""

from __future__ import annotations

import importlib
import sys
from abc import ABCMeta
from collections.abc import Callable
from importlib import util
from typing import Any, Final, NoReturn

_PACKAGE: Final = __name__.partition(".")[0]
_TOLD: Final[dict[str, str]] = {
    "utils.mobile_optimizer utils.mkldnn utils.bundled_inputs utils.model_dump utils.jit nativert "
    "contrib compiler.config": (
        "Nothing is compiled or exported here: leave the line out, and the module runs as it is."
    ),
    "masked": "A tensor with a mask is two tensors: Tensor.masked_fill and torch.where take both.",
    "package utils.show_pickle utils.serialization": (
        "torch.save and torch.load write and read tensors and state_dict()s; code is imported as "
        "Python does it."
    ),
    "monitor": ("torch.profiler tells where time goes; a SummaryWriter writes numbers over time."),
    "numa": "Where a process runs is for the system to say: start it under numactl.",
    "utils.viz": "ag_visual.record shows what memory a program holds, and since which line.",
    "utils.weak": "Key a dict by id(x); weakref.finalize(x, ...) takes it out again.",
    "utils.module_tracker": (
        "torch.profiler.profile(with_modules=True) tells in which module an operation ran."
    ),
    "utils.collect_env": "torch.__version__ and numpy.show_config() tell what there is.",
    "utils.deterministic": "torch.use_deterministic_algorithms is all that there is to switch.",
    "utils.checkpoint.create_selective_checkpoint_contexts utils.checkpoint.CheckpointPolicy "
    "utils.checkpoint.SelectiveCheckpointContext": (
        "Checkpoint the parts whose values may be computed again, by torch.utils.checkpoint."
        "checkpoint, and leave the others outside."
    ),
    "utils.data.datapipes utils.data.graph utils.data.graph_settings "
    "utils.data.backward_compatibility": (
        "torch.utils.data.IterableDataset is what a pipe of data is written as."
    ),
    "utils.benchmark.utils utils.benchmark.op_fuzzers utils.benchmark.examples": (
        "torch.utils.benchmark.Timer measures; compare its Measurements by median and iqr."
    ),
    "nn.attention.flex_attention nn.attention.bias nn.attention.varlen nn.attention.experimental": (
        "torch.nn.functional.scaled_dot_product_attention takes a mask of bools, or of numbers "
        "that are added to the scores."
    ),
    "backends.cusparselt backends.kleidiai backends.mha backends.miopen backends.quantized "
    "backends.xeon backends.xnnpack backends.python_native backends.cudnn.rnn": (
        "Kernels are NumPy's and CuPy's: there is nothing of that library to switch."
    ),
    "cuda.gds cuda.graphs cuda.green_contexts cuda.jiterator cuda.nccl cuda.sparse cuda.tunable "
    "cuda.CUDAGraph cuda.graph cuda.make_graphed_callables": (
        "Kernels are CuPy's and run as they are called: leave it out."
    ),
    "mps.event mps.profiler accelerator.graphs accelerator.memory xpu.graphs xpu.memory "
    "xpu.random xpu.streams": (
        "Devices are 'cpu' and 'cuda': torch.cuda has streams, events and memory."
    ),
    "multiprocessing.pool multiprocessing.queue multiprocessing.reductions": (
        "torch.multiprocessing has Python's Pool and Queue, which tensors may be sent through."
    ),
    "nn.backends nn.cpp utils.backcompat utils.backend_registration utils.cpp_backtrace "
    "utils.debug_log utils.file_baton utils.hipify utils.throughput_benchmark "
    "profiler.python_tracer": ("There is no C++ below this package, and nothing that is built."),
    "nn.utils.memory_format": "A tensor keeps its strides: leave the call out.",
    "nn.modules.linear_cross_entropy nn.modules.linear_cross_entropy_options": (
        "Give torch.nn.functional.cross_entropy what a torch.nn.Linear returns."
    ),
    "nn.parallel.comm nn.parallel.parallel_apply nn.parallel.replicate": (
        "A program runs on one device: call the module itself."
    ),
    "autograd.profiler_legacy": "torch.profiler.profile is the profiler.",
    "autograd.ProfilerActivity autograd.ProfilerConfig autograd.ProfilerEvent "
    "autograd.ProfilerState autograd.kineto_available autograd.profiler.ProfilerConfig "
    "autograd.profiler.ProfilerState": (
        "torch.profiler.profile and torch.profiler.ProfilerActivity say what is collected."
    ),
    "autograd.profiler_util.EventMetadata": (
        "A profile has no single kernels of a GPU: run the program under nsys profile."
    ),
    "profiler.RecordScope": "FunctionEvent.scope is a number.",
    "signal.windows.windows": "Windows are in torch.signal.windows.",
    "func.functionalize": (
        "It takes views and in-place ops out of a function for compilers, of which there is none "
        "here: a function runs as it is, leave the call out."
    ),
    "sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor sparse_compressed_tensor sparse_csc "
    "sparse_bsr sparse_bsc Tensor.to_sparse_csc Tensor.to_sparse_bsr Tensor.to_sparse_bsc "
    "Tensor.ccol_indices Tensor.row_indices": (
        "Sparse tensors have coordinates or compressed rows here: torch.sparse_coo_tensor, "
        "torch.sparse_csr_tensor, Tensor.to_sparse, Tensor.to_sparse_csr."
    ),
    "sparse.spsolve sparse.semi_structured sparse.to_sparse_semi_structured "
    "sparse.SparseSemiStructuredTensor": (
        "Sparse tensors have products, sums and softmaxes (torch.sparse.mm, addmm, sum, softmax, "
        "log_softmax, spdiags): for all else call .to_dense() first."
    ),
    "sparse.check_sparse_tensor_invariants": "Indices are always checked: leave it out.",
    "sparse.as_sparse_gradcheck": "torch.autograd.gradcheck(..., masked=True) takes sparse inputs.",
    "sparse.sampled_addmm": "Multiply the factors' rows at mask.indices(), or use sparse_mask.",
    "smm hspmm sspaddmm Tensor.smm Tensor.sspaddmm": (
        "torch.sparse.mm is the product of a sparse matrix: .to_sparse() of it is a sparse one."
    ),
    "nested jagged Tensor.to_padded_tensor": (
        "Sequences of several lengths are one padded tensor: torch.nn.utils.rnn.pad_sequence, with "
        "a mask or torch.nn.utils.rnn.pack_padded_sequence."
    ),
    "quantization ao nn.quantized nn.quantizable nn.intrinsic nn.qat quantize_per_tensor "
    "Tensor.dequantize Tensor.int_repr": "There are no quantized tensors: work with torch.float32.",
    "mtia": ("Devices are 'cpu' and 'cuda': torch.cuda.is_available() says whether there is one."),
    "cuda.comm cuda.ipc_collect": (
        "Kernels of CuPy run in its current stream; torch.cuda.synchronize() waits for them."
    ),
    "cuda.FloatTensor cuda.LongTensor cuda.DoubleTensor cuda.HalfTensor": (
        "Write torch.tensor(data, device='cuda'), with a dtype."
    ),
    "Tensor.pin_memory": "Memory is not pinned: leave the call out.",
    "library classes": (
        "There is no C++ below this package: write it as a torch.autograd.Function."
    ),
}
SAID: Final[dict[str, str]] = {
    name: text for names, text in _TOLD.items() for name in names.split()
}
"""A sentence for each name."""

_NOT_COMPILED: Final = (
    "Nothing is compiled or exported here: call the function or the module itself, it runs as it "
    "is."
)
_NO_TRACES: Final = (
    "Programs are not traced into graphs of code here: torch.autograd.graph.Node and "
    "ag_visual.show tell what ran."
)
_NO_DOWNLOADS: Final = (
    "Nothing is downloaded: fetch the file, read it with torch.load, and give it to "
    "Module.load_state_dict."
)
_NO_CPP: Final = "There is no C++ below this package: write it as a torch.autograd.Function."
_ONE_PROCESS: Final = (
    "A program runs in one process on one device: call the module itself, and leave the call out."
)
_NO_OVERRIDES: Final = (
    "Operations call no __torch_function__ and no __torch_dispatch__: they take Tensors and return "
    "Tensors."
)
_STAND_INS: Final[dict[str, tuple[str, str]]] = {
    "": (
        "PyTorchFileReader PyTorchFileWriter SymBool SymFloat SymInt complex32",
        "Sizes are ints, complex numbers at least torch.complex64, and torch.load and torch.save "
        "are all that reads and writes checkpoints.",
    ),
    "_dynamo": ("OptimizedModule explain export optimize", _NOT_COMPILED),
    "_inductor": ("compile", _NOT_COMPILED),
    "distributed": (
        "DeviceMesh ProcessGroup ReduceOp Work all_gather all_gather_into_tensor all_gather_object "
        "all_reduce all_to_all all_to_all_single barrier broadcast broadcast_object_list "
        "destroy_process_group gather gather_object get_backend init_device_mesh "
        "init_process_group irecv isend monitored_barrier new_group recv reduce reduce_scatter "
        "reduce_scatter_tensor scatter scatter_object_list send",
        _ONE_PROCESS,
    ),
    "_C": ("Block Graph Node ScriptFunction ScriptModule Value", _NO_CPP),
    "_subclasses.fake_tensor": ("FakeTensor FakeTensorMode", _NOT_COMPILED),
    "distributed.optim": ("ZeroRedundancyOptimizer", _ONE_PROCESS),
    "distributed.rpc": (
        "RRef init_rpc remote rpc_async rpc_sync shutdown",
        _ONE_PROCESS,
    ),
    "distributed._composable.fsdp": ("FSDPModule fully_shard", _ONE_PROCESS),
    "distributed.fsdp": (
        "CPUOffload FSDPModule FullyShardedDataParallel MixedPrecision MixedPrecisionPolicy "
        "ShardingStrategy fully_shard",
        _ONE_PROCESS,
    ),
    "distributed._tensor": ("DTensor Replicate Shard", _ONE_PROCESS),
    "distributed._tensor.experimental": ("implicit_replication", _ONE_PROCESS),
    "distributed.tensor": (
        "DTensor DeviceMesh Partial Placement Replicate Shard distribute_module distribute_tensor "
        "init_device_mesh",
        _ONE_PROCESS,
    ),
    "export": ("Dim ExportedProgram export load save", _NOT_COMPILED),
    "fx": (
        "CodeGen Graph GraphModule Interpreter Node Proxy Tracer Transformer replace_pattern "
        "symbolic_trace",
        _NO_TRACES,
    ),
    "fx.graph": ("CodeGen Graph", _NO_TRACES),
    "fx.graph_module": ("GraphModule", _NO_TRACES),
    "fx.interpreter": ("Interpreter Transformer", _NO_TRACES),
    "fx.node": ("Node", _NO_TRACES),
    "fx.proxy": ("Proxy", _NO_TRACES),
    "hub": (
        "download_url_to_file help list load load_state_dict_from_url",
        _NO_DOWNLOADS,
    ),
    "jit": ("CompilationUnit RecursiveScriptModule ScriptFunction load save", _NOT_COMPILED),
    "nn.parallel.scatter_gather": ("gather scatter scatter_kwargs", _ONE_PROCESS),
    "onnx": ("ONNXProgram export", _NOT_COMPILED),
    "overrides": ("BaseTorchFunctionMode TorchFunctionMode", _NO_OVERRIDES),
    "utils._python_dispatch": ("TorchDispatchMode", _NO_OVERRIDES),
    "utils.cpp_extension": (
        "BuildExtension CUDAExtension CppExtension include_paths library_paths load load_inline",
        _NO_CPP,
    ),
    "utils.flop_counter": (
        "FlopCounterMode",
        "torch.profiler.profile(with_flops=True) counts what products and convolutions take.",
    ),
    "utils.model_zoo": ("load_url", _NO_DOWNLOADS),
}
# In modules of which all else is here.
_AMONG_OTHERS: Final[dict[str, tuple[str, ...]]] = {
    "nn": ("SyncBatchNorm",),
    "nn.parallel": ("DistributedDataParallel",),
    "utils.data": ("DistributedSampler",),
}
STAND_INS: Final[dict[str, tuple[str, ...]]] = {
    **{path: tuple(names.split()) for path, (names, _) in _STAND_INS.items()},
    **_AMONG_OTHERS,
}
"""Modules that can be imported, and the names in them whose use is told what to do instead."""


def said_of(path: str) -> str | None:
    """What to write in place of a name of torch, as in 'nn.DataParallel'; None: nothing known."""
    space, _, name = path.rpartition(".")
    if path in STAND_INS[""]:
        return _STAND_INS[""][1]
    if name in _AMONG_OTHERS.get(space, ()):
        return _ONE_PROCESS
    while path:
        if path in SAID:
            return SAID[path]
        if path in _STAND_INS:
            return _STAND_INS[path][1]
        path = path.rpartition(".")[0]
    return None


def asked(module: str, said: str) -> Callable[[str], Any]:
    """A `__getattr__` for a module: of a package the modules, imported when first asked for.

    For any other name it says what to write in its place.
    """

    def __getattr__(name: str) -> Any:
        below = f"{module}.{name}"
        inside = name[:1] != "_" and hasattr(sys.modules[module], "__path__")
        if below in sys.modules or (inside and util.find_spec(below) is not None):
            return importlib.import_module(below)
        if name in STAND_INS.get(said, ()):
            return vars(sys.modules[module]).setdefault(name, stand_in(said, name))
        raise missing(module, said, name)

    return __getattr__


class _StandIn(ABCMeta):
    """The class of stand-ins for classes: what they lack is answered like their call.

    (Of ABCMeta, as programs derive abstract classes from them.)
    """

    def __getattr__(cls, name: str) -> Any:
        text = f"type object {cls.__name__!r} has no attribute {name!r}"
        said = "" if name.startswith("_") else f". {cls.__doc__}"
        raise AttributeError(f"{text}{said}", name=name, obj=cls)


def stand_in(path: str, name: str) -> Any:
    """What stands for a thing of torch's that libraries import: its use is told what to do instead.

    A class where torch's name is one, so that it can be a base and isinstance() is False; calling
    it raises NotImplementedError.
    """
    full = f"{path}.{name}".lstrip(".")
    text = f"torch.{full} is not here. {said_of(full)}"

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(text)

    space = {"__module__": f"{_PACKAGE}.{path}".rstrip("."), "__doc__": text}
    if name[0].isupper():
        return _StandIn(name, (), {**space, "__init__": refuse})
    refuse.__name__ = refuse.__qualname__ = name
    refuse.__module__, refuse.__doc__ = space["__module__"], text
    return refuse


def missing(module: str, said: str, name: str) -> AttributeError:
    """The error of a module that lacks a name; it says what to write in its place."""
    known = said_of(f"{said}.{name}")
    text = f"module {module!r} has no attribute {name!r}"
    return AttributeError(f"{text}. {known}" if known else text, name=name)


class Operators:
    """Stands for torch.ops: libraries name operators at their import; no call is answered."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return vars(self).setdefault(name, OperatorNamespace(name))

    def load_library(self, path: Any) -> NoReturn:
        """Raises NotImplementedError."""
        raise NotImplementedError(f"torch.ops.load_library({str(path)!r}) is not here. {_NO_CPP}")


class OperatorNamespace:
    """The operators of one library: torch's own stand here, all others are in no library."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self._name not in _TORCHS_OWN:
            known = f"'_OpNamespace' {self._name!r} object has no attribute {name!r}"
            raise AttributeError(f"{known}. {_NO_CPP}", name=name)
        return vars(self).setdefault(name, Operator(f"torch.ops.{self._name}.{name}", name))


class Operator:
    """An operator of torch's, or an overload of one: a name to register under, not to call."""

    def __init__(self, path: str, function: str) -> None:
        self._path, self._function = path, function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return vars(self).setdefault(name, Operator(f"{self._path}.{name}", self._function))

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(
            f"{self._path} is not here. {_NO_CPP} The function or method of Tensor that computes "
            f"{self._function!r} may be called."
        )

    def __repr__(self) -> str:
        return f"<{self._path}>"


_TORCHS_OWN: Final = ("aten", "prim", "prims")
OPERATORS: Final = Operators()
"""What `torch.ops` is where code says `import torch`."""


class Method:
    """Stands in a class where torch's has a method: no instance has it, and its error says more."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        reason = SAID[f"Tensor.{self._name}"]
        raise AttributeError(
            f"'Tensor' object has no attribute {self._name!r}. {reason}", name=self._name, obj=owner
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
