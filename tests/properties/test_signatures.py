"""Public functions, classes and methods that are here take the arguments that torch names."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import ag_visual as ag
from tests.oracle import torch

pytestmark = pytest.mark.oracle

MODULES = (
    *("amp", "autograd", "autograd.forward_ad", "autograd.functional", "autograd.gradcheck"),
    *("autograd.graph", "autograd.profiler", "autograd.profiler_util", "cpu", "cuda"),
    *("distributions", "distributions.constraints", "distributions.kl", "distributions.transforms"),
    *("fft", "func", "futures", "hub", "linalg", "multiprocessing", "nn", "nn.functional"),
    *("nn.init", "nn.parallel", "nn.utils", "nn.utils.parametrizations", "nn.utils.parametrize"),
    *("nn.utils.prune", "nn.utils.rnn", "optim", "optim.lr_scheduler", "optim.swa_utils"),
    *("overrides", "profiler", "random", "serialization", "signal.windows", "sparse", "special"),
    *("testing", "utils.benchmark", "utils.checkpoint", "utils.data", "utils.dlpack"),
)
# Devices that are not here, what is torch's own inside, and names of newer releases than 2.8.
NOT_HERE = {
    **dict.fromkeys(("ipu", "mtia", "xpu"), "a device"),
    **dict.fromkeys(("OptimizerPostHook", "OptimizerPreHook", "profile_hook_step"), "inside"),
    **dict.fromkeys(("check_forward_args", "check_hidden_size", "check_input"), "inside"),
    **dict.fromkeys(("get_expected_cell_size", "get_expected_hidden_size"), "inside"),
    **dict.fromkeys(("merge_masks", "permute_hidden", "recursive_undo"), "inside"),
    **dict.fromkeys(("gather", "parallel_apply", "replicate", "scatter"), "several devices"),
    **dict.fromkeys(("maybe_clear_saved_tensors", "name"), "of the node, which ctx is in torch"),
    **dict.fromkeys(("register_hook", "register_prehook"), "of the node, which ctx is in torch"),
    **dict.fromkeys(("config", "create_trace_id", "default_trace_id"), "of Kineto"),
    **dict.fromkeys(("from_ipc_handle", "ipc_handle", "pin_memory"), "told to leave out"),
    **dict.fromkeys(("check_worker_number_rationality", "collect_callgrind"), "inside"),
}
OTHER_ARGUMENTS = {
    "autograd.NestedIOFunction": "called with the function itself",
    "autograd.enable_grad": "orig_func: torch's own, of decorators",
    "autograd.graph.Node": "torch's take no argument by name",
    "cuda.Event": "external: of CUDA graphs",
    "distributions.CorrCholeskyTransform": "intermediates: torch's own",
    "distributions.transforms.CorrCholeskyTransform": "intermediates: torch's own",
    "distributions.Wishart": "max_try_correction: samples need none here",
    "distributions.constraints.dependent_property": "check raises, whatever it is given",
    "distributions.constraints.multinomial": "a name of another class in torch",
    "nn.ParameterDict": "fromkeys: called on an instance in torch",
    "nn.Sequential": "extend(sequential): any modules here",
    **dict.fromkeys(
        ("nn.functional.glu", "nn.functional.sigmoid", "nn.functional.tanh"),
        "the methods, whose `self` is called `input` by name",
    ),
    "utils.checkpoint.CheckpointFunction": "torch's own",
}


def arguments(function: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (ValueError, TypeError):
        return {}


def untaken(theirs: Any, ours: Any) -> list[str]:
    """The names of arguments that torch has and this function does not take."""
    taken, several = (
        arguments(ours),
        (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL),
    )
    if not taken or any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken.values()):
        return []
    named = [name for name, each in arguments(theirs).items() if each.kind not in several]
    return [name for name in named if name not in taken and name[0] != "_"]


def public(module: str) -> Iterator[tuple[str, Any, Any]]:
    """Path, torch's and ours of what both have under one name."""
    theirs = importlib.import_module(f"torch.{module}")
    ours = importlib.import_module(f"ag_visual.{module}")
    for name in getattr(theirs, "__all__", None) or [n for n in dir(theirs) if n[0] != "_"]:
        pair = getattr(theirs, name, None), getattr(ours, name, None)
        if all(map(callable, pair)):
            yield f"{module}.{name}", *pair


def differing(module: str) -> Iterator[str]:
    """What torch has of a module's functions, classes and methods, and this package has not."""
    for path, theirs, ours in public(module):
        stand_in = "is not here" in (getattr(ours, "__doc__", None) or "")
        tensor = isinstance(theirs, type) and issubclass(theirs, torch.Tensor)
        if path in OTHER_ARGUMENTS or stand_in or tensor:
            continue
        if missing := untaken(theirs, ours):
            yield f"{path}({', '.join(missing)})"
        for name in dir(theirs) if isinstance(theirs, type) else ():
            method = getattr(theirs, name, None)
            if name.startswith("_") or name in NOT_HERE or not callable(method):
                continue
            if not hasattr(ours, name):
                yield f"{path}.{name}"
            elif missing := untaken(method, getattr(ours, name)):
                yield f"{path}.{name}({', '.join(missing)})"


@pytest.mark.parametrize("module", MODULES)
def test_arguments_have_torchs_names(module: str) -> None:
    assert torch.__name__ == "torch"
    assert list(differing(module)) == []


@pytest.mark.parametrize("name", ["glu", "sigmoid", "tanh"])
def test_methods_that_are_functions_take_input_by_name(name: str) -> None:
    function = getattr(ag.nn.functional, name)
    assert function(input=ag.ones(2)).equal(function(ag.ones(2)))


def test_a_planted_difference_is_seen() -> None:
    def theirs(input: Any, dim: int = 0, *, out: Any = None) -> None: ...
    def ours(input: Any, axis: int = 0, **_: Any) -> None: ...
    def strict(input: Any, axis: int = 0) -> None: ...

    assert untaken(theirs, strict) == ["dim", "out"]
    assert untaken(theirs, ours) == []
