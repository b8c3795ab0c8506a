"""`ag.explain` of torch's tensors: why a tensor has no gradient, or does not require one."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from ag_visual.bridge.node import Break
from ag_visual.core import detach_sites, source
from ag_visual.core.diagnosis.variable_names import scopes_of, tensors_in
from ag_visual.events.memory import CallSite
from ag_visual.observe.diagnose.explain import (
    MANY,
    Explanation,
    Reason,
    advice_of,
    break_reason,
    forward_reasons,
    label_of,
    left_in_source,
    placed,
    repair_of,
)
from ag_visual.observe.record.graph import walk

_TYPES = (torch.Tensor,)


class Origins:
    """How and where tensors left a graph: (kind, call site, the node they were taken from)."""

    def __init__(self) -> None:
        # By id: the tensor, how and where, the tensor that it was taken from, whether a leaf.
        self.found: dict[int, tuple[weakref.ref[Any], str, CallSite, weakref.ref[Any], bool]] = {}

    def note(self, tensor: Any, kind: str, call_site: CallSite, of: Any) -> None:
        """A tensor left the graph of another one."""
        detach_sites.note(call_site)
        key = id(tensor)
        ref = weakref.ref(tensor, lambda ref: self._forget(key, ref))
        self.found[key] = ref, kind, call_site, weakref.ref(of), bool(of.is_leaf)

    def _forget(self, key: int, ref: weakref.ref[Any]) -> None:
        found = self.found.get(key)
        if found is not None and found[0] is ref:
            del self.found[key]

    def of(self, tensor: Any) -> tuple[str, source.Site] | None:
        """How and where a tensor left its graph."""
        found = self.found.get(id(tensor))
        if found is None or found[0]() is not tensor:
            return None
        return found[1], source.resolve_call_site(found[2])

    def breaks(self, args: Any) -> list[Break]:
        """Which arguments of an operation left another graph before they came here."""
        breaks: list[Break] = []
        for at, given in enumerate(args):
            for each in given if isinstance(given, (tuple, list)) else (given,):
                found = self.found.get(id(each))
                tensor = None if found is None else found[0]()
                if found is not None and tensor is each and not tensor.requires_grad:
                    breaks.append((at, *found[1:]))
        return breaks


def explain(watcher: Any, x: Any, loss: Any, frame: Any) -> Explanation:
    """The answer, from what was seen while torch was watched."""
    name = label_of(x, frame, "This tensor", _TYPES)
    if not x.requires_grad:
        return _requires_grad(watcher, x, name, frame)
    if x.is_leaf or x.retains_grad:
        grad = x.grad
        if grad is not None:
            text = f"its .grad has shape {list(grad.shape)}"
            return Explanation(f"{name} has a gradient:", (Reason("has-grad", text),), "")
    question = f"{name}.grad is None:" if name.startswith("`") else f"{name} has no gradient:"
    node = watcher.node_of(x)
    reasons = []
    if node is not None and not node.leaf and not x.retains_grad:
        site = source.resolve_call_site(node.call_site)
        text = (
            f"it is not a leaf: {node.name()} made it{placed(site)}, and backward keeps gradients "
        )
        reasons.append(Reason("not-leaf", text + "of leaves only", site))
    keep = "call retain_grad() on it before backward, or ask autograd.grad for it"
    if loss is None:
        if reasons:
            return Explanation(question, tuple(reasons), keep)
        text = "no backward has reached it, or its gradient was reset"
        advice = "explain(x, loss) says whether loss depends on x"
        return Explanation(question, (Reason("no-backward", text),), advice)
    called = label_of(loss, frame, "the loss", _TYPES)
    start = watcher.node_of(loss)
    if start is None:
        inner = _requires_grad(watcher, loss, called, frame)
        text = f"{called} itself does not require grad"
        found = (*reasons, Reason("not-connected", text), *inner.reasons)
        return Explanation(question, found, inner.advice)
    reached = walk([start])
    if node not in reached:
        text = f"{called} does not depend on it: no path leads from {start.name()} to it"
        breaks = (
            forward_reasons(x, frame, _TYPES)
            or _breaks(watcher, x, frame)
            or left_in_source(frame, called)
        )
        advice = advice_of(breaks, "use it in the computation")
        return Explanation(question, (*reasons, Reason("not-connected", text), *breaks), advice)
    if reasons:
        found = (*reasons, Reason("requires-grad", f"{called} depends on it"))
        return Explanation(question, found, keep)
    freed = next((each for each in reached[::-1] if each.freed is not None), None)
    if freed is None:
        text = f"{called} depends on it, but backward() was not seen (or the graph saves nothing "
        reason = Reason("no-backward", text + "that tells)")
        return Explanation(question, (reason,), f"call {called.strip('`')}.backward()")
    site = source.resolve_call_site(freed.freed)
    text = f"a backward ran{placed(site)}, but left no gradient here"
    advice = "was it reset (zero_grad), or was inputs= given?"
    return Explanation(question, (Reason("undefined", text, site),), advice)


def _requires_grad(watcher: Any, x: Any, name: str, frame: Any) -> Explanation:
    question = f"{name} does not require grad:"
    origin = watcher.origins.of(x)
    if not (x.is_floating_point() or x.is_complex()):
        what = f"its dtype is {str(x.dtype).removeprefix('torch.')}, and only floating point and "
        breaks = [] if origin is None else [break_reason("it", *origin)]
        reason = Reason("integer-dtype", what + "complex tensors can")
        advice = advice_of(breaks, "convert it before the computation: x.to(torch.float32)")
        return Explanation(question, (reason, *breaks), advice)
    if origin is not None:
        return Explanation(question, (break_reason("it", *origin),), repair_of(*origin))
    if x.is_inference():
        reason = Reason("inference", "it was made in inference mode")
        return Explanation(question, (reason,), "make a clone() of it outside of inference mode")
    text = (
        "nothing asked for it: neither requires_grad=True nor requires_grad_(), and no tensor that "
        "it was computed from requires grad, as far as its operations were watched"
    )
    breaks = _breaks(watcher, x, frame) or left_in_source(frame, name)
    asked = "requires_grad=True for the leaves whose gradients you want"
    return Explanation(question, (Reason("not-asked", text), *breaks), advice_of(breaks, asked))


def _breaks(watcher: Any, but: Any, frame: Any) -> list[Reason]:
    """Tensors among the user's variables that left a graph: where a path may have been broken."""
    found: list[Reason] = []
    for scope in scopes_of(frame):
        for name, value in tensors_in(scope, types=_TYPES):
            origin = None if value is but or value.requires_grad else watcher.origins.of(value)
            if origin is not None:
                broken = break_reason(f"`{name}`", *origin)
                found.append(Reason("graph-break", broken.text, broken.site, broken.repair))
    return list(dict.fromkeys(found))[:MANY]
