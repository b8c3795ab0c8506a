"""Random programs with fixed seeds, as many on every machine; and injected faults are found."""

from __future__ import annotations

from typing import Any

import pytest

from ag_visual.core import view
from ag_visual.core.storage import Storage
from ag_visual.engine import hook_calls

from .run import run


def test_random_programs_agree_with_the_reference() -> None:
    run(20, seed=1)


def _forget_the_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    original = view.CopySlices.raw

    def raw(self: Any, F: Any, g: Any) -> Any:
        grads = original(self, F, g)
        return [g, *grads[1:]]

    monkeypatch.setattr(view.CopySlices, "raw", raw)


def _forget_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrote(self: Any, op: str, place: Any, array: Any) -> None:
        self.snapshot = (
            (self.snapshot[0] + 1, self.snapshot[1] + 1) if op != "tanh_" else self.snapshot
        )

    monkeypatch.setattr(Storage, "wrote", wrote)


def _forget_the_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_calls, "tensor_hooks", lambda hooks, g, *about: g)


def _forget_to_regenerate(monkeypatch: pytest.MonkeyPatch) -> None:
    def refresh(tensor: Any) -> None:
        tensor._view.snapshot = tensor._storage.snapshot

    monkeypatch.setattr(view, "refresh", refresh)


def _forget_how_views_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    original = view.View.__init__

    def forget(self: Any, *arguments: Any) -> None:
        original(self, *arguments)
        self.meta = view.DEFAULT

    monkeypatch.setattr(view.View, "__init__", forget)


def _forget_that_a_view_of_several_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "MULTI_OUTPUT", view.DEFAULT)


def _forget_the_functions_views(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "IN_FUNCTION", view.DEFAULT)


def _forget_inheritance(monkeypatch: pytest.MonkeyPatch) -> None:
    original = view.View.__init__

    def forget(self: Any, base: Any, parent: Any, *rest: Any) -> None:
        original(self, base, parent, *rest)
        if parent is not None and self.meta == parent.meta:
            self.meta = view.DEFAULT

    monkeypatch.setattr(view.View, "__init__", forget)


PLANTS = [
    _forget_the_slice,
    _forget_the_version,
    _forget_the_hook,
    _forget_to_regenerate,
    _forget_how_views_were_made,
    _forget_that_a_view_of_several_is_one,
    _forget_the_functions_views,
    _forget_inheritance,
]


@pytest.mark.parametrize("plant", PLANTS)
def test_injected_faults_are_found(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, ExceptionGroup)):
        run(20, seed=1, shrink=False)  # ends when something is found
