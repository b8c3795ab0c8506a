"""The namespaces that are torch's have torch's names alone, and those that names.OWN lists."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.dispatch.table import functions, spaces
from ag_visual.names import OWN

from ..oracle import torch

SPACES = (
    "",
    "amp",
    "amp.autocast_mode",
    "amp.grad_scaler",
    "__config__",
    "__future__",
    "accelerator",
    "autograd",
    "autograd.function",
    "autograd.graph",
    "autograd.profiler",
    "autograd.profiler_util",
    "backends",
    "backends.cpu",
    "backends.cuda",
    "backends.cudnn",
    "backends.mkl",
    "backends.mkldnn",
    "backends.mps",
    "backends.nnpack",
    "backends.openmp",
    "backends.opt_einsum",
    "compiler",
    "cpu",
    "cuda",
    "cuda.memory",
    "cuda.nvtx",
    "cuda.profiler",
    "cuda.random",
    "cuda.streams",
    "distributed",
    "distributions",
    "distributions.constraint_registry",
    "distributions.constraints",
    "distributions.kl",
    "distributions.transforms",
    "distributions.utils",
    "fft",
    "func",
    "futures",
    "fx",
    "jit",
    "linalg",
    "mps",
    "nn",
    "nn.attention",
    "nn.common_types",
    "nn.functional",
    "nn.init",
    "nn.parameter",
    "nn.utils",
    "nn.utils.parametrizations",
    "nn.utils.parametrize",
    "nn.utils.rnn",
    "nn.utils.stateless",
    "onnx",
    "optim",
    "optim.lr_scheduler",
    "optim.swa_utils",
    "overrides",
    "profiler",
    "profiler.itt",
    "quasirandom",
    "random",
    "return_types",
    "serialization",
    "sparse",
    "special",
    "testing",
    "torch_version",
    "types",
    "utils",
    "utils.benchmark",
    "utils.checkpoint",
    "utils.data",
    "utils.dlpack",
    "utils.hooks",
    "version",
    "xpu",
)
CLASSES = ("Generator", "Size", "Tensor", "device", "dtype", "finfo", "nn.Module")
CLASSES += ("optim.Optimizer",)
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "watching.md"


def _found(root: Any, name: str) -> Any:
    if name in CLASSES:
        space, _, last = name.rpartition(".")
        return getattr(_found(root, space), last)
    return importlib.import_module(f"{root.__name__}.{name}".rstrip("."))


@pytest.mark.oracle
@pytest.mark.parametrize("name", [*SPACES, *CLASSES])
def test_names_that_torch_does_not_have_are_listed(name: str) -> None:
    ours, theirs = _found(ag, name), _found(torch, name)
    public = [each for each in dir(ours) if not each.startswith("_")]
    assert {each for each in public if not hasattr(theirs, each)} == set(OWN.get(name, ()))
    if name not in CLASSES:
        assert [each for each in public if not hasattr(ours, each)] == []


@pytest.mark.oracle
def test_functions_stand_where_torch_has_them() -> None:
    layers = functions.keys() - spaces["torch"].keys()
    for name in functions:
        assert hasattr(ag, name) == (name not in layers) == hasattr(torch, name), name
    assert [
        name
        for name in layers
        if hasattr(ag.nn.functional, name) != hasattr(torch.nn.functional, name)
    ] == []


def test_after_one_import_each_space_is_an_attribute() -> None:
    names = [*filter(None, SPACES)]
    code = f"import ag_visual, operator\nprint(*map(operator.attrgetter(*{names}), [ag_visual]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_elsewhere_is_named_in_the_error() -> None:
    with pytest.raises(AttributeError, match=r"The nearest: nn\.functional\.gelu"):
        _ = ag.gelu
    with pytest.raises(AttributeError, match=r"Tensor\.repeat"):
        _ = ag.repeat
    with pytest.raises(AttributeError):
        _ = ag.annotations


@pytest.mark.parametrize("name", ["gelu", "silu", "linear", "relu"])
def test_functions_are_found_again_by_pickle(name: str) -> None:
    function = getattr(ag.nn.functional, name)
    assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("name", OWN)
def test_own_names_are_documented(name: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [each for each in OWN[name] if f"`{each}`" not in text] == []
