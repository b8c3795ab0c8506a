"""How a teacher sets up the Inspector: what is hidden, where it begins, what is asked.

The same lesson travels in the state of a session (to the panels of a notebook), inside a recording,
and in the address of a standalone page, where a person can read and write it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from difflib import get_close_matches
from html import escape
from typing import Any, Final, Literal
from urllib.parse import quote

HIDDEN: Final = {
    "record": "the button that records",
    "pause": "the button that pauses",
    "step": "all stepping: Step, To node, Run on",
    "continue": "Continue",
    "play": "playing, and its speed",
    "breakpoints": "breakpoints, in the toolbar and at nodes",
    "search": "the search",
    "export": "the Export menu",
    "editing": "changing gradients",
    "values": "numbers and pictures of saved tensors and parameters",
    "gradient": "the gradient of the selected node",
    "saved": "the list of saved tensors",
    "timeline": "the timeline, and going through time",
    "side": "the whole side",
    "outline": "its tab Outline",
    "parameters": "its tab Parameters",
    "tensors": "its tab Tensors",
    "hooks": "its tab Hooks",
    "problems": "its tab Problems",
    "predict": "the switch between predicting and plain showing",
    "scalars": "the switch between nodes and numbers",
    "groups": "opening and closing groups",
    "zoom": "the buttons over the graph",
    "legend": "the legend",
    "keys": "the list of keys",
}
"""What a lesson can hide. Keys that do the same are off as well."""

LONGEST: Final = 600
LONGEST_TITLE: Final = 120
SLOWEST, FASTEST = 0.25, 8.0
_ABOUT: Final = ("title", "author", "date")


@dataclass(frozen=True, slots=True, repr=False)
class Lesson:
    """A lesson's settings; `fragment` is the part of an address that makes the same lesson.

    Raises ValueError for a control, speed, step or direction that there is none of.
    """

    text: str = ""
    hide: tuple[str, ...] = ()
    node: str = ""
    step: int | None = None
    predict: bool = False
    scalars: bool = False
    speed: float = 1.0
    direction: Literal["on", "back"] = "on"
    title: str = ""
    author: str = ""
    date: str = ""

    def __post_init__(self) -> None:
        for name in self.hide:
            if name not in HIDDEN:
                near = get_close_matches(name, HIDDEN, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                known = ", ".join(HIDDEN)
                raise ValueError(f"hide: there is no {name!r}; there are {known}.{hint}")
        if not SLOWEST <= self.speed <= FASTEST:
            raise ValueError(f"speed should be from {SLOWEST} to {FASTEST:g}, but is {self.speed}")
        if self.step is not None and self.step < 1:
            raise ValueError(
                f"step should be 1 or more (1: before the first node), but is {self.step}"
            )
        if self.direction not in ("on", "back"):
            raise ValueError(f"direction should be 'on' or 'back', but is {self.direction!r}")
        if len(self.text) > LONGEST:
            raise ValueError(f"text has {len(self.text)} characters; at most {LONGEST} are shown")
        for name in ("title", "author", "date"):
            length = len(getattr(self, name))
            if length > LONGEST_TITLE:
                raise ValueError(f"{name} has {length} characters; at most {LONGEST_TITLE} fit")

    def __repr__(self) -> str:
        if self == Lesson():
            return "<no lesson: the Inspector is as usual>"
        hidden = f", without {', '.join(self.hide)}" if self.hide else ""
        return f"<lesson {self.title or self.text or 'without a text'!r}{hidden}>"

    def _repr_html_(self) -> str:
        """What a cell shows of it: the text as the students read it, and what it switches."""
        if self == Lesson():
            return "<small>No lesson: the Inspector is as usual.</small>"
        by = ", ".join(filter(None, [self.author, self.date]))
        lines = [f"<b>{escape(self.title)}</b>" if self.title else "", escape(self.text)]
        lines += [f"<small>{escape(one)}</small>" for one in (by, self._switches()) if one]
        style = "border-left: 3px solid; padding: 2px 0 2px 12px; margin: 4px 0; opacity: 0.85"
        return f'<div style="{style}">{"<br>".join(filter(None, lines))}</div>'

    def _switches(self) -> str:
        """'Set up in the Inspector: each gradient is guessed; without search, export'."""
        parts = ["each gradient is guessed"] if self.predict else []
        if self.scalars:
            parts.append("drawn number by number")
        if self.hide:
            parts.append(f"without {', '.join(self.hide)}")
        return f"Set up in the Inspector{': ' if parts else ''}{'; '.join(parts)}"

    def json(self) -> dict[str, Any]:
        """The schema's Lesson record."""
        found = asdict(self) | {"hide": list(self.hide)}
        return {name: value for name, value in found.items() if value or name not in _ABOUT}

    @property
    def fragment(self) -> str:
        """`#lesson=What%20is%20asked&hide=search,export&predict=on`, for a page's address."""
        given = {
            "hide": ",".join(self.hide),
            "node": self.node,
            "step": "" if self.step is None else str(self.step),
            "predict": "on" if self.predict else "",
            "scalars": "on" if self.scalars else "",
            "speed": "" if self.speed == 1 else f"{self.speed:g}",
            "direction": "" if self.direction == "on" else self.direction,
            **{name: getattr(self, name) for name in _ABOUT},
        }
        parts = [f"lesson={quote(self.text, safe='')}"]
        parts += [f"{key}={quote(value, safe=',')}" for key, value in given.items() if value]
        return "#" + "&".join(parts)
