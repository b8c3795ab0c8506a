"""The state machine: random programs of views, writes, hooks and threads, run on both."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

import ag_visual as ag
from ag_visual.core import modes

from ..near import assert_near
from . import reference as ref

names = st.sampled_from(sorted(ref.UNARY))
pairs = st.sampled_from(["add", "mul"])
kinds = st.sampled_from(["t", "select", "narrow", "flat"])
seeds = st.integers(0, 2**16)

IN_PLACE = {
    "sin": lambda t: t.sin_(),
    "tanh": lambda t: t.tanh_(),
    "neg": lambda t: t.neg_(),
    "square": lambda t: t.square_(),
    "add": lambda t, u: t.add_(u),
    "mul": lambda t, u: t.mul_(u),
}


class _Viewed(ag.autograd.Function):
    """A custom Function that returns a view of its input."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.unsqueeze(0)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g[0]


class _AsItIs(ag.autograd.Function):
    """A custom Function that returns its input, which becomes a view."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


MODES: dict[str, Callable[[], Any]] = {
    ref.DEFAULT: contextlib.nullcontext,
    ref.NO_GRAD: ag.no_grad,
    ref.INFERENCE: ag.inference_mode,
}


def _moved(function: Callable[[Any], Any], x: Any) -> Any:
    return ag.func.jvp(function, (x,), (ag.ones_like(x),))[0]


def _dual(function: Callable[[Any], Any], x: Any) -> Any:
    forward = ag.autograd.forward_ad
    with forward.dual_level():
        return forward.unpack_dual(function(forward.make_dual(x, ag.ones_like(x)))).primal * 1


TRANSFORMS: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "vmap": lambda function, x: ag.vmap(function)(x) if x.dim() else function(x),
    "vjp": lambda function, x: ag.func.vjp(function, x)[0],
    "jvp": _moved,
    "jvp of vjp": lambda function, x: _moved(lambda a: ag.func.vjp(function, a)[0], x),
    "vmap of jvp": lambda function, x: TRANSFORMS["vmap"](lambda a: _moved(function, a), x),
    "vjp of vmap": lambda function, x: ag.func.vjp(lambda a: TRANSFORMS["vmap"](function, a), x)[0],
    "dual": _dual,
    "dual of vmap": lambda function, x: _dual(lambda a: TRANSFORMS["vmap"](function, a), x),
}


def refusing(pattern: str, call: Callable[[], Any]) -> None:
    """A call that must raise, with a text that the pattern matches.

    (Not pytest.raises: what it raises is not a finding to hypothesis, which would stop there.)
    """
    try:
        call()
    except RuntimeError as error:
        assert re.search(pattern, str(error)), f"{error} instead of {pattern!r}"  # noqa: PT017
        return
    raise AssertionError(f"nothing was raised, expected: {pattern}")


def _view(kind: str, tensor: Any, index: Any) -> tuple[Any, Any]:
    """A view of a tensor and the elements that it shows."""
    if kind == "select" and index.ndim and index.shape[0] > 1:
        return tensor.select(0, 1), index[1]
    if kind == "narrow" and index.ndim and index.shape[-1] > 1:
        return tensor.narrow(-1, 0, 2), index[..., :2]
    if kind == "t" and index.ndim == 2:
        return tensor.t(), index.T
    return tensor.unsqueeze(0), index[None]


class Pair:
    """One tensor of the engine and its reference."""

    def __init__(self, tensor: Any, reference: ref.Reference) -> None:
        self.tensor = tensor
        self.reference = reference


class Programs(RuleBasedStateMachine):
    """A program grows by one operation at a time; every backward is compared."""

    tensors = Bundle("tensors")

    def __init__(self) -> None:
        super().__init__()
        self.leaves: list[Any] = []
        self.pairs: list[Pair] = []

    def add(self, tensor: Any, reference: ref.Reference) -> Pair:
        pair = Pair(tensor, reference)
        self.pairs.append(pair)
        return pair

    def values(self, seed: int) -> Any:
        return numpy.random.default_rng(seed).uniform(-1, 1, (2, 3))

    def reads(self, *pairs: Pair) -> bool:
        """Ask for the history of each; False (after checking the error) where one is broken."""
        for pair in pairs:
            if pair.reference.broken():
                pattern = "its base or another view of its base has"
                refusing(pattern, lambda pair=pair: pair.tensor.grad_fn)
                return False
        for pair in pairs:
            pair.reference.read()
        return True

    # Tensors -------------------------------------------------------------------------------------

    @rule(target=tensors, seed=seeds)
    def leaf(self, seed: int) -> Pair:
        values = self.values(seed)
        if len(self.leaves) == ref.LEAVES:
            return self.add(ag.from_numpy(values.copy()), ref.fresh(values))
        tensor = ag.from_numpy(values.copy()).requires_grad_()
        self.leaves.append(tensor)
        return self.add(tensor, ref.leaf(values, len(self.leaves) - 1))

    @rule(target=tensors, seed=seeds)
    def constant(self, seed: int) -> Pair:
        values = self.values(seed)
        return self.add(ag.from_numpy(values.copy()), ref.fresh(values))

    @rule(target=tensors, x=tensors, name=names)
    def unary(self, x: Pair, name: str) -> Pair:
        if not self.reads(x):
            return x
        return self.add(getattr(x.tensor, name)(), ref.unary(name, x.reference))

    @rule(target=tensors, x=tensors, name=names, how=st.sampled_from(sorted(TRANSFORMS)))
    def transformed(self, x: Pair, name: str, how: str) -> Pair:
        """The value of a function that runs at a level; its graph is the one without."""
        if not self.reads(x):
            return x
        if "dual" in how and x.reference.rootless():
            return x  # what it saves is checked, though nobody wants it, as in torch: not modelled
        tensor = TRANSFORMS[how](lambda a: getattr(a, name)(), x.tensor)
        reference = ref.unary(name, x.reference)
        if "dual" in how:  # a copy of the primal, whose memory is nobody's
            self.forget(reference, reference.memory)
        assert tensor.requires_grad == reference.track.requires
        return self.add(tensor, reference)

    def forget(self, reference: ref.Reference, memory: ref.Memory) -> None:
        """What a step has saved of a memory is not that memory, but a copy."""
        for step in reference.parents():
            step.saved[:] = [each for each in step.saved if each[0] is not memory]

    @rule(target=tensors, x=tensors, name=names, how=st.sampled_from(sorted(TRANSFORMS)))
    def written_at_a_level(self, x: Pair, name: str, how: str) -> Pair:
        """The same, computed by a write into a copy."""
        if not self.reads(x) or x.reference.rootless():
            return x
        tensor = TRANSFORMS[how](lambda a: IN_PLACE[name](a * 1), x.tensor)
        reference = ref.unary(name, x.reference)
        self.forget(reference, x.reference.memory)
        if "dual" in how or ("vmap" in how and x.tensor.dim()):
            self.forget(reference, reference.memory)
        reference.memory.version = tensor._version
        for step in reference.parents():
            step.saved[:] = [(memory, memory.version) for memory, _ in step.saved]
        return self.add(tensor, reference)

    @rule(x=tensors, name=names, seed=seeds)
    def tangent(self, x: Pair, name: str, seed: int) -> None:
        """Forward mode and `grad` have the derivative that the reference has."""
        values = x.reference.values
        move = numpy.random.default_rng(seed).uniform(-1, 1, values.shape)
        function, derivative, _ = ref.UNARY[name]
        slope = derivative(values, function(values))
        if not self.reads(x):
            return
        call = lambda a: getattr(a, name)()  # noqa: E731
        found = ag.func.jvp(call, (x.tensor,), (ag.from_numpy(move.copy()),))[1]
        numpy.testing.assert_allclose(found.detach().numpy(), slope * move, rtol=1e-9, atol=1e-12)
        found = ag.func.grad(lambda a: call(a).sum())(x.tensor)
        numpy.testing.assert_allclose(found.detach().numpy(), slope, rtol=1e-9, atol=1e-12)

    @rule(target=tensors, x=tensors, name=names)
    def hooked(self, x: Pair, name: str) -> Pair:
        if not self.reads(x):
            return x
        tensor, reference = getattr(x.tensor, name)(), ref.unary(name, x.reference)
        if tensor.requires_grad:
            tensor.register_hook(lambda g: g * 2)
            reference.track.jacobian = reference.track.jacobian * 2
        return self.add(tensor, reference)

    @rule(target=tensors, x=tensors, y=tensors, name=pairs)
    def binary(self, x: Pair, y: Pair, name: str) -> Pair:
        if x.reference.index.shape != y.reference.index.shape:
            y = x
        if not self.reads(x, y):
            return x
        tensor = getattr(x.tensor, name)(y.tensor)
        return self.add(tensor, ref.binary(name, x.reference, y.reference))

    # Views ---------------------------------------------------------------------------------------

    @rule(
        target=tensors,
        x=tensors,
        kind=kinds,
        made=st.sampled_from([*MODES, ref.DEFAULT]),
    )
    def view(self, x: Pair, kind: str, made: str) -> Pair:
        if made == ref.DEFAULT and not self.reads(x):
            return x
        with MODES[made]():
            tensor, index = _view(kind, x.tensor, x.reference.index)
        return self.add(tensor, ref.view(x.reference, index, made))

    @rule(target=tensors, x=tensors, last=st.booleans())
    def one_of_several(self, x: Pair, last: bool) -> Pair:
        index = x.reference.index
        if not index.ndim or not self.reads(x):
            return x
        which = -1 if last else 0
        tensor = x.tensor.unbind(0)[which]
        return self.add(tensor, ref.view(x.reference, index[which], ref.SEVERAL))

    @rule(target=tensors, x=tensors, same=st.booleans())
    def by_a_function(self, x: Pair, same: bool) -> Pair:
        if not self.reads(x):
            return x
        index = x.reference.index
        tensor = _AsItIs.apply(x.tensor) if same else _Viewed.apply(x.tensor)
        made = ref.FUNCTION if x.reference.track.requires else ref.NO_GRAD
        return self.add(tensor, ref.returned(x.reference, index if same else index[None], made))

    @rule(target=tensors, x=tensors)
    def detach(self, x: Pair) -> Pair:
        return self.add(x.tensor.detach(), ref.detached(x.reference))

    # Writes --------------------------------------------------------------------------------------

    def refused(self, x: Pair, others: list[Pair], record: bool, write: Any) -> bool:
        """Run a write; True where it was refused, as it had to be, and changed nothing."""
        operands = [each.reference for each in others]
        pattern = ref.refusal(x.reference, operands, record)
        with ag.set_grad_enabled(record):
            if not pattern:
                write()
                return False
            before = x.reference.memory.version
            refusing(pattern, write)
        assert x.tensor._version == before
        return True

    @rule(x=tensors, name=names, record=st.booleans())
    def write(self, x: Pair, name: str, record: bool) -> None:
        if not self.refused(x, [], record, lambda: IN_PLACE[name](x.tensor)):
            ref.unary_(name, x.reference, record)

    @rule(target=tensors, x=tensors, kind=kinds, name=names)
    def written_through_a_view(self, x: Pair, kind: str, name: str) -> Pair:
        """What random choice alone rarely puts together."""
        y = self.unary(x, "neg")
        self.write(self.view(y, kind, ref.DEFAULT), name, True)
        return y

    @rule(x=tensors, y=tensors, name=pairs, record=st.booleans())
    def write_with(self, x: Pair, y: Pair, name: str, record: bool) -> None:
        a, b = x.reference, y.reference
        if a.index.shape != b.index.shape:
            return
        shared = a.memory is b.memory and a.track is not b.track
        if shared and (a.track.requires or b.track.requires):
            return  # a detached alias that joins a graph is a base of its own: not modelled
        if not a.track.requires and b.track.requires and self.aliased(a):
            return
        if not self.refused(x, [y], record, lambda: IN_PLACE[name](x.tensor, y.tensor)):
            ref.binary_(name, a, b, record)

    def aliased(self, a: ref.Reference) -> bool:
        return any(
            p.reference.memory is a.memory and p.reference.track is not a.track for p in self.pairs
        )

    # Backward ------------------------------------------------------------------------------------

    def start(self, x: Pair, seed: int) -> tuple[Any, Any]:
        """The gradient to start backward with, for both."""
        shape = x.reference.index.shape
        weights = numpy.random.default_rng(seed).uniform(-1, 1, shape)
        rows = (weights[..., None] * x.reference.jacobian).reshape(-1, ref.WIDTH).sum(0)
        return ag.from_numpy(weights), rows

    def compare(self, expected: Any) -> None:
        for number, tensor in enumerate(self.leaves):
            part = expected[number * ref.SIZE : (number + 1) * ref.SIZE].reshape(2, 3)
            found = 0 * part if tensor.grad is None else tensor.grad.numpy()
            numpy.testing.assert_allclose(found, part, rtol=1e-7, atol=1e-9)
            tensor.grad = None

    def runs(self, x: Pair) -> bool:
        """Is a tensor part of a graph, so that backward may begin with it?"""
        assert x.tensor.requires_grad == x.reference.track.requires
        if not x.reference.track.requires or not self.reads(x):
            return False
        if x.reference.rootless():
            refusing("does not have a grad_fn", lambda: x.tensor.backward(x.tensor))
            return False
        return True

    @rule(x=tensors, seed=seeds)
    def backward(self, x: Pair, seed: int) -> None:
        if not self.runs(x):
            return
        weights, rows = self.start(x, seed)
        stale = any(step.stale() for step in x.reference.parents())
        try:
            x.tensor.backward(weights, retain_graph=True)
        except RuntimeError as error:
            assert stale, f"unexpected: {error}"  # noqa: PT017
            assert "has been modified by an inplace operation" in str(error)  # noqa: PT017
            for tensor in self.leaves:
                tensor.grad = None
            return
        assert not stale, "a saved tensor was modified, and backward did not say so"
        self.compare(rows)

    @rule(x=tensors, y=tensors, z=tensors, seed=seeds)
    def threads(self, x: Pair, y: Pair, z: Pair, seed: int) -> None:
        chosen = []
        for pair in (x, y, z):
            # Asked for here: torch, too, regenerates the history of a view without a lock.
            if self.runs(pair) and not any(step.stale() for step in pair.reference.parents()):
                chosen.append(pair)
        starts = [self.start(pair, seed + i) for i, pair in enumerate(chosen)]
        for pair in chosen:
            pair.tensor.grad_fn  # noqa: B018
        running = [
            threading.Thread(
                target=pair.tensor.backward, args=(weights,), kwargs={"retain_graph": True}
            )
            for pair, (weights, _) in zip(chosen, starts, strict=True)
        ]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        self.compare(sum((rows for _, rows in starts), numpy.zeros(ref.WIDTH)))

    def teardown(self) -> None:
        """Every program ends with a backward of what it made last: what is wrong shows."""
        for seed, pair in enumerate(self.pairs[-12:]):
            self.backward(pair, seed)

    @invariant()
    def nothing_stays_open(self) -> None:
        """No level, no tangent and no mode is left behind."""
        state = modes.state
        assert (state.levels, state.differentiating, state.slow) == ((), None, 0)
        assert (modes.duals, modes.plain_duals) == (0, 0)
        assert (modes.special, modes.slowed) == (0, 0)
        assert state.grad
        assert state.forward

    @invariant()
    def values_agree(self) -> None:
        for pair in self.pairs[-6:]:
            assert_near(pair.tensor.detach().numpy(), pair.reference.values, 1e-9, 1e-12)
            assert pair.tensor._version == pair.reference.memory.version
