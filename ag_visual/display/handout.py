"""`Handout`: one page with a recording, and a link to it for each lesson of a class."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ag_visual.observe.export.export import Recording
from ag_visual.observe.record.lesson import Lesson
from ag_visual.session.api import record, save_recording


class Handout:
    """Write a recording as a page and show a link for each lesson: the same page, set up anew.

    path: the page's file, ending in .html; it needs no kernel and no network. lessons: what
    `lesson` returned; the text of each is its link's. `links` are the addresses, relative to the
    notebook's folder. Raises ValueError for another ending or without a lesson, OSError where the
    place cannot be written.

    >>> import ag_visual as ag
    >>> x = ag.tensor(3.0, requires_grad=True)
    >>> with ag.record() as recorded:
    ...     (x * x).backward()
    >>> step = ag.lesson("What arrives at x?", hide=["search"])
    >>> ag.Handout("square.html", recorded, step)  # doctest: +SKIP
    What arrives at x?
      square.html#lesson=What%20arrives%20at%20x%3F&hide=search
    >>> ended = ag.lesson()
    """

    def __init__(
        self, path: str | os.PathLike[str], what: Recording | record, *lessons: Lesson
    ) -> None:
        if Path(path).suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"path should end in .html, as a page does, but is {os.fspath(path)}")
        if not lessons:
            raise ValueError("a handout needs one lesson or more: give what `lesson` returned")
        found = what.recording if isinstance(what, record) else what
        self.lessons = lessons
        self.path = save_recording(path, found, lesson=lessons[0])
        self._widget: Any = None

    @property
    def links(self) -> list[str]:
        return [self.path.as_posix() + lesson.fragment for lesson in self.lessons]

    def __repr__(self) -> str:
        pairs = zip(self.lessons, self.links, strict=True)
        return "\n".join(f"{lesson.text}\n  {link}" for lesson, link in pairs)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        text = {"text/plain": repr(self)}
        if self._widget is None:
            try:
                from ag_visual.display.course_widgets import HandoutWidget
            except ImportError:
                return text
            texts = [lesson.text for lesson in self.lessons]
            self._widget = HandoutWidget(texts=texts, links=self.links)
        bundle = self._widget._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**data, **text}, metadata
