"""`lesson`: a teacher's cell sets up the panel beside the notebook, or a page to hand out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ag_visual.observe.record.lesson import Lesson
from ag_visual.session.session import current

__all__ = ["Lesson", "lesson"]


def lesson(
    text: str = "",
    *,
    hide: str | Iterable[str] = (),
    node: str | int = "",
    step: int | None = None,
    predict: bool = False,
    scalars: bool = False,
    speed: float = 1.0,
    direction: Literal["on", "back"] = "on",
    title: str = "",
    author: str = "",
    date: str = "",
) -> Lesson:
    """Set up the Inspector of this notebook for a lesson; without arguments, end the lesson.

    text: what the students are to do, shown above the graph. hide: controls that are not there,
    with their keys (`observe.record.lesson.HIDDEN` lists them). node and step: what is selected
    and which moment of a recording is shown at first. predict: each gradient is guessed before it
    is shown. scalars: the graph is drawn number by number. speed and direction: of playing; 1 is
    two nodes a second, "back" plays a recording backwards. title, author and date stand at the top
    of a page with the lesson, as they are given; the title is the page's, too.

    The result can be given to `save_recording`, `record.save` and `show`; its `fragment` makes the
    same lesson of any standalone page, at the end of its address. Raises ValueError for a control,
    speed, step or direction that there is none of.

    >>> import ag_visual as ag
    >>> given = ag.lesson("What reaches w?", hide=["export", "search"], predict=True)
    >>> given.fragment
    '#lesson=What%20reaches%20w%3F&hide=export,search&predict=on'
    >>> ended = ag.lesson()
    """
    names = tuple(dict.fromkeys([hide] if isinstance(hide, str) else hide))
    about = {"title": title, "author": author, "date": date}
    found = Lesson(text, names, str(node), step, predict, scalars, speed, direction, **about)
    session = current()
    session.lesson = None if found == Lesson() else found
    session.changed()
    return found
