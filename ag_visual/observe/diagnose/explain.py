"""`ag.explain(x, loss)`: why a tensor has no gradient, or does not require one, in words.

Reads what tensors and nodes remember anyway; looks into the user's variables for the place where a
path was broken.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from ag_visual.autograd.given import argument_name
from ag_visual.core import source
from ag_visual.core.diagnosis.source_rewrite import goes_to_numpy, without_attribute
from ag_visual.core.node import Node
from ag_visual.core.saved import origin_of
from ag_visual.core.tensor import Tensor
from ag_visual.errors import type_name
from ag_visual.events.live import engine_of
from ag_visual.observe.diagnose.forward_breaks import GraphBreak, Unused, left_in_forward, name_of
from ag_visual.observe.diagnose.graph_breaks import breaks_in_source
from ag_visual.observe.record.graph import walk
from ag_visual.observe.record.leaf_names import scopes_of

MANY = 3
"""Places of one kind that are named."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason: words, and where there is one the line.

    kind: 'has-grad', 'integer-dtype', 'inference', 'detached', 'no-grad', 'graph-break',
    'non-differentiable', 'not-asked', 'not-leaf', 'not-connected', 'no-backward', 'undefined' or
    'requires-grad'.
    repair: what to do about it, where something can be done.
    """

    kind: str
    text: str
    site: source.Site | None = None
    repair: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer of `explain`: reasons, the nearest one first, and what to do."""

    question: str
    reasons: tuple[Reason, ...]
    advice: str

    def __str__(self) -> str:
        lines = [self.question, *(f"  - {reason.text}" for reason in self.reasons)]
        if self.advice:
            lines.append(f"  what to do: {self.advice}")
        return "\n".join(lines)

    __repr__ = __str__


_BREAKS = {
    "detach": "detached",
    "detach_": "detached by detach_()",
    "data": "taken from .data",
    "no_grad": "made under no_grad",
    "inference": "made in inference mode",
    "non_differentiable": "marked with ctx.mark_non_differentiable in the forward of its Function",
    "dtype": "made by an operation whose result is not differentiable (an integer or bool dtype)",
}

BREAK_KINDS: Final = frozenset(_BREAKS)
"""How a tensor can leave its graph."""


def explain(x: Tensor, loss: Tensor | None = None) -> Explanation:
    """Why is `x.grad` None, or why does `x` not require grad?

    loss: what backward was (or will be) called on; with it the answer says whether `loss` depends
    on `x`, and where the path between them was broken. Nothing is computed and nothing is changed.
    Raises TypeError when one of them is not a Tensor.

    >>> import ag_visual as ag
    >>> x = ag.tensor([1.], requires_grad=True)
    >>> y = (x * 2).detach()
    >>> ag.explain(y).reasons[0].kind
    'detached'
    """
    engine = engine_of(x)
    if engine is not None and (loss is None or engine_of(loss) is engine):
        answer: Explanation = engine.explain(x, loss, sys._getframe(1))
        return answer
    for name, value in (("x", x), ("loss", loss)):
        if not isinstance(value, Tensor) and (name == "x" or value is not None):
            raise TypeError(f"explain(): {name} must be a Tensor, not {type_name(value)}")
    frame = sys._getframe(1)
    if not x.requires_grad:
        return _explain_requires_grad(x, label_of(x, frame, "This tensor"), frame)
    return _explain_grad(x, loss, frame)


def label_of(x: Any, frame: Any, default: str, types: tuple[type, ...] = ()) -> str:
    """The user's name for a tensor in backticks: of a variable, or `model.enc.weight`."""
    name = name_of(x, frame, types)
    return f"`{name}`" if name else default


def placed(site: source.Site | None) -> str:
    return f" at {site.with_text()}" if site is not None and site.line else ""


def _origin(x: Tensor) -> tuple[str, source.Site] | None:
    """How and where a tensor left the graph."""
    origin = origin_of(x)
    if origin is None:
        return None
    return origin[0], source.resolve_call_site(origin[1])


def break_reason(what: str, kind: str, site: source.Site) -> Reason:
    named = {
        "dtype": "integer-dtype",
        "no_grad": "no-grad",
        "inference": "inference",
        "non_differentiable": "non-differentiable",
    }
    text = f"{what} was {_BREAKS[kind]}{placed(site)}"
    return Reason(named.get(kind, "detached"), text, site, repair_of(kind, site))


def repair_of(kind: str, site: source.Site) -> str:
    """What to change at the place where a tensor left the graph."""
    place = f" at {site.where}" if site.line else ""
    if kind == "detach_":
        return f"remove the detach_(){place}"
    if kind == "non_differentiable":
        return "leave it out of ctx.mark_non_differentiable, and return its gradient in backward"
    if kind in ("detach", "data"):
        if goes_to_numpy(site.source_line.strip(), site.text):
            return _without_numpy(place)
        remove = f"remove the {'detach()' if kind == 'detach' else '.data'}{place}"
        line = without_attribute(site.source_line.strip(), site.text)
        return f"{remove}: `{line}`" if line and "\n" not in line else remove
    if kind in ("no_grad", "inference"):
        block = "no_grad" if kind == "no_grad" else "inference_mode"
        what = f"`{site.text}`" if site.text else "the operation"
        return f"move {what}{place} out of the {block} block"
    return f"choose an operation with a derivative{place} (softmax for argmax, sigmoid for >)"


def _without_numpy(place: str) -> str:
    return (
        f"compute with tensors in place of NumPy's arrays{place}: these are in no graph; "
        "or write an autograd.Function with a backward around it"
    )


def advice_of(breaks: list[Reason], otherwise: str) -> str:
    """The repairs of all breaks, each once; what to do where nothing was broken."""
    return "; ".join(dict.fromkeys(broken.repair for broken in breaks)) or otherwise


def _explain_requires_grad(x: Tensor, label: str, frame: Any) -> Explanation:
    question = f"{label} does not require grad:"
    origin = _origin(x)
    if x.dtype.category < 2:
        what = f"its dtype is {x.dtype}, and only floating point and complex tensors can"
        breaks = _suspects(frame, x) if origin is None else [break_reason("it", *origin)]
        advice = advice_of(breaks, "convert it before the computation: x.to(ag.float32)")
        return Explanation(question, (Reason("integer-dtype", what), *breaks), advice)
    if origin is not None:
        broken = break_reason("it", *origin)
        clone = ", or clone it outside" if origin[0] == "inference" else ""
        return Explanation(question, (broken,), broken.repair + clone)
    if x.is_inference():
        return Explanation(
            question,
            (Reason("inference", "it was made in inference mode"),),
            "make a clone() of it outside of inference mode",
        )
    reasons = [
        Reason(
            "not-asked",
            "nothing asked for it: neither requires_grad=True nor requires_grad_(), and no tensor "
            "that it was computed from requires grad",
        )
    ]
    breaks = _suspects(frame, x) or left_in_source(frame, label)
    asked = "requires_grad=True for the leaves whose gradients you want"
    return Explanation(question, (*reasons, *breaks), advice_of(breaks, asked))


def _suspects(frame: Any, but: Tensor, node: Node | None = None) -> list[Reason]:
    """Tensors in the user's variables that left a graph: where a path may have been broken.

    node: where that path begins; tensors that left a graph without it are left out, as far as
    their graphs still live.
    """
    found: list[Reason] = []
    seen = {id(but)}
    for scope in scopes_of(frame):
        for name, value in list(scope.items()):
            if not isinstance(value, Tensor) or id(value) in seen or name.startswith("_"):
                continue
            seen.add(id(value))
            origin = _origin(value)
            if origin is None or value.requires_grad:
                continue
            known = origin_of(value) or ()
            graph = known[2]() if len(known) > 2 and known[2] else None
            if node is not None and graph is not None and node not in walk([graph]):
                continue
            found.append(replace(break_reason(f"`{name}`", *origin), kind="graph-break"))
    return found[:MANY]


def left_in_source(frame: Any, label: str) -> list[Reason]:
    """What leaves the graph in the expressions that made a variable, read off the source."""
    found = []
    for broken in breaks_in_source(frame, label.strip("`"))[:MANY]:
        text = f"`{broken.text}` at {broken.site.where} gives {broken.gives}"
        repair = f"compute without `{broken.text}` at {broken.site.where}"
        found.append(Reason("graph-break", text, broken.site, repair))
    return found


def forward_reasons(x: Any, frame: Any, types: tuple[type, ...] = ()) -> list[Reason]:
    """Where what a parameter computes leaves the graph in the `forward` of modules around it."""
    found = left_in_forward(x, frame, types)
    if isinstance(found, Unused):
        where = f" ({found.site.where})" if found.site.line else ""
        text = f"no method of {found.owner}{where} uses `{found.name}`"
        repair = f"use `self.{found.attribute}` in {found.owner}.forward"
        return [Reason("not-connected", text, found.site, repair)]
    return [reason_of_break(graph_break) for graph_break in found[:MANY]]


def reason_of_break(graph_break: GraphBreak) -> Reason:
    """The reason that a place in a forward is."""
    reason, to_numpy = _reason_of_break(graph_break), graph_break.to_numpy
    if to_numpy is None:
        return reason
    return replace(reason, repair=_without_numpy(f" at {to_numpy.where}"))


def _reason_of_break(graph_break: GraphBreak) -> Reason:
    site = graph_break.site
    where = placed(site) + (" (where that branch runs)" if graph_break.branch else "")
    if graph_break.kind in ("detach", "detach_", "data"):
        text = f"what `{graph_break.of}` computes is {_BREAKS[graph_break.kind]}{where}"
        return Reason("graph-break", text, site, repair_of(graph_break.kind, site))
    if graph_break.kind == "other":
        text = f"what `{graph_break.of}` computes gives {graph_break.gives}{where}"
        repair = f"compute without `{site.text}` at {site.where}"
        return Reason("graph-break", text, site, repair)
    block = "no_grad" if graph_break.kind == "no_grad" else "inference_mode"
    text = f"`{graph_break.of}` is used in the {block} block{where}"
    repair = f"use `{graph_break.of}` outside of the {block} block at {site.where}"
    return Reason("graph-break", text, site, repair)


def left_inputs(nodes: Iterable[Any]) -> Iterator[tuple[Node, tuple[Any, ...]]]:
    """(node, how its input had left another graph) for tensors that nodes of this package saved."""
    for node in nodes:
        if not isinstance(node, Node):
            continue
        kept = [getattr(node, f"s_{name}", None) for name in node.saved_names]
        parts = [part for value in kept for part in (value if type(value) is tuple else (value,))]
        # A custom Function remembers what it was given, saved or not.
        parts += [given.value for given in getattr(node, "_given", ())]
        for part in parts:
            origin = origin_of(part) if isinstance(part, Tensor) else None
            if origin is not None and not part.requires_grad:
                yield node, origin


def _saved_breaks(nodes: Any) -> list[Reason]:
    """Saved tensors of a graph that had left another one."""
    found: dict[str, Reason] = {}
    for node, origin in left_inputs(nodes):
        place = source.resolve_call_site(origin[1])
        broken = break_reason(f"an input of {node.name()}", origin[0], place)
        found.setdefault(broken.text, replace(broken, kind="graph-break"))
    return list(found.values())[:MANY]


def _explain_grad(x: Tensor, loss: Tensor | None, frame: Any) -> Explanation:
    label = label_of(x, frame, "This tensor")
    if x._grad is not None:
        return Explanation(
            f"{label} has a gradient:",
            (Reason("has-grad", f"its .grad has shape {list(x._grad.shape)}"),),
            "",
        )
    question = f"{label}.grad is None:" if label.startswith("`") else f"{label} has no gradient:"
    reasons: list[Reason] = []
    node = x.grad_fn
    if node is not None and not x.retains_grad:
        site = source.resolve_call_site(node.call_site)
        text = (
            f"it is not a leaf: {node.name()} made it{placed(site)}, and backward keeps gradients "
        )
        reasons.append(Reason("not-leaf", text + "of leaves only", site))
    edge = x.gradient_edge()
    if edge is None:
        made = None if x._view is None else source.resolve_call_site(x._view.made)
        text = f"it is a view without history, made under no_grad{placed(made)}"
        return Explanation(question, (Reason("no-grad", text, made),), "make the view outside")
    if loss is not None:
        return _explain_path(x, edge[0], loss, question, reasons, frame)
    if node is not None:
        advice = "call retain_grad() on it before backward, or ask autograd.grad for it"
        return Explanation(question, tuple(reasons), advice)
    alive = x._leaf is not None and x._leaf.accumulator is not None and _in_use(x)
    if alive:
        text = "a graph that uses it is alive, but no backward has reached it"
        advice = "call backward() on the result; explain(x, loss) says whether loss depends on x"
        reasons.append(Reason("no-backward", text))
    else:
        text = (
            "no living graph uses it: no recorded operation took it, or the results are gone, or "
            "the gradient was reset"
        )
        advice = "explain(x, loss) says whether loss depends on x"
        reasons.append(Reason("not-connected", text))
    breaks = _suspects(frame, x, edge[0])
    if breaks:
        advice = f"{advice_of(breaks, advice)}; {advice}"
    return Explanation(question, (*reasons, *breaks), advice)


def _in_use(x: Tensor) -> bool:
    """Does a node beside this question hold the accumulator of a leaf?"""
    edge = x.gradient_edge()
    # This frame's edge (twice: the name and the call's argument) and its node's own weak reference.
    return edge is not None and sys.getrefcount(edge[0]) > 3


def _explain_path(
    x: Tensor, node: Node, loss: Tensor, question: str, reasons: list[Reason], frame: Any
) -> Explanation:
    name = label_of(loss, frame, "the loss")
    start = loss.gradient_edge() if loss.requires_grad else None
    if start is None:
        inner = _explain_requires_grad(loss, name, frame)
        text = f"{name} itself does not require grad"
        return Explanation(
            question, (*reasons, Reason("not-connected", text), *inner.reasons), inner.advice
        )
    reached = walk([start[0]])[::-1]
    if node not in reached:
        text = f"{name} does not depend on it: no path leads from {start[0].name()} to it"
        breaks = (
            forward_reasons(x, frame)
            or _saved_breaks(reached)
            or _suspects(frame, x, node)
            or left_in_source(frame, name)
        )
        return Explanation(
            question,
            (*reasons, Reason("not-connected", text), *breaks),
            advice_of(breaks, "use it in the computation"),
        )
    if reasons:
        return Explanation(
            question,
            (*reasons, Reason("requires-grad", f"{name} depends on it")),
            "call retain_grad() on it before backward, or ask autograd.grad for it",
        )
    freed = next((n for n in reached if n.freed is not None and n.freed[0] is not None), None)
    if freed is None:
        text = f"{name} depends on it, but backward() has not been called (or the graph saves "
        text += "nothing that tells)"
        return Explanation(
            question, (*reasons, Reason("no-backward", text)), f"call {name.strip('`')}.backward()"
        )
    site = source.resolve_call_site(freed.freed)
    text = f"a backward ran{placed(site)}, but left no gradient here"
    found = [Reason("undefined", text, site)]
    missed = list(_missed(node, reached))[:MANY]
    advice = "was it reset (zero_grad), or was inputs= given?"
    return Explanation(question, (*reasons, *found, *missed), advice_of(missed, advice))


def _missed(node: Node, reached: Any) -> Iterator[Reason]:
    """The custom Functions on the way to a node whose backward returned None there."""
    for n in reached:
        for at in getattr(n, "_missed", ()):
            edge = n.next[n._positions.index(at)]
            if edge is None or node not in walk([edge[0]]):
                continue
            function = n._forward_cls
            backward = source.resolve_call_site(source.last_return(function._user_backward()))
            name = argument_name(function, at)
            text = (
                f"the backward of {function.__name__} returned None for `{name}`{placed(backward)}"
            )
            where = f" at {backward.where}" if backward.line else ""
            repair = f"return the gradient of `{name}` in {function.__name__}.backward{where}"
            yield Reason("undefined", text, backward, repair)
