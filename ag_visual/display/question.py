"""`Question`: something asked in a cell, whose answer is checked, with a reply that helps.

One object, two faces: a widget where anywidget is installed, else a text with `check`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ag_visual.display.arithmetic import work

LONGEST: Final = 600
NOTHING: Final = 1e-12


class Reply(NamedTuple):
    """What is said of an answer. right: None where the answer was not understood."""

    right: bool | None
    text: str


class Question:
    """A question in a cell's output: the answer is a number, or one of some choices.

    answer: the right one, a finite number or one of `choices` (at least two texts, all different).
    A student types a number or an expression such as `2*3` or `1-tanh(0.5)^2`; it is right within
    a share `within` of the answer. replies: wrong answers (numbers or choices) and what to say of
    each. hint: said of any other wrong answer. why: said beside the right one, and where the answer
    is shown. Text in `backticks` is set as code; all of it is text, never HTML.

    Raises ValueError for an answer that cannot be given, or a reply to one that is right or can
    not be given.

    >>> import ag_visual as ag
    >>> slope = ag.Question("The slope of x² at 3?", answer=6, replies={9: "That is its height."})
    >>> slope.check("3*3")
    Reply(right=False, text='That is its height.')
    >>> slope.check(6).right, slope.right, slope.tries
    (True, True, 2)
    """

    def __init__(
        self,
        text: str,
        *,
        answer: float | str,
        choices: Sequence[str] | None = None,
        replies: Mapping[Any, str] | None = None,
        hint: str = "",
        why: str = "",
        within: float = 0.01,
    ) -> None:
        self.text, self.hint, self.why, self.within = text, hint, why, within
        self.choices = None if choices is None else tuple(choices)
        if not 0 <= within < 1:
            raise ValueError(f"within should be from 0 to 1 (a share), but is {within}")
        if self.choices is None:
            self.answer: float | str = _finite(answer, "answer")
            self.replies = {_finite(k, "replies"): v for k, v in (replies or {}).items()}
        else:
            if len(set(self.choices)) != len(self.choices) or len(self.choices) < 2:
                raise ValueError("choices should be at least two texts, all different")
            self.answer = self._choice(answer, "answer")
            self.replies = {self._choice(k, "replies"): v for k, v in (replies or {}).items()}
        for given in self.replies:
            if self._is_right(given):
                raise ValueError(f"replies: {given!r} is the right answer; say it in why")
        for name, said in [("text", text), ("hint", hint), ("why", why), *self.replies.items()]:
            if len(said) > LONGEST:
                raise ValueError(f"{name}: {len(said)} characters; at most {LONGEST} are shown")
        self.tries = 0
        self.right = False
        self._widget: Any = None

    def _choice(self, given: object, name: str) -> str:
        if self.choices is None or given not in self.choices:
            raise ValueError(f"{name}: {given!r} is none of the choices {self.choices}")
        return str(given)

    def check(self, given: float | str) -> Reply:
        """What there is to say of an answer; a number, an expression or a choice, as typed."""
        if self.choices is not None:
            if given not in self.choices:
                return Reply(None, "Choose one of the answers.")
            value: float | str = str(given)
        elif isinstance(given, str):
            try:
                value = work(given)
            except ValueError as error:
                return Reply(None, str(error))
        else:
            value = float(given)
        self.tries += 1
        if self._is_right(value):
            self.right = True
            return Reply(True, self.why)
        return Reply(False, self._said_of(value))

    @property
    def shown_answer(self) -> str:
        """The right answer in words, and why."""
        shown = self.answer if isinstance(self.answer, str) else f"{self.answer:.4g}"
        return f"The answer is {shown}. {self.why}".replace("..", ".").strip()

    def _is_right(self, value: float | str) -> bool:
        return value == self.answer or self._close(value, self.answer)

    def _close(self, value: float | str, right: float | str) -> bool:
        if isinstance(value, str) or isinstance(right, str):
            return value == right
        near = self.within * abs(right) + (1e-6 if abs(right) < NOTHING else 0)
        return abs(value - right) <= near + NOTHING

    def _said_of(self, value: float | str) -> str:
        for wrong, said in self.replies.items():
            if self._close(value, wrong):
                return said
        if isinstance(value, str) or isinstance(self.answer, str):
            return self.hint
        if self._close(-value, self.answer):
            about = "The size is right, the sign is not."
        elif value * self.answer < 0:
            about = "The sign is the other one."
        elif self._close(1 / value if value else 0.0, self.answer):
            about = "This is 1 divided by the answer."
        else:
            about = "Too large." if value > self.answer else "Too small."
        return f"{about} {self.hint}".strip()

    def __repr__(self) -> str:
        asked = [f"Question: {self.text}"]
        asked += [f"  - {choice}" for choice in self.choices or ()]
        return "\n".join(asked)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        text = {"text/plain": repr(self)}
        if self._widget is None:
            try:
                from ag_visual.display.course_widgets import QuestionWidget
            except ImportError:
                return text
            self._widget = QuestionWidget(
                text=self.text, choices=list(self.choices or ()), question=self
            )
        bundle = self._widget._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**data, **text}, metadata


def _finite(given: Any, name: str) -> float:
    if isinstance(given, (str, bool)):
        raise ValueError(f"{name}: {given!r} is not a number; name the choices, or give a number")
    if not math.isfinite(value := float(given)):
        raise ValueError(f"{name} should be finite, but is {value}")
    return value
