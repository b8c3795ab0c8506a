"""What is done where torch tells less of a saved tensor (2.5 to 2.9), on the torch that is here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.bridge import forward, problems, releases, saved, threads
from ag_visual.events import live

from ..oracle import torch
from . import test_blame

CHOSEN = [
    case
    for kind in ("modified-by-inplace", "silent", "second-backward", "leaf-inplace", "view-inplace")
    for case in [each for each in test_blame.CASES if each["kind"] == kind][:4]
    if "checkpoint" not in case["id"]
]


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (forward, problems, saved, threads):
        monkeypatch.setattr(module, "TELLS", False)


@pytest.mark.usefixtures("older")
def test_notes_name_both_lines(tmp_path: Path) -> None:
    assert len(CHOSEN) > 10
    for case in CHOSEN:
        for problems_only in (False, True):
            test_blame.test_the_note_names_both_lines(case, problems_only, tmp_path)


@pytest.mark.usefixtures("older")
def test_the_tensor_is_named_after_it_was_written(tmp_path: Path) -> None:
    program = """
import torch
x = torch.ones(2, 3, requires_grad=True)
both = torch.cat([x, x])
kept = both.exp()
part = kept[1:]
part.mul_(2)
kept.sum().backward()
"""
    error = test_blame.run(program, tmp_path / "program.py", problems_only=True)
    assert error.fields["tensor"] == {"name": "kept", "shape": (4, 3), "dtype": "float32"}
    assert error.fields["aliases"] == [{"name": "part", "how": "a view of `kept`"}]


@pytest.mark.usefixtures("older")
def test_what_a_hook_may_have_packed_is_not_read() -> None:
    calls: list[int] = []

    def unpack(t: Any) -> Any:
        calls.append(1)
        return t

    def kinds(node: Any) -> list[tuple[str, str]]:
        return [(field.name, field.kind) for field in node.saved_fields()]

    x = torch.ones(2, requires_grad=True)
    before = x.exp()
    with ag.watch(torch):
        (engine,) = live.engines
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
            inside = x.exp()
        after = x.exp()
        late = x.exp()
        late.grad_fn._raw_saved_result.register_hooks(lambda t: t, unpack)
        assert kinds(engine.node_of(before)) == [("result", "packed")]
        assert kinds(engine.node_of(inside)) == [("result", "packed")]
        assert kinds(engine.node_of(late)) == [("result", "packed")]
        assert kinds(engine.node_of(after)) == [("result", "packed")], (
            "no birth is trusted any more"
        )
        assert kinds(engine.node_of(x.exp())) == [("result", "tensor")]
        assert engine.node_of(inside).saved_array("result") is None
        assert not calls


@pytest.mark.usefixtures("older")
def test_a_written_saved_tensor_has_both_versions() -> None:
    with ag.watch(torch):
        (engine,) = live.engines
        y = torch.ones(2, requires_grad=True).exp()
        y.add_(1)
        below = engine.node_of(y).next_functions[0][0]
        (field,) = below.saved_fields()
    assert (field.kind, field.version_then, field.version_now) == ("tensor", 0, 1)
    assert field.shape == (2,)


@pytest.mark.usefixtures("older")
@pytest.mark.parametrize("problems_only", [False, True])
def test_lines_are_as_long_known_as_their_nodes_and_none_is_given_by_chance(
    problems_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "MOST_LINES", 50)
    x = torch.ones(3, requires_grad=True)
    with ag.watch(torch, problems_only=problems_only):
        assert type(live.engines[0]._mode) is forward.Forward  # type: ignore[attr-defined]
        early = x.tanh()
        with torch._C.DisableTorchFunction():
            unseen = x.exp()
        for _ in range(100):
            early.neg()
        for tensor, known in ((early, True), (unseen, False)):
            tensor.add_(1)
            with pytest.raises(RuntimeError, match="inplace") as error:
                tensor.sum().backward()
            notes = "".join(getattr(error.value, "__notes__", ()))
            assert ("x.tanh()" in notes and "tensor.add_(1)" in notes) is known
            assert known or not notes


def test_whether_hooks_pack_is_seen_without_a_name_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert releases.packing_now()
    assert not releases.packing_now()
    name = "_top_saved_tensors_default_hooks"
    monkeypatch.delattr(torch._C._autograd, name, raising=False)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        assert releases.packing_now()
        assert torch._C._autograd._saved_tensors_hooks_is_enabled()
    assert not releases.packing_now()
    with torch.autograd.graph.disable_saved_tensors_hooks("refused"):
        assert not releases.packing_now()
        assert torch._C._autograd._saved_tensors_hooks_get_disabled_error_message() == "refused"


def test_calls_of_python_are_told_by_their_names() -> None:
    def event(name: str, scope: int = 0) -> Any:
        return SimpleNamespace(name=lambda: name, scope=lambda: scope)

    assert releases.is_python_function(event("train.py(12): step"))
    assert releases.is_python_function(event("<built-in method sum of type object at 0x7f>"))
    assert not releases.is_python_function(event("aten::add"))
    assert not releases.is_python_function(event("step(3): forward", 7))


@pytest.mark.parametrize("problems_only", [False, True])
def test_a_torch_that_asks_for_no_hooks_of_modules(
    problems_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = torch.nn.modules.module
    monkeypatch.delattr(module, "_has_any_global_hook", raising=False)
    model = torch.nn.Linear(2, 1)
    with ag.watch(torch, problems_only=problems_only):
        model(torch.ones(3, 2)).sum().backward()
    assert model.weight.grad is not None
    assert not hasattr(module, "_has_any_global_hook")
