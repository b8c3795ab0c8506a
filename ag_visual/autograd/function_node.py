"""The node of one call of a custom Function, which is also its ctx.

`custom_function` makes them; torch's names for them are in `function`.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from ag_visual.arrays.backend import Backend
from ag_visual.autograd.given import Given, argument_name
from ag_visual.core import modes, saved
from ag_visual.core.diagnosis import errors
from ag_visual.core.node import Meta, Node
from ag_visual.core.saved_tensor import SavedTensor, raw_saved
from ag_visual.core.source import here, warn
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.validate_grad import check_compatible
from ag_visual.engine.hook_calls import wrap
from ag_visual.events import instrument
from ag_visual.events.log import EventLog
from ag_visual.events.node_record import sequence


class FunctionCtx:
    """What `forward`, `setup_context` and `backward` may call on their ctx."""

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (or None) for `backward`; read them as `ctx.saved_tensors`."""
        for i, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    "save_for_backward can only save variables, but argument "
                    f"{i} is of type {type(tensor).__name__}"
                )
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (or None) for `jvp`."""
        for i, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save "
                    f"non-tensors as attributes on ctx. (Argument {i} is of type "
                    f"{type(tensor).__name__}.)"
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Say which inputs `forward` modified in place; they must be outputs, too."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say which outputs carry no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros (default) or None for outputs without gradient."""
        self.materialize_grads = value

    def mark_shared_storage(self, *pairs: object) -> None:
        """Deprecated and without effect, as in torch."""
        warn(
            "mark_shared_storage is deprecated. Tensors with shared storages are automatically "
            "tracked. Note that calls to `set_()` are not tracked",
            FutureWarning,
        )


class BackwardCFunction(Node, FunctionCtx):
    """The node of one call of a custom Function, and its ctx."""

    _forward_cls: type[Any]  # the user's Function
    runs_undefined = True

    def __init__(self) -> None:
        self.next = ()
        self.seq = next(sequence)
        call_site = here()
        self.code, self.lasti = (None, 0) if call_site is None else call_site
        self.outs = None
        self.hooks = None
        self.freed = None
        self._metadata = None
        self.needs_input_grad: tuple[bool, ...] = ()
        self.materialize_grads = True
        # Whether backward gets zeros (else None) for outputs that carry no gradient.
        self._materialize_non_diff_grads = True
        self.to_save: tuple[Tensor | None, ...] = ()
        self.saved_for_forward: tuple[Tensor | None, ...] = ()
        self.dirty_tensors: tuple[Tensor, ...] = ()
        self.non_differentiable: tuple[Tensor, ...] = ()
        self._saves = False
        self.s_saved_tensors: Any = ()
        self.t_saved_tensors: Any = ()
        self._positions: tuple[int, ...] = ()
        if modes.streams is not None:
            modes.streams.made(self)
        self._given: tuple[Given, ...] = ()  # all arguments of forward, to run it again
        self._backend: Backend | None = None  # of its outputs; None where it returned no tensor
        self._metas: tuple[Meta | None, ...] = ()
        self._fixed: tuple[bool, ...] = ()  # which outputs carry no gradient
        # Positions of the inputs that backward gave None, though they wanted a gradient.
        self._missed: frozenset[int] = frozenset()
        self._reported: tuple[ref[EventLog] | None, frozenset[int]] = (
            None,
            frozenset(),
        )  # which of them, and to whom
        if modes.anomaly is not None:
            self.keep_stack()

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} object at {id(self):#x}>"

    @property
    def saved_names(self) -> tuple[str, ...]:
        return ("saved_tensors",) if self._saves else ()

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """What `save_for_backward` was given; raises when it was freed or modified since."""
        if self.s_saved_tensors is None:
            raise errors.freed_graph(self)
        return saved.traced_all(self, "saved_tensors", self.s_saved_tensors)

    @property
    def saved_variables(self) -> tuple[Tensor, ...]:
        warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning)
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> SavedTensor | tuple[SavedTensor, ...]:
        if self.s_saved_tensors is None:
            raise errors.freed_graph(self)
        return raw_saved(self, "saved_tensors")

    def raw(self, F: Any, g: Any) -> list[Any]:
        arrived = [g] if self.outs is None else g or ()
        given = [wrap(x) for x in arrived]
        found = self._run(given)
        return [None if x is None else x._array for x in found]

    def traced(self, g: Any) -> list[Tensor | None]:
        return self._run(list(g) if self.outs and g is not None else [g])

    def release(self) -> None:
        self.s_saved_tensors = None

    def _run(self, grads: list[Any]) -> list[Tensor | None]:
        count = len(self._metas)
        grads = grads if len(grads) == count else [None] * count
        if self.materialize_grads and self._backend is not None:
            xp = self._backend.xp
            grads = [
                from_array(xp.zeros(meta[0], dtype=meta[1]))
                if g is None and meta and (self._materialize_non_diff_grads or not fixed)
                else g
                for g, meta, fixed in zip(grads, self._metas, self._fixed, strict=True)
            ]
        arrived = any(g is not None for g in grads)
        results = self._checked(self.apply(*grads))
        if arrived and None in results:
            self._report_missed(results)
        return results

    def _report_missed(self, results: list[Tensor | None]) -> None:
        edges = zip(self._positions, self.next, results, strict=True)
        missed = {at: edge for at, edge, g in edges if edge is not None and g is None}
        self._missed |= missed.keys()
        # Once to each that records, however often a retained graph runs.
        listener, reported = self._reported
        if instrument.sink is None:
            return
        if listener is None or listener() is not instrument.sink:
            listener, reported = ref(instrument.sink), frozenset()
        for at in sorted(missed.keys() - reported):
            name = argument_name(self._forward_cls, at)
            backward = self._forward_cls._user_backward()
            saved.report_none(self, name, backward, missed[at])
        self._reported = listener, reported | missed.keys()

    def apply(self, *grads: Any) -> Any:
        """Call the user's backward (or vjp)."""
        return self._forward_cls._user_backward()(self, *grads)

    def _checked(self, found: object) -> list[Tensor | None]:
        """The user's gradients, one for each tensor input."""
        values = list(found) if isinstance(found, tuple) else [found]
        expected = len(self.needs_input_grad)
        if len(values) > expected and all(v is None for v in values[expected:]):
            values = values[:expected]
        if len(values) != expected:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected "
                f"{expected}, got {len(values)})"
            )
        edges = dict(zip(self._positions, self.next, strict=True))
        results: list[Tensor | None] = []
        for position, value in enumerate(values):
            if position not in edges:
                if value is not None:
                    raise RuntimeError(
                        f"function {self.name()} returned a gradient different than None at "
                        f"position {position + 1}, but the corresponding forward input was not a "
                        "Variable"
                    )
                continue
            if value is not None and not isinstance(value, Tensor):
                raise RuntimeError(f"expected Variable or None (got {type(value).__name__})")
            edge = edges[position]
            if value is not None and edge is not None:
                self._check_gradient(position, value._array, edge)
            results.append(value)  # where no gradient is wanted, too: hooks and NaN checks see it
        return results

    def _check_gradient(
        self, position: int, g: Any, edge: tuple[Node, int, tuple[int, ...] | None, Any]
    ) -> None:
        """A gradient that the user's backward returned must be one of its input."""
        node, number, shape, dtype = edge
        if shape is None:  # of a node with several outputs, each with its own
            shape, dtype = (node.shape, node.dtype) if node.outs is None else node.outs[number]
        check_compatible(self, position, g.shape, shape)
        if g.dtype.kind == "c" != dtype.kind:
            raise RuntimeError(
                "Expected isFloatingType(grad.scalar_type()) || (input_is_complex == "
                "grad_is_complex) to be true, but got false: Function "
                f"{self.name()} returned a complex gradient at index {position} for a real input; "
                "return its real part."
            )
