"""A check of many values as few tests: `each("op", values)`. A test costs pytest and its processes
some milliseconds, as much as many a comparison; no value is left out, and each error is told.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

SIZE = 32
T = TypeVar("T")
Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def each(
    name: str, values: Iterable[T], label: Callable[[T], str] = str, size: int = SIZE
) -> Decorator:
    """Call a test with each value as its argument `name`; so many values are one test of pytest.

    A value that fails does not keep the next ones from being tried: the group raises the errors of
    all, each with the label of its value. What the test patched with `monkeypatch` is undone after
    each. `pytest --only LABEL` leaves out all other values.
    """
    all_values = list(values)
    labels = [label(value) for value in all_values]
    assert len(set(labels)) == len(labels), f"labels that stand twice: {sorted(labels)}"
    groups = [
        pytest.param(
            list(zip(labels[i : i + size], all_values[i : i + size], strict=True)),
            id="..".join(dict.fromkeys((labels[i], labels[i : i + size][-1]))),
        )
        for i in range(0, len(labels), size)
    ]

    def grouped(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(group: list[tuple[str, T]], pytestconfig: pytest.Config, **given: Any) -> None:
            only = pytestconfig.getoption("only")
            chosen = [pair for pair in group if only in (None, pair[0])]
            if group and not chosen:
                pytest.skip(f"--only {only}")
            for_each(name, chosen, test, given)

        own = inspect.signature(test)
        added = [
            inspect.Parameter(fixture, inspect.Parameter.KEYWORD_ONLY)
            for fixture in ("group", "pytestconfig")
        ]
        kept = [
            p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for p in own.parameters.values()
            if p.name != name
        ]
        assert len(kept) < len(own.parameters), f"{test.__name__} has no argument {name}"
        run.__signature__ = inspect.Signature([*kept, *added])  # type: ignore[attr-defined]
        return pytest.mark.parametrize("group", groups)(run)

    return grouped


def for_each(
    name: str, pairs: list[tuple[str, T]], test: Callable[..., None], given: dict[str, Any]
) -> None:
    """Call a test with each of these values; raises what it raised, as one group of exceptions."""
    failed: list[BaseException] = []
    not_run = None
    for told, value in pairs:
        try:
            test(**{name: value}, **given)
        except pytest.skip.Exception as reason:
            not_run = reason
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"{name}: {told}")
            failed.append(error)
        if "monkeypatch" in given:
            given["monkeypatch"].undo()
    if failed:
        labels = ", ".join(error.__notes__[-1].partition(": ")[2] for error in failed)
        raise BaseExceptionGroup(f"of {len(pairs)} values {len(failed)} fail: {labels}", failed)
    if not_run is not None:
        raise not_run
