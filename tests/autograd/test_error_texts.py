"""Every error text of torch.autograd 2.8 that users search for is raised by what it was raised by.

tests/golden/error_texts.tsv has the phrases (plain, or patterns); `CAUSES` what causes each.
"""

from __future__ import annotations

import copy
import csv
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ag_visual as t
from ag_visual.autograd import Function, grad, graph
from ag_visual.core.tensor import from_array
from tests.programs import raised

GOLDEN = Path(__file__).parents[1] / "golden" / "error_texts.tsv"
ROWS = {
    row["id"]: row
    for row in csv.DictReader(
        GOLDEN.read_text().splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE
    )
}
CAUSES: dict[str, Callable[[], Any]] = {}


def cause(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def add(function: Callable[[], Any]) -> Callable[[], Any]:
        CAUSES[name] = function
        return function

    return add


def leaf(*shape: int) -> Any:
    return t.ones(*(shape or (2,)), requires_grad=True)


class Double(Function):
    """A custom function whose behaviour each cause changes."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def custom(name: str = "MyFunction", **methods: Callable[..., Any]) -> type[Double]:
    return type(name, (Double,), {key: staticmethod(value) for key, value in methods.items()})


class Elsewhere(t.Tensor):
    """A tensor that says it is on another device."""

    device = t.device("cuda:0")  # type: ignore[assignment]


CAUSES |= {
    "A1": lambda: t.autograd.backward([leaf().sum(), t.ones(1)]),
    "A2": lambda: leaf().backward(),
    "A3": lambda: (leaf() * 1j).sum().backward(),
    "A4": lambda: leaf().sum().backward(t.ones(4)),
    "A5": lambda: leaf().sum().backward(t.tensor(1j)),
    "A6": lambda: t.autograd.backward(leaf().sum(), inputs=[]),
    "A7": lambda: grad(leaf().sum(), []),
    "A8": lambda: grad(leaf().sum(), leaf()),
    "A9": lambda: grad(leaf().sum(), leaf(), allow_unused=False, materialize_grads=True),
    "A10": lambda: grad(leaf().sum(), graph.get_gradient_edge(leaf()), materialize_grads=True),
    "A11": lambda: grad(leaf(), leaf(), t.ones(2, 3), is_grads_batched=True),
    "A13": lambda: grad(leaf().sum(), t.ones(2)),
    "A14": lambda: graph.get_gradient_edge(t.ones(2)),
    "B1": lambda: (leaf() * 2).requires_grad_(False),
    "B2": lambda: setattr(t.ones(2, dtype=t.int64), "requires_grad", True),
    "B3": lambda: t.ones(2, dtype=t.int64, requires_grad=True),
    "B4": lambda: t.ones(2, dtype=t.int64).requires_grad_(),
    "B5": lambda: leaf().view(2).add_(1),
    "B6": lambda: leaf().narrow(0, 0, 1).add_(1),
    "B7": lambda: setattr(leaf(), "grad", 1),
    "B8": lambda: setattr(leaf(5, 5), "grad", t.ones(2, 2)),
    "B11": lambda: setattr(leaf(), "data", None),
    "B12": lambda: setattr(t.ones(2), "requires_grad", 3),
    "B15": lambda: setattr(leaf(), "data", from_array(t.ones(2)._array, cls=Elsewhere)),
    "B16": lambda: setattr(leaf(), "data", t.ones(2, dtype=t.int64)),
    "B17": lambda: leaf().numpy(),
    "B18": lambda: t.mul(leaf(), leaf(), out=t.ones(2)),
    "B19": lambda: t.ones(2).imag,
    "B21": lambda: setattr(leaf(), "grad", t.ones(2, dtype=t.float64)),
    "B22": lambda: copy.deepcopy(leaf() * 2),
    "C2": lambda: t.autograd.grad_mode._unsafe_set_version_counter((t.ones(2),), (-1,)),
    "C3": lambda: (leaf() * 2).view(2).detach_(),
    "C4": lambda: (leaf() * 2).unbind()[0].add_(1),
    "C6": lambda: t.ones(2).unbind()[0].mul_(leaf(1).sum()),
    "D1": lambda: (leaf() * 2).register_post_accumulate_grad_hook(print),
    "D3": lambda: graph.register_multi_grad_hook([leaf()], print, mode="foo"),  # type: ignore[arg-type]
    "D4": lambda: t.ones(2).register_hook(print),
    "D5": lambda: t.ones(2).retain_grad(),
    "E1": lambda: (leaf() * 2).grad_fn._raw_saved_self.register_hooks(abs, abs),
    "E4": lambda: type((leaf() * leaf()).grad_fn._raw_saved_self)(),
    "E5": lambda: (leaf() * leaf()).grad_fn._raw_saved_self.register_hooks(abs),
    "F1": lambda: Double()(leaf()),
    "F2": lambda: Double(),
    "F3": lambda: type("Empty", (Function,), {}).apply(leaf()),  # type: ignore[attr-defined]
    "F4": lambda: custom(backward=Function.backward).apply(leaf()).sum().backward(),
    "F5": lambda: custom(vjp=lambda ctx, g: g).apply(leaf()).sum().backward(),
    "F7": lambda: custom(backward=lambda ctx, g: g.new_ones(10)).apply(leaf(5, 5)).sum().backward(),
    "F9": lambda: custom(forward=lambda ctx, x: (ctx.mark_dirty(x), x * 1)[1]).apply(t.ones(2)),
    "F10": lambda: custom(forward=lambda ctx, x: [y := x * 1, ctx.mark_dirty(y), y][-1]).apply(
        leaf()
    ),
    "F15": lambda: custom(name="F1", backward=lambda ctx, g: (g, g)).apply(leaf()).sum().backward(),
    "F16": lambda: custom(backward=lambda ctx, g: "no").apply(leaf()).sum().backward(),
    "F17": lambda: custom(forward=lambda ctx, x: ctx.save_for_backward("no")).apply(leaf()),
    "F18": lambda: custom(forward=lambda ctx, x: (ctx.mark_dirty(x), x.add_(1))[1]).apply(leaf()),
    "H1": lambda: graph._will_engine_execute_node(leaf()),
    "H2": lambda: graph._get_should_execute_nodes([]),
    "H4": lambda: graph._current_graph_task_execution_order(),
    "H6": lambda: (leaf() * 2).grad_fn(1, 2),
    "I1": lambda: t.heaviside(leaf(), t.ones(2)).sum().backward(),
    "M1": lambda: t.no_grad()(type("Decorated", (), {"__init__": lambda self: None})),
    "M2": lambda: (leaf() * 2).grad,
    "M3": lambda: leaf().sum().backward(create_graph=True),
    "M4": lambda: float(leaf(1)),
    "H7": lambda: t.autograd.Variable._execution_engine.queue_callback(print),
}


@cause("I4")
def twice_through_a_product() -> None:
    src = t.zeros(2, requires_grad=True)
    y = t.ones(1).scatter_reduce(0, t.tensor([0, 0]), src, "prod")
    (g,) = grad(y.sum(), src, create_graph=True)
    g.sum().backward()


@cause("A12")
def freed() -> None:
    y = leaf().exp().sum()
    y.backward()
    y.backward()


@cause("B9")
def own_grad() -> None:
    x = leaf()
    x.grad = x


@cause("B10")
def delete_data() -> None:
    del leaf().data


@cause("B13")
def delete_grad_fn() -> None:
    del (leaf() * 2)._grad_fn


@cause("B14")
def delete_hooks() -> None:
    del leaf()._backward_hooks


def inference(made: Callable[[], Any] = lambda: t.ones(2)) -> Any:
    with t.inference_mode():
        return made()


@cause("B20")
def inference_requires_grad() -> None:
    inference().requires_grad_()


@cause("C1")
def modified() -> None:
    y = leaf(5, 5) + 1
    z = y * y
    y.add_(1)
    z.sum().backward()


def no_grad_view(x: Any) -> Any:
    with t.no_grad():
        return x.view(2)


CAUSES |= {
    "C5": lambda: no_grad_view(leaf() * 2).add_(1),
    "C7": lambda: no_grad_view(leaf() * 2).view(2).add_(1),
    "C12": lambda: inference().add_(1),
    "C13": lambda: inference() * leaf(),
    "C14": lambda: inference()._version,
    "C11": lambda: custom(forward=lambda ctx, x: x).apply(t.ones(2)).mul_(leaf()),
}


@cause("C8")
def inference_view() -> None:
    x = leaf() * 2
    inference(lambda: x.view(2)).add_(1)


@cause("C9")
def inference_view_base() -> None:
    x = leaf() * 2
    view = inference(lambda: x.view(2))
    x.add_(1)
    view.grad_fn  # noqa: B018 - reading it raises


@cause("C10")
def inference_view_of_view() -> None:
    x = leaf() * 2
    inference(lambda: x.view(2)).view(2).add_(1)


@cause("D2")
def post_accumulate_result() -> None:
    x = leaf()
    x.register_post_accumulate_grad_hook(lambda p: 1)
    x.sum().backward()


def hooked(hook: Callable[[Any], Any]) -> None:
    x = leaf() * 1
    x.register_hook(hook)
    x.sum().backward()


@cause("D9")
def number_of_values() -> None:
    x = leaf() * leaf()
    x.grad_fn.register_hook(lambda gi, go: gi * 2 + gi[:1])
    x.sum().backward()


def pack(x: Any, unpacked: Callable[[Any], Any] = lambda v: v) -> Any:
    with graph.saved_tensors_hooks(lambda v: v, unpacked):
        return x * leaf()


CAUSES |= {
    "D6": lambda: hooked(lambda g: g.double()),
    "D7": lambda: hooked(lambda g: g.view(2, 1)),
    "D8": lambda: hooked(lambda g: "no"),
    "E3": lambda: pack(leaf()).grad_fn._raw_saved_self.register_hooks(abs, abs),
    "E6": lambda: pack(leaf(), lambda v: 1).sum().backward(),
}


@cause("E2")
def hooks_after_free() -> None:
    y = leaf() * leaf()
    y.sum().backward()
    y.grad_fn._raw_saved_self.register_hooks(abs, abs)


@cause("E7")
def pack_writes() -> None:
    x = t.ones(2)
    with graph.saved_tensors_hooks(lambda v: v.detach().add_(1), lambda v: v):
        x * leaf()


@cause("E8")
def detached_in_place() -> None:
    x = leaf() * 1
    y = x.sin()
    x.detach_()
    y.sum().backward()


@cause("E9")
def outside_of_the_context() -> None:
    with graph.allow_mutation_on_saved_tensors():
        y = leaf() * leaf()
    y.sum().backward()


@cause("E10")
def nested_contexts() -> None:
    with graph.allow_mutation_on_saved_tensors(), graph.allow_mutation_on_saved_tensors():
        pass


@cause("F8")
def dirty_view_and_two_outputs() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.add_(1), x * 2

    custom(forward=forward).apply((leaf() * 1).view(2))


@cause("G1")
def nan() -> None:
    with t.autograd.detect_anomaly():
        custom(name="MyFunc", backward=lambda ctx, g: g * float("nan")).apply(
            leaf()
        ).sum().backward()


@cause("G2")
def anomaly_warns() -> None:
    t.autograd.detect_anomaly()


@cause("G3")
def anomaly_traceback() -> None:
    with t.autograd.detect_anomaly():
        (leaf() - 1).sqrt().mul(0).sum().backward()


@cause("G4")
def anomaly_hint() -> None:
    with t.autograd.detect_anomaly():
        modified()


@cause("H3")
def leaf_under_grad() -> None:
    x = leaf()
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    y.register_hook(lambda g: graph._will_engine_execute_node(node))
    grad(y.sum(), x)


@cause("H5")
def order_with_multithreading() -> None:
    y = leaf() * 2
    y.register_hook(lambda g: graph._current_graph_task_execution_order())
    y.sum().backward()


def test_every_row_has_a_cause() -> None:
    assert set(CAUSES) == set(ROWS)


def _found(name: str) -> list[tuple[str, str]]:
    """The types and texts of all that was raised and warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kind, text = raised(CAUSES[name])
    seen = [(c.__name__, str(w.message)) for w in caught for c in type(w.message).__mro__]
    return [(kind, text), *seen]


@pytest.mark.parametrize("name", ROWS)
def test_error_text(name: str) -> None:
    row = ROWS[name]
    kinds = row["exception"].split(" ")[0].split("/")
    phrase = row["phrase"].replace("\\n File ... \\n (Triggered int", "")
    found = _found(name)
    texts = [text for kind, text in found if kind in kinds]
    assert texts, found
    assert any(phrase in text or re.search(phrase, text) for text in texts), (phrase, found)
