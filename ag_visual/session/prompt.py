"""A paused backward in words: the debugger where no Inspector can be opened.

Runs in the thread that is paused, between `Gate`'s waits; every command is one line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ag_visual.arrays.backend import on_host
from ag_visual.core import source
from ag_visual.events.live import LiveNode
from ag_visual.observe.record.summaries import summarize
from ag_visual.session.breakpoints import arrays_of
from ag_visual.session.gradient_edits import EditError
from ag_visual.session.pause import Gate, Paused

Ask = Callable[[str], str]
Write = Callable[[str], None]

HELP: Final = """\
n            run this node, stop before the next one
s            run on to the next line of your code
c            run on to the next breakpoint or to the end
e            run on to the next problem: NaN, infinity, an overwritten saved tensor
p            the gradient that arrives; p NAME: a saved tensor; p VARIABLE at a leaf
w            where this is: node, line, what it saved, where its gradient goes
b            breakpoints; b ReluBackward0, b 12 (a line here), b norm>10, b nan, b 4x2 (a shape)
d N          remove breakpoint N
scale X, clip X, fill X, zero, set PLACE X     change the gradient that arrives
q            stop this backward
An empty line repeats the last one; h shows this."""

MOST_SHOWN: Final = 1000

_GOING_ON: Final[dict[str, Callable[[Gate], None]]] = {
    "n": Gate.step,
    "s": Gate.step_line,
    "c": Gate.go_on,
    "e": Gate.step_to_problem,
}
_CRITERIA: Final = {
    "seq": "node {}",
    "name": "every {}",
    "line": "line {}",
    "above": "gradient norm above {:g}",
    "nonfinite": "NaN or infinity in the gradient",
    "shape": "gradient of shape {}",
}


class Prompt:
    """Asks what to do at each pause until something makes the backward go on."""

    def __init__(
        self, gate: Gate, node: Callable[[str], Any], ask: Ask | None = None, write: Write = print
    ) -> None:
        """node(which): an array of the node that waits ('saved:NAME', 'variable', 'grad')."""
        self.gate = gate
        self._array = node
        self._ask = ask
        self._write = write
        self._last = "n"

    def __call__(self) -> None:
        """The backward is paused: talk until it may go on. Raises KeyboardInterrupt for q."""
        paused = self.gate.paused
        if paused is None:
            return
        self._write(headline(paused))
        while True:
            try:
                line = (self._ask or input)("(autograd) ").strip() or self._last
            except EOFError:
                line = "q"
            self._last = line
            name, _, rest = line.partition(" ")
            try:
                if self._done(name, rest.strip()):
                    return
            except (ValueError, LookupError, RuntimeError) as error:
                self._write(str(error))

    def _done(self, name: str, rest: str) -> bool:
        """Run one command; whether the backward goes on, which ends the talk."""
        if name in _GOING_ON:
            _GOING_ON[name](self.gate)
            return True
        if name in ("scale", "clip", "fill", "zero"):
            return self._edit(name, None if name == "zero" else _number(rest))
        command: Callable[[str], bool] | None = getattr(self, f"_do_{name}", None)
        if command is None:
            self._write(f"{name!r} is not known here. h shows what is.")
            return False
        return command(rest)

    @property
    def _paused(self) -> Paused:
        assert self.gate.paused is not None
        return self.gate.paused

    def _do_q(self, rest: str) -> bool:
        self.gate.breakpoints_off()
        raise KeyboardInterrupt("the backward was stopped in the debugger")

    # Looking --------------------------------------------------------------------------------------

    def _do_h(self, rest: str) -> bool:
        self._write(HELP)
        return False

    def _do_w(self, rest: str) -> bool:
        self._write(where(self._paused))
        return False

    def _do_p(self, rest: str) -> bool:
        if not rest:
            arrays = arrays_of(self._paused.grads)
            self._write(
                "\n".join(map(shown, arrays)) if arrays else "No gradient arrives at this node."
            )
        elif rest == "variable":
            self._write(shown(self._array("variable")))
        else:
            self._write(shown(self._array(f"saved:{rest}")))
        return False

    # Breakpoints ----------------------------------------------------------------------------------

    def _do_b(self, rest: str) -> bool:
        if rest:
            self.gate.add(**self._criteria(rest))
        texts = [f"{b.id}: {said(b.json())}" for b in self.gate.breakpoints]
        self._write("\n".join(texts) or "No breakpoints.")
        return False

    def _do_d(self, rest: str) -> bool:
        self.gate.remove(id=int(rest))
        return self._do_b("")

    def _criteria(self, text: str) -> dict[str, Any]:
        if found := re.fullmatch(r"norm\s*>\s*(\S+)", text):
            return {"above": float(found[1])}
        if text == "nan":
            return {"nonfinite": True}
        if text.isdigit():
            site = site_of(self._paused.node)
            return {"line": int(text), "place": site.cell_id or site.file or None}
        if re.fullmatch(r"[\d*]+([x×,]\s*[\d*]+)+", text):
            return {"shape": text}
        return {"name": text}

    # The gradient ---------------------------------------------------------------------------------

    def _edit(self, how: str, value: float | None, at: int | None = None) -> bool:
        self.gate.edit(how, value, at=at)
        return self._do_p("")

    def _do_set(self, rest: str) -> bool:
        place, _, value = rest.rpartition(" ")
        arrays = arrays_of(self._paused.grads)
        if not arrays or not place:
            raise EditError("set is followed by a place (3, or 0,2) and a number")
        index = tuple(int(part) for part in re.split(r"[,\s]+", place))
        shape = arrays[0].shape
        at = index[0] if len(index) == 1 else int(np.ravel_multi_index(index, shape))
        return self._edit("element", _number(value), at)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise EditError(f"a number should follow, not {text!r}") from None


def site_of(node: LiveNode) -> source.Site:
    """Where a node was made."""
    return source.resolve_call_site(node.call_site)


def headline(paused: Paused) -> str:
    """'step 2 of 5: MulBackward0, train.py, line 3' and the line below it."""
    node = paused.node
    site = site_of(node)
    place = f", {site.where}" if site.line else ""
    lines = [f"-- step {paused.order + 1} of {paused.total}: {node.name()}{place}"]
    if site.source_line:
        lines.append(f"   {site.source_line}")
    if paused.problem:
        lines.append(f"   ! {paused.problem}")
    return "\n".join(lines)


def where(paused: Paused) -> str:
    """What the node saved and where its gradient goes."""
    node = paused.node
    lines = [headline(paused)]
    for field in node.saved_fields():
        if field.kind == "value":
            lines.append(f"   {field.name} = {field.value!r}")
            continue
        shape = "×".join(map(str, field.shape or ())) or "scalar"
        version = f"v{field.version_then}"
        if field.version_now not in (None, field.version_then):
            version += f", now v{field.version_now}: overwritten"
        lines.append(f"   saved {field.name}: {shape} {field.dtype}, {version}")
    below = [n.name() if n is not None else "nothing" for n, _ in node.next_functions]
    if below:
        lines.append(f"   goes on to {', '.join(below)}")
    if node.leaf:
        lines.append("   p variable shows the leaf that collects this gradient")
    return "\n".join(lines)


def shown(array: Any) -> str:
    """An array's numbers where they are few, and its range."""
    facts = summarize(array)
    shape = "×".join(map(str, facts["shape"])) or "scalar"
    text = f"{shape} {facts['dtype']}"
    if facts["min"] is not None:
        text += f", from {facts['min']:.4g} to {facts['max']:.4g}, norm {facts['norm'] or 0:.4g}"
    for name in ("nan", "inf", "zero"):
        if facts[name]:
            text += f", {facts[name]} {name}"
    if facts["numel"] <= MOST_SHOWN:
        text += "\n" + np.array2string(on_host(array), precision=4, threshold=60)
    return text


def said(found: dict[str, Any]) -> str:
    """A breakpoint in words."""
    return ", ".join(text.format(found[key]) for key, text in _CRITERIA.items() if key in found)


def interactive() -> bool:
    """Whether somebody can answer a prompt here."""
    stdin = sys.stdin
    return stdin is not None and not stdin.closed and stdin.isatty()
