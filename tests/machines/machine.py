"""The state machine: random programs of views, writes, hooks and threads, run on both."""

from __future__ import annotations

import threading
from typing import Any

import numpy
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

import ag_visual as ag

from . import reference as ref

names = st.sampled_from(sorted(ref.UNARY))
pairs = st.sampled_from(["add", "mul"])
seeds = st.integers(0, 2**16)

IN_PLACE = {
    "sin": lambda t: t.sin_(),
    "tanh": lambda t: t.tanh_(),
    "neg": lambda t: t.neg_(),
    "square": lambda t: t.square_(),
    "add": lambda t, u: t.add_(u),
    "mul": lambda t, u: t.mul_(u),
}


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
        return self.add(getattr(x.tensor, name)(), ref.unary(name, x.reference))

    @rule(target=tensors, x=tensors, name=names)
    def hooked(self, x: Pair, name: str) -> Pair:
        tensor, reference = getattr(x.tensor, name)(), ref.unary(name, x.reference)
        if tensor.requires_grad:
            tensor.register_hook(lambda g: g * 2)
            reference.track.jacobian = reference.track.jacobian * 2
        return self.add(tensor, reference)

    @rule(target=tensors, x=tensors, y=tensors, name=pairs)
    def binary(self, x: Pair, y: Pair, name: str) -> Pair:
        if x.reference.index.shape != y.reference.index.shape:
            y = x
        tensor = getattr(x.tensor, name)(y.tensor)
        return self.add(tensor, ref.binary(name, x.reference, y.reference))

    @rule(target=tensors, x=tensors, kind=st.sampled_from(["t", "select", "narrow", "flat"]))
    def view(self, x: Pair, kind: str) -> Pair:
        index = x.reference.index
        if kind == "select" and index.ndim and index.shape[0] > 1:
            tensor, index = x.tensor.select(0, 1), index[1]
        elif kind == "narrow" and index.ndim and index.shape[-1] > 1:
            tensor, index = x.tensor.narrow(-1, 0, 2), index[..., :2]
        elif kind == "t" and index.ndim == 2:
            tensor, index = x.tensor.t(), index.T
        else:
            tensor, index = x.tensor.unsqueeze(0), index[None]
        return self.add(tensor, ref.view(x.reference, index))

    @rule(target=tensors, x=tensors)
    def detach(self, x: Pair) -> Pair:
        return self.add(x.tensor.detach(), ref.detached(x.reference))

    def refused(self, x: Pair, recorded: bool, write: Any) -> bool:
        """Writes to leaves (and views of leaves) that require grad raise and change nothing."""
        if not (recorded and x.reference.track.leaf):
            write()
            return False
        before = x.tensor._version
        try:
            write()
        except RuntimeError as error:
            assert "a leaf Variable that requires grad is being used" in str(error) or (  # noqa: PT017
                "a view of a leaf Variable" in str(error)
            )
            assert x.tensor._version == before
            return True
        raise AssertionError("a leaf was written while grad mode was on")

    @rule(x=tensors, name=names, record=st.booleans())
    def write(self, x: Pair, name: str, record: bool) -> None:
        recorded = record and x.reference.track.requires
        with ag.set_grad_enabled(record):
            if self.refused(x, recorded, lambda: IN_PLACE[name](x.tensor)):
                return
        ref.unary_(name, x.reference, record)

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
        recorded = record and (a.track.requires or b.track.requires)
        with ag.set_grad_enabled(record):
            if not (recorded and a.track.leaf) and ref.overlap(a, b):
                with pytest.raises(RuntimeError, match="refer to a single memory location"):
                    IN_PLACE[name](x.tensor, y.tensor)
                return
            if self.refused(x, recorded, lambda: IN_PLACE[name](x.tensor, y.tensor)):
                return
        ref.binary_(name, a, b, record)

    def aliased(self, a: ref.Reference) -> bool:
        return any(
            p.reference.memory is a.memory and p.reference.track is not a.track for p in self.pairs
        )

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

    @rule(x=tensors, seed=seeds)
    def backward(self, x: Pair, seed: int) -> None:
        track = x.reference.track
        assert x.tensor.requires_grad == track.requires
        if not track.requires:
            return
        weights, rows = self.start(x, seed)
        stale = track.history is not None and track.history.stale()
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
            history = pair.reference.track.history
            if pair.reference.track.requires and not (history is not None and history.stale()):
                chosen.append(pair)
        starts = [self.start(pair, seed + i) for i, pair in enumerate(chosen)]
        for pair in chosen:
            # torch, too, regenerates the history of a view lazily and without a lock.
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

    @invariant()
    def values_agree(self) -> None:
        for pair in self.pairs[-6:]:
            numpy.testing.assert_allclose(
                pair.tensor.detach().numpy(), pair.reference.values, rtol=1e-9, atol=1e-12
            )
            assert pair.tensor._version == pair.reference.memory.version
