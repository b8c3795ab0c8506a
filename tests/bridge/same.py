"""What a program can see of a run, bit for bit, and programs of torch's own tables to run."""

from __future__ import annotations

import argparse
import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import ag_visual as ag

from ..oracle import table, torch


def tensors(value: Any) -> list[Any]:
    """All tensors in a structure."""
    flat, _ = torch.utils._pytree.tree_flatten(value)
    return [each for each in flat if isinstance(each, torch.Tensor)]


def fresh(value: Any) -> Any:
    """The structure with tensors of its own."""

    def copy(each: Any) -> Any:
        if not isinstance(each, torch.Tensor):
            return each
        return each.detach().clone().requires_grad_(each.requires_grad)

    return torch.utils._pytree.tree_map(copy, value)


def bits(tensor: Any) -> Any:
    """Everything of a tensor, comparable."""
    if tensor is None:
        return None
    tensor = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    data = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
    return str(tensor.dtype), tuple(tensor.shape), tensor.stride(), data.numpy().tobytes()


def seen(forward: Callable[[], Any], leaves: Callable[[], Any]) -> list[Any]:
    """All that a program can see of a forward and its backward."""
    found: list[Any] = []
    torch.manual_seed(0)
    try:
        outputs = tensors(forward())
        for output in outputs:
            found += [bits(output), output._version, type(output.grad_fn).__name__]
        roots = [output for output in outputs if output.requires_grad]
        if roots:
            torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])
        found += [(bits(each.grad), each._version) for each in leaves()]
    except Exception as error:
        found.append((type(error), str(error).partition("\n")[0]))
    return found


Program = Callable[[], list[Any]]


def ops(entries: list[Any], most: int) -> Iterator[tuple[str, Program]]:
    """(name, program) of samples of operations or Functions, at most so many of each."""
    for op in entries:
        if torch.float64 not in op.dtypes:
            continue
        samples = iter(op.sample_inputs("cpu", torch.float64, requires_grad=op.supports_autograd))
        for sample in (sample for sample, _ in zip(samples, range(most), strict=False)):
            yield op.name, lambda op=op, sample=sample: _op(op, sample)  # type: ignore[misc]


def writes(entries: list[Any]) -> Iterator[tuple[str, Program]]:
    """The same of operations written in place, into a copy: a leaf refuses it."""
    for op in entries:
        write = op.inplace_variant
        if torch.float64 not in op.dtypes or write is None:
            continue
        for sample in op.sample_inputs("cpu", torch.float64, requires_grad=op.supports_autograd):
            if isinstance(sample.input, torch.Tensor):
                call: Any = functools.partial(_op, write, sample, into=torch.Tensor.clone)
                yield f"{op.name}_", call


def errors(entries: list[Any]) -> Iterator[tuple[str, Program]]:
    """The same of what an operation must refuse."""
    for op in entries:
        if op.error_inputs_func is not None:
            for given in op.error_inputs("cpu"):
                yield f"{op.name}, refused", functools.partial(_op, op, given.sample_input)


def _op(op: Any, sample: Any, into: Callable[[Any], Any] = lambda first: first) -> list[Any]:
    first, args, kwargs = fresh((sample.input, sample.args, sample.kwargs))
    inputs = [each for each in tensors((first, args, kwargs)) if each.requires_grad]
    return seen(lambda: op(into(first), *args, **kwargs), lambda: inputs)


def modules(entries: list[Any], most: int) -> Iterator[tuple[str, Program]]:
    """(name, program) of samples of modules, in training and evaluation."""
    for info in entries:
        if torch.float64 not in info.dtypes:
            continue
        for training in (True, False):
            samples = info.module_inputs_func(
                info, device="cpu", dtype=torch.float64, requires_grad=True, training=training
            )
            for sample in [each for each in samples if each.forward_input is not None][:most]:
                yield (
                    info.name,
                    lambda info=info, sample=sample, on=training: _module(info, sample, on),  # type: ignore[misc]
                )


def _module(info: Any, sample: Any, training: bool) -> list[Any]:
    made: list[Any] = []

    def forward() -> Any:
        made_of, given = sample.constructor_input, sample.forward_input
        module = info.module_cls(*made_of.args, **made_of.kwargs).to(torch.float64)
        module.train(training)
        args, kwargs = fresh((given.args, given.kwargs))
        made.extend(module.parameters())
        made.extend(module.buffers())
        made.extend(each for each in tensors((args, kwargs)) if each.requires_grad)
        return module(*args, **kwargs)

    return seen(forward, lambda: made)


def compare(programs: Iterator[tuple[str, Program]], **options: Any) -> tuple[int, list[str]]:
    """How many were the same watched, and the names of the others."""
    same, others = 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, program in programs:
            alone = program()
            if alone != program():
                continue  # it differs by itself: memory that nothing was written to
            with ag.watch(torch, **options):
                watched = program()
            if watched == alone:
                same += 1
            else:
                others.append(name)
    return same, others


def main() -> None:
    """All samples: `python -m tests.bridge.same`; an eighth of them: `--part 0/8`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--part", default="0/1", help="which part of how many")
    parser.add_argument("--problems-only", action="store_true")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    torch.set_num_threads(1)
    # Memory that nothing was written to holds NaNs, not what was there before.
    torch.use_deterministic_algorithms(True, warn_only=True)

    def some(module: str, name: str) -> list[Any]:
        return table(module, name)[part::parts]

    operations = some("common_methods_invocations", "op_db")
    everything = sys.maxsize
    programs: dict[str, Any] = {
        "modules": modules(some("common_modules", "module_db"), everything),
        "Functions": ops(some("autograd_function_db", "autograd_function_db"), everything),
        "errors": errors(operations),
        "writes": writes(operations),
        "operations": ops(operations, everything),
    }
    for label, each in programs.items():
        same, others = compare(each, problems_only=options.problems_only)
        print(f"{label}: {same} samples are the same, {len(others)} differ {others}", flush=True)


if __name__ == "__main__":
    main()
