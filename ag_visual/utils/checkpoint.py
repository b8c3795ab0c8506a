"""Activation checkpointing: part of a forward is run again in backward instead of being saved.

Two ways, as in torch: `use_reentrant=True` runs a backward inside of the backward, False replaces
saved tensors by placeholders and fills them from a second forward, up to the last one needed.

Source: https://pytorch.org/docs/2.8/checkpoint.html
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy

from ag_visual import absent as _absent
from ag_visual.autograd import Function, Variable, backward as run_backward
from ag_visual.autograd.grad_mode import enable_grad, is_grad_enabled, no_grad
from ag_visual.autograd.graph import (
    _current_graph_task_id,
    check_saved_hooks,
    saved_tensors_hooks,
)
from ag_visual.core import modes, source
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.names import only as _only
from ag_visual.ops.tensor.generator import default_of, get_rng_state, set_rng_state

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

_NO_STREAM = ("cpu", "meta")  # devices of which get_device_states tells nothing
_early_stop = True
_debug: bool | None = None
_lone_accesses = itertools.count(1)


class CheckpointError(RuntimeError):
    """The second forward did not save what the first one saved."""


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing: for the forward and for its recomputation."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Generator[None, None, None]:
    """Whether recomputation stops once everything that is needed is there (default: yes)."""
    global _early_stop
    previous, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = previous


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Generator[None, None, None]:
    """Whether errors list what both forwards saved; None leaves it to each `checkpoint` call."""
    global _debug
    previous, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = previous


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Detached tensors that require grad where the given ones do; other values as they are."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}"
        )

    def detached(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        result = value.detach()
        result.requires_grad = value.requires_grad
        return result

    return tuple(detached(value) for value in inputs)


def check_backward_validity(inputs: Sequence[Any]) -> None:
    """Warn when no input requires grad: a reentrant checkpoint then gives no gradients."""
    if not any(isinstance(value, Tensor) and value.requires_grad for value in inputs):
        warn("None of the inputs have requires_grad=True. Gradients will be None")


@contextlib.contextmanager
def _random_state(state: Any) -> Iterator[None]:
    """Draw as in the first forward inside; None draws on."""
    if state is None:
        yield
        return
    outside = get_rng_state()
    set_rng_state(state)
    try:
        yield
    finally:
        set_rng_state(outside)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The devices, besides the CPU, of the tensors among arguments, and their random states."""
    found = [a.device for a in args if isinstance(a, Tensor) and a.device.type not in _NO_STREAM]
    return [d.index or 0 for d in found], [default_of(d.type).get_state() for d in found]


def set_device_states(
    devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None
) -> None:
    """Return devices' random streams to states of `get_device_states`."""
    for _, state in zip(devices, states, strict=False):
        default_of(device_type or "cuda").set_state(state)


class CheckpointFunction(Function):
    """The reentrant way: forward without a graph, backward through a second forward."""

    @staticmethod
    def forward(ctx: Any, function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.function = function
        ctx.random = get_rng_state() if preserve_rng_state else None
        ctx.mixed = modes.state.autocast
        ctx.inputs = [None if isinstance(a, Tensor) else a for a in args]
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with no_grad():
            return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if not Variable._execution_engine.is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
                "passing an `inputs` parameter to .backward(). To resolve this error, you can "
                "either set use_reentrant=False, or call .backward() without passing the `inputs` "
                "argument."
            )
        inputs = list(ctx.inputs)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[place] = tensor
        detached = detach_variable(tuple(inputs))
        with _random_state(ctx.random), enable_grad():
            outputs = modes.in_autocast(ctx.mixed, ctx.function, *detached)
        if isinstance(outputs, Tensor):
            outputs = (outputs,)
        pairs = [
            (output, g)
            for output, g in zip(outputs, grads, strict=True)
            if isinstance(output, Tensor) and output.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        run_backward([output for output, _ in pairs], [g for _, g in pairs])
        found = tuple(v.grad if isinstance(v, Tensor) else None for v in detached)
        return (None, None, *found)


class CheckpointInputs(Function):
    """Saves the inputs of a checkpointed function, so that writing them is noticed."""

    @staticmethod
    def forward(ctx: Any, dummy: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        return dummy.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise AssertionError("the node that holds the inputs of a checkpoint is never run")

    @staticmethod
    def jvp(ctx: Any, t_dummy: Tensor, *moves: Tensor) -> Tensor:
        return t_dummy.clone()  # type: ignore[attr-defined, no-any-return]


class _Placeholder:
    """Stands in a node where a saved tensor would be; `values` by backward."""

    __slots__ = ("__weakref__", "values")

    def __init__(self) -> None:
        self.values: dict[int, Tensor | None] = {}


class _Enough(Exception):
    """Everything that was needed has been recomputed."""


def _facts(tensor: Tensor) -> tuple[Any, ...]:
    return (tuple(tensor.shape), tensor.dtype, tensor.device)


class _Frame:
    """One checkpointed call: what to run again, and what its first forward saved."""

    def __init__(
        self,
        rerun: Callable[..., Any],
        args: tuple[Any, ...],
        compare: bool,
        stop: bool,
        debug: bool,
    ) -> None:
        self.rerun = rerun
        self.compare = compare
        self.stop = stop
        self.debug = debug
        self.placeholders: list[weakref.ref[_Placeholder]] = []
        self.facts: list[tuple[Any, ...]] = []
        self.sites: list[Any] = []
        self.recomputed: set[int] = set()
        self.forward_is_over = False
        self.others = [None if isinstance(a, Tensor) else a for a in args]
        self.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        check_saved_hooks()
        tensors = [args[i] for i in self.places]
        if modes.state.levels:
            # Of a level that is over nothing is computed again: the first op of it says so.
            self.inputs: Any = SimpleNamespace(saved_tensors=tensors)
            return
        with enable_grad():
            dummy = from_array(numpy.zeros(0, numpy.float32), requires_grad=True)
            self.inputs = CheckpointInputs.apply(dummy, *tensors).grad_fn

    def first_forward(self) -> saved_tensors_hooks:
        def pack(tensor: Tensor) -> _Placeholder:
            placeholder = _Placeholder()
            self.placeholders.append(weakref.ref(placeholder))
            self.facts.append(_facts(tensor))
            self.sites.append(source.here())
            return placeholder

        def unpack(placeholder: _Placeholder) -> Tensor:
            task = _current_graph_task_id()
            task = task if task != -1 else -next(_lone_accesses)
            if task not in self.recomputed:
                self.recompute(task)
            if task not in placeholder.values:
                raise CheckpointError("torch.utils.checkpoint: a saved tensor was not recomputed")
            value = placeholder.values.pop(task)
            if task > 0:
                placeholder.values[task] = None
            if value is None:
                raise CheckpointError(
                    "torch.utils.checkpoint: Unpack is being triggered for a tensor that was "
                    "already unpacked once. If you are calling ctx.saved_tensors in backward, make "
                    "sure to do so only once."
                )
            return value

        return saved_tensors_hooks(pack, unpack)

    def recompute(self, task: int) -> None:
        """Run the function again and give its saved tensors to the placeholders."""
        args = list(self.others)
        for place, tensor in zip(self.places, self.inputs.saved_tensors, strict=True):
            args[place] = tensor
        seen: list[tuple[Any, ...]] = []
        sites: list[Any] = []
        mismatch_is_fine = False

        def pack(tensor: Tensor) -> Tensor:
            nonlocal mismatch_is_fine
            if tensor.requires_grad:
                tensor = tensor.detach()  # a tensor without history is saved as the object it is
            index = len(seen)
            seen.append(_facts(tensor))
            sites.append(source.here())
            if index >= len(self.placeholders):
                if not self.forward_is_over:
                    # A backward inside of the forward: more will be saved, and is not needed yet.
                    mismatch_is_fine = True
                    return tensor
                raise CheckpointError(
                    "torch.utils.checkpoint: trying to save more tensors during recomputation than "
                    "during the original forward pass." + self._lists(sites)
                )
            placeholder = self.placeholders[index]()
            if placeholder is not None:
                placeholder.values[task] = tensor
            if self.stop and len(seen) == len(self.placeholders):
                raise _Enough
            return tensor

        hooks = saved_tensors_hooks(pack, lambda tensor: tensor)
        with contextlib.suppress(_Enough), hooks, enable_grad():
            self.rerun(*args)
        self.recomputed.add(task)
        if not mismatch_is_fine:
            self._check(seen, sites)

    def _check(self, seen: list[tuple[Any, ...]], sites: list[Any]) -> None:
        if len(seen) != len(self.facts):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the "
                "original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.facts)}\n"
                f"Number of tensors saved during recomputation: {len(seen)}." + self._lists(sites)
            )
        if not self.compare:
            return
        different = [
            f"tensor at position {i}:\nsaved metadata: {_named(a)}\n"
            f"recomputed metadata: {_named(b)}\n"
            for i, (a, b) in enumerate(zip(self.facts, seen, strict=True))
            if a != b and self.placeholders[i]() is not None
        ]
        if different:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have "
                "different metadata than during the forward pass.\n"
                + "".join(different)
                + self._lists(sites)
            )

    def _lists(self, sites: list[Any]) -> str:
        """The lines that saved in both forwards: all in debug mode, else the first that differs."""
        first = [source.resolve_call_site(place) for place in self.sites]
        again = [source.resolve_call_site(place) for place in sites]
        if self.debug:
            why = (
                "\n You are seeing this error because you passed `debug=True` to checkpoint and "
                "what the original forward saved differs from what its recomputation saved."
            )
            return why + "".join(
                f"\n {title}:\n" + "\n".join(f"  {site.with_text()}" for site in found)
                for title, found in (
                    ("Saved during the original forward", first),
                    ("Saved during recomputation", again),
                )
            )
        for a, b in itertools.zip_longest(first, again):
            if a is None or b is None or (a.file, a.line, a.text) != (b.file, b.line, b.text):
                here = "nothing" if a is None else a.with_text()
                there = "nothing" if b is None else b.with_text()
                return f"\n  first difference: saved by {here}, then by {there}"
        return ""


def _named(facts: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("shape", "dtype", "device"), facts, strict=True))


def _reentrant(name: str, asked: bool | None) -> bool:
    """Which way a caller goes; warns where the program does not say it."""
    if asked is not None:
        return asked
    warn(
        f"{name}: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
        "recommended, but if you need to preserve the current default behavior, you can pass "
        "use_reentrant=True."
    )
    return True


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Run `function(*args, **kwargs)` and save nothing but its inputs: backward runs it again.

    use_reentrant: which way (False is recommended). preserve_rng_state: draw the same random
    numbers again (default). context_fn: gives two context managers, for the forward and for its
    recomputation. determinism_check: "default" compares shape, dtype and device of what was saved,
    "none" doesn't. debug: errors list all lines that saved. early_stop: stop the recomputation when
    everything needed is there. Raises CheckpointError when the two forwards differ.

    >>> import ag_visual as ag
    >>> from ag_visual.utils.checkpoint import checkpoint
    >>> x = ag.tensor([2.], requires_grad=True)
    >>> checkpoint(lambda v: v.exp().sin(), x, use_reentrant=False).backward()
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if _reentrant("torch.utils.checkpoint", use_reentrant):
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
            )
        return CheckpointFunction.apply(function, preserve, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of ['default', 'none'], but got {determinism_check!r}"
        )
    forward_context, recompute_context = context_fn()
    if not is_grad_enabled():
        return function(*args, **kwargs)
    random = get_rng_state() if preserve else None
    mixed = modes.state.autocast
    count = len(args)
    names = list(kwargs)

    def rerun(*given: Any) -> Any:
        with _random_state(random), recompute_context:
            named = dict(zip(names, given[count:], strict=True))
            return modes.in_autocast(mixed, function, *given[:count], **named)

    frame = _Frame(
        rerun,
        (*args, *kwargs.values()),
        compare=determinism_check == "default",
        stop=early_stop and _early_stop,
        debug=debug if _debug is None else _debug,
    )
    with frame.first_forward(), forward_context:
        result = function(*args, **kwargs)
    frame.forward_is_over = True
    return result


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run functions (or a Sequential) one after the other in `segments` checkpointed parts.

    Of each part only the inputs are saved; the last part is not checkpointed. The other arguments
    are those of `checkpoint`.
    """
    reentrant = _reentrant("torch.utils.checkpoint.checkpoint_sequential", use_reentrant)
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    chain = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def part(start: int, end: int) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for function in chain[start:end]:
                value = function(value)
            return value

        return run

    size = len(chain) // segments
    last = size * (segments - 1)
    for start in range(0, last, size or 1):
        input = checkpoint(
            part(start, start + size), input, use_reentrant=reentrant, preserve_rng_state=preserve
        )
    return part(last, len(chain))(input)


__dir__ = _only(__all__, __name__)
__getattr__ = _absent.asked(__name__, "utils.checkpoint")
