"""The parameters of the modules that take part in backwards: who they are, which of them a backward
leaves without a gradient and why, the norms of their values.

Looked at where a backward has other leaves, or another line, than those before it: the steps of a
training cost nothing. Reasons are sought when the log is drained.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from ag_visual.core import source
from ag_visual.core.diagnosis.variable_names import (
    codes_of,
    modules_in,
    optimizers_in,
    parameters_of,
    scopes_of,
    tensors_in,
    trained_by,
)
from ag_visual.core.saved import origin_of
from ag_visual.core.tensor import Tensor
from ag_visual.engine.norms import norm2
from ag_visual.events import live
from ag_visual.events.clock import perf_counter_ns
from ag_visual.events.live import LiveBackward, LiveNode
from ag_visual.events.log import Event
from ag_visual.observe.diagnose.explain import BREAK_KINDS, left_inputs
from ag_visual.observe.diagnose.forward_breaks import Owner, owners_of
from ag_visual.observe.diagnose.no_gradient import FROZEN, Absence, Left, Reasons
from ag_visual.observe.record.graph import walk

WEIGHT_SECONDS: Final = 0.25
"""Time of the processor that norms of values may take at once: what is left then has none."""

_SITUATIONS: Final = 16
"""Sets of leaves, each with the line of its backward, that are remembered."""

_MOST_BREAKS: Final = 256
"""Values that left a graph, the last ones told, that are remembered."""

_OPTIMIZERS: Final = 32
"""Optimizers, those met last, that are asked what they train together."""

_WAITING: Final = 64
"""Backwards whose reasons wait for the next drain."""


class Fact(NamedTuple):
    """What is told of a parameter. module: a number; order: its place among the module's."""

    parameter: int
    module: int
    order: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    storage: int
    trained: bool
    t: int


class Missing(NamedTuple):
    """A parameter that a backward, and those like it after it, gives no gradient."""

    parameter: int
    task: int
    why: Absence
    t: int


@dataclass(slots=True)
class _Parameter:
    number: int
    ref: weakref.ref[Any]
    module: int
    engine: live.Engine | None
    emitted: Fact | None = None


class _Leaf(NamedTuple):
    ref: weakref.ref[Any]
    storage: int
    engine: live.Engine | None


@dataclass(slots=True)
class _Module:
    ref: weakref.ref[Any]
    name: str


@dataclass(slots=True)
class _Pass:
    """A backward that leaves parameters out. breaks: what had left a graph when it began; codes: of
    the user's frames, the innermost first.
    """

    task: int
    t: int
    missing: list[tuple[Fact, list[Owner]]]
    breaks: list[Left]
    codes: list[CodeType]


class Parameters:
    """Parameters by number, as far as they live. `took` follows backwards, in their threads."""

    def __init__(self) -> None:
        self._leaves: tuple[_Leaf, ...] = ()  # of the backward that was looked at last
        self._modules: dict[int, _Module] = {}
        self._optimizers: list[weakref.ref[Any]] = []
        self._known: dict[int, _Parameter] = {}  # by the id of the tensor
        # By what leaves and code are known by: these, held, so that no others get their ids.
        self._met: dict[tuple[int, int], tuple[Any, Any, tuple[_Leaf, ...]]] = {}
        self._meeting = threading.RLock()  # backwards begin in any thread
        self._facts: list[Fact] = []
        self._passes: deque[_Pass] = deque(maxlen=_WAITING)
        self._breaks: deque[Event] = deque(maxlen=_MOST_BREAKS)
        self._numbers = 0

    def took(
        self,
        task: LiveBackward,
        frame: FrameType | None,
        leaves: Sequence[Any],
        *,
        catch_up: Callable[[], None],
        node: Callable[[int], LiveNode | None],
        unseen: bool,
    ) -> None:
        """A backward begins that ends in these leaves.

        catch_up: has `note_breaks` called with all that has left a graph up to now. node: the
        living node of a number. unseen: nobody listened to the forward.
        """
        code = None if task.call_site is None else task.call_site[0]
        refs = tuple(map(weakref.ref, leaves))
        key = hash(tuple(map(id, refs))), id(code)
        known = self._met.get(key)
        if known is not None:
            self._leaves = known[2]
            return
        # While they are watched: another engine's are known no more when it has stopped.
        self._leaves = tuple(_Leaf(ref, _storage(ref()), live.engine_of(ref())) for ref in refs)
        with self._meeting:
            while len(self._met) >= _SITUATIONS:
                del self._met[next(iter(self._met))]
            self._met[key] = refs, code, self._leaves
        taking = {id(leaf) for leaf in leaves}
        if any(self._of(leaf) is None for leaf in leaves):
            self._find(frame, taking)
        now = perf_counter_ns()
        missing = list(self._look(taking, self._together(taking), now))
        if any(fact.trained for fact, _ in missing):
            # Now, while what was detached may still live.
            catch_up()
            breaks = [*self._recorded_breaks(task, node)]
            breaks += self._seen_breaks(task, frame) if unseen else []
            codes = list(codes_of(frame))
            self._passes.append(_Pass(task.id, now, missing, list(dict.fromkeys(breaks)), codes))
        elif missing:
            self._passes.append(_Pass(task.id, now, missing, [], []))

    def note_breaks(self, events: Iterable[Event]) -> None:
        """BREAK events of the log."""
        self._breaks.extend(events)

    def take(self) -> tuple[list[Fact], list[Missing]]:
        """What is new."""
        facts = self._facts[:]
        del self._facts[: len(facts)]
        missing: list[Missing] = []
        while self._passes:
            missing += self._explained(self._passes.popleft())
        return facts, missing

    def weights(self) -> dict[str, Any]:
        """A `Weights` record: norms of all known parameters, and of leaves that are none."""
        known: dict[str, Any] = {}
        others: dict[str, Any] = {}
        left_out = 0
        end = time.thread_time() + WEIGHT_SECONDS
        for one in list(self._known.values()):
            tensor = one.ref()
            if tensor is None or one.emitted is None:
                continue
            if time.thread_time() > end:
                left_out += 1
            elif (norm := _norm(tensor, one.engine)) is not None:
                known[str(one.number)] = norm
        for ref, number, engine in self._leaves:
            tensor, storage = ref(), str(number)
            if tensor is None or self._of(tensor) is not None:
                continue
            if time.thread_time() > end or storage in others:
                left_out += 1
            elif (norm := _norm(tensor, engine)) is not None:
                others[storage] = norm
        return {"parameters": known, "storages": others, "left_out": left_out}

    # Modules ---------------------------------------------------------------------------------

    def _of(self, tensor: Any) -> _Parameter | None:
        found = self._known.get(id(tensor))
        return found if found is not None and found.ref() is tensor else None

    def _find(self, frame: FrameType | None, taking: set[int]) -> None:
        """Get to know the modules of the user's variables that have some of these leaves, or are
        trained together with one of these.
        """
        types = _types()
        found = []
        scopes = list(scopes_of(frame))
        known = {id(ref()) for ref in self._optimizers}
        for scope in scopes:
            for each in optimizers_in(scope):
                if id(each) not in known:
                    known.add(id(each))
                    self._optimizers.append(weakref.ref(each))
        del self._optimizers[:-_OPTIMIZERS]
        taking = self._together(taking)
        for scope in scopes:
            for name, module in modules_in(scope):
                own = [(p, t) for p, t in parameters_of(module) if issubclass(type(t), types)]
                ids = {id(tensor) for _, tensor in own}
                if ids & taking:
                    found.append((name, module, ids))
        # A module inside of another one, and a second name, are told with the first of the larger.
        seen: set[int] = set()
        for name, module, ids in sorted(found, key=lambda each: -len(each[2])):
            if not ids <= seen and not self._knows(module):
                self._add(name, module)
            seen |= ids

    def _together(self, taking: set[int]) -> set[int]:
        """The same leaves, and what the optimizers of some of these train beside them."""
        found = set(taking)
        for ref in self._optimizers:
            own = {id(tensor) for tensor in trained_by(ref())}
            if own & taking:
                found |= own
        return found

    def _knows(self, module: Any) -> bool:
        return any(each.ref() is module for each in self._modules.values())

    def _add(self, name: str, module: Any) -> None:
        try:
            ref = weakref.ref(module)
        except TypeError:  # its class has slots and none for that
            return
        for number, each in list(self._modules.items()):
            if each.ref() is None:
                del self._modules[number]
        self._numbers += 1
        self._modules[self._numbers] = _Module(ref, name)
        for number, one in list(self._known.items()):
            if one.ref() is None:
                del self._known[number]

    def _look(
        self, taking: set[int], together: set[int], now: int
    ) -> Iterator[tuple[Fact, list[Owner]]]:
        """Tell what is new about the modules that have these leaves, or others that are trained
        together with them; their other parameters.
        """
        for number, each in list(self._modules.items()):
            module = each.ref()
            own = [] if module is None else parameters_of(module)
            if not any(id(tensor) in together for _, tensor in own):
                continue
            for order, (path, tensor) in enumerate(own):
                one = self._of(tensor)
                if one is None:
                    self._numbers += 1
                    engine = live.engine_of(tensor)
                    one = _Parameter(self._numbers, weakref.ref(tensor), number, engine)
                    self._known[id(tensor)] = one
                if one.module != number:
                    continue  # it was met in another module first
                fact = _fact(one, tensor, order, f"{each.name}.{path}", now)
                if fact is None:
                    continue
                if one.emitted is None or one.emitted[:-1] != fact[:-1]:
                    one.emitted = fact
                    self._facts.append(fact)
                if id(tensor) not in taking:
                    yield fact, owners_of(module, each.name, path)

    # Reasons ---------------------------------------------------------------------------------

    def _seen_breaks(self, task: LiveBackward, frame: FrameType | None) -> list[Left]:
        """Values among what nodes saved, and the user's variables, that had left a graph."""
        found = [origin for _, origin in left_inputs(task.counts)]
        for scope in scopes_of(frame):
            for _, value in tensors_in(scope):
                # Of single numbers those that are looked at leave a graph: losses and the like.
                if not value.requires_grad and value.numel() > 1:
                    origin = origin_of(value)
                    if origin is not None:
                        found.append(origin)
        breaks = []
        for kind, call_site, *rest in {(o[0], o[1]): o for o in found}.values():
            graph = rest[0]() if rest and rest[0] is not None else None
            of = None if graph is None else self._below(graph)
            if kind in BREAK_KINDS:
                breaks.append(Left(kind, source.resolve_call_site(call_site), of))
        return breaks

    def _below(self, node: LiveNode) -> frozenset[int]:
        """The parameters that a graph ends in."""
        ends = (self._of(each.variable) for each in walk([node]) if each.leaf)
        return frozenset(one.number for one in ends if one is not None)

    def _recorded_breaks(
        self, task: LiveBackward, node: Callable[[int], LiveNode | None]
    ) -> Iterator[Left]:
        """Inputs of the backward's nodes that had left a graph, as far as somebody listened."""
        seqs = {each.seq for each in task.counts}
        for _, _, _, seq, _, kind, code, lasti, maker, _ in self._breaks:
            if seq in seqs and kind in BREAK_KINDS:
                made = node(maker) if maker >= 0 else None
                of = None if made is None else self._below(made)
                yield Left(kind, source.resolve(code, lasti), of)

    def _explained(self, done: _Pass) -> Iterator[Missing]:
        reasons = Reasons(done.breaks, done.codes)
        for fact, owners in done.missing:
            why = reasons.of(fact.parameter, fact.name, owners) if fact.trained else FROZEN
            yield Missing(fact.parameter, done.task, why, done.t)


def _types() -> tuple[type, ...]:
    return (Tensor, *(engine.tensor_type for engine in live.engines))


def _storage(tensor: Any) -> int:
    """The number of a tensor's storage, 0 where its engine tells none."""
    engine = live.engine_of(tensor)
    if engine is not None:
        return engine.storage_of(tensor)
    return int(tensor._storage.uid) if isinstance(tensor, Tensor) else 0


def _fact(one: _Parameter, tensor: Any, order: int, name: str, now: int) -> Fact | None:
    try:
        shape = tuple(int(n) for n in tensor.shape)
        dtype = str(tensor.dtype).rpartition(".")[2]
        trained = bool(tensor.requires_grad)
        storage = _storage(tensor)
    except Exception:  # of a lazy module, without a shape yet
        return None
    return Fact(one.number, one.module, order, name, shape, dtype, storage, trained, now)


def _norm(tensor: Any, engine: live.Engine | None) -> float | str | None:
    """The 2-norm of a tensor's values; 'NaN' and 'Infinity' as words, None where it has none."""
    try:
        square = norm2(tensor._array if engine is None else engine.array_of(tensor))
    except Exception:  # on a device without values, or one that cannot be read now
        return None
    if square < 0:
        return None
    if not math.isfinite(square):
        return "NaN" if math.isnan(square) else "Infinity"
    return math.sqrt(square)
