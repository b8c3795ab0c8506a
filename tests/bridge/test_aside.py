"""What torch reads instead of running it, and what asks for function modes: as it is unwatched."""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.bridge import aside
from ag_visual.events import live

from ..oracle import torch
from .same import bits

nn = torch.nn


@pytest.fixture(autouse=True)
def nothing_missed(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An error of the watcher's own is logged: here it fails the test."""
    with caplog.at_level(logging.ERROR, "ag_visual"):
        yield
    assert not [record for record in caplog.records if record.name == "ag_visual"]


def alike(program: Any, **options: Any) -> Any:
    """What a program returns, unwatched and watched the same; the recording."""

    def run() -> Any:
        torch.manual_seed(0)
        return program()

    alone = run()
    with ag.watch(torch, **options) as watched:
        assert run() == alone
        assert torch._C._len_torch_function_stack() == 1
    assert run() == alone
    return watched


def compiled() -> list[Any]:
    """How often a backend is asked, what is warned of, gradients."""
    torch.compiler.reset()
    asked: list[int] = []

    def backend(module: Any, _: Any) -> Any:
        asked.append(len(list(module.graph.nodes)))
        return module.forward

    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    x = torch.randn(2, 3)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        whole = torch.compile(model, backend=backend, fullgraph=True)
        for _ in range(2):
            whole(x).sum().backward()

        @torch.compile(backend=backend)  # type: ignore[untyped-decorator]
        def step(x: Any) -> Any:
            loss = model(x).square().sum()
            torch._dynamo.graph_break()
            loss.backward()
            return loss * 2

        step(x)
    return [
        asked,
        [str(each.message) for each in warned],
        *(bits(p.grad) for p in whole.parameters()),
    ]


def test_torch_compile_reads_programs_as_if_nobody_watched() -> None:
    assert compiled()[0]
    frames = torch._dynamo.eval_frame._maybe_set_eval_frame
    rules = list(torch._dynamo.trace_rules.SKIP_DIRS)
    for problems_only in (False, True):
        alike(compiled, problems_only=problems_only)
    assert torch._dynamo.eval_frame._maybe_set_eval_frame is frames
    assert rules == torch._dynamo.trace_rules.SKIP_DIRS


def test_what_is_compiled_ahead_of_time_is_one_node() -> None:
    def program() -> Any:
        torch.compiler.reset()
        f = torch.compile(lambda v: (v.sin() * v).sum(), backend="aot_eager")
        x = torch.randn(3, requires_grad=True)
        y = f(x)
        y.backward()
        for engine in live.engines:
            names.append(engine.node_of(y).name())
        return bits(x.grad)

    names: list[str] = []
    alike(program)
    assert names == ["CompiledFunctionBackward"]


def test_a_watch_may_end_inside_of_what_is_compiled() -> None:
    watched: list[Any] = []

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def stop() -> None:
        watched[0].stop()

    @torch.compile(backend="eager")  # type: ignore[untyped-decorator]
    def program(x: Any) -> Any:
        y = x * 2
        stop()
        return y + 1

    hooks = torch.nn.modules.module._global_forward_hooks
    watched.append(ag.watch(torch))
    assert program(torch.ones(2)).tolist() == [3.0, 3.0]
    watched[0].stop()
    assert not live.engines
    assert torch._C._len_torch_function_stack() == 0
    assert not hooks


def test_exported_and_traced_graphs_are_the_same() -> None:
    def program() -> list[str]:
        model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
        x = torch.ones(1, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(model, x)
            function = torch.jit.trace(lambda v: v.sin() * 2, x)
        found = [str(traced.graph), str(traced.code), str(function.graph)]
        found = [re.sub(r"___torch_mangle_\d+\.", "", text) for text in found]
        return found + [str(torch.export.export(model, (x,), strict=s).graph) for s in (0, 1)]

    alike(program)


def test_modules_take_the_same_path_without_gradients() -> None:
    """Those of attention compute otherwise where they see any function mode."""

    def program() -> list[Any]:
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        model = nn.ModuleList(
            [
                *(nn.TransformerEncoder(layer, 2), nn.MultiheadAttention(8, 2, batch_first=True)),
                nn.Transformer(8, 2, 1, 1, 16, batch_first=True),
            ]
        ).eval()
        x, y = torch.randn(2, 5, 8), torch.randn(2, 3, 8)
        asked: list[str] = []

        class Asked(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kw: Any = None
            ) -> Any:
                asked.append(str(func))
                return func(*args, **(kw or {}))

        with torch.no_grad(), Asked():
            found = [model[0](x), *model[1](x, x, x), model[2](x, y)]
        return [bits(each) for each in found] + asked

    assert "aten._transformer_encoder_layer_fwd.default" in program()
    alike(program)


def test_a_mode_of_the_programs_own_is_still_asked_for_by_modules() -> None:
    class Mine(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kw: Any = None) -> Any:
            return func(*args, **(kw or {}))

    class Own(torch.Tensor):  # type: ignore[misc]
        pass

    def program() -> list[bool]:
        has = torch.overrides.has_torch_function
        x = torch.ones(2)
        with Mine():
            inside = has((x,))
        given = [(x,), (nn.Parameter(x),), (x.as_subclass(Own),), (1, None), ()]
        with torch._C.DisableTorchFunction():
            disabled = has((x.as_subclass(Own),))
        return [inside, disabled, *(has(each) for each in given)]

    assert program() == [True, False, False, False, True, False, False]
    alike(program)


def test_dispatch_modes_of_the_program_see_nothing_of_the_watcher() -> None:
    def program() -> list[str]:
        seen: list[str] = []

        class Seen(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kw: Any = None
            ) -> Any:
                seen.append(str(func))
                return func(*args, **(kw or {}))

        layer = nn.TransformerEncoderLayer(8, 2, 64, batch_first=True)
        with Seen():
            loss = layer(torch.randn(2, 3, 8)).exp().sum()
            loss.backward()
        return seen

    alike(program)


def test_the_watcher_knows_when_torch_dynamo_has_been_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "comes_later.py").write_text("there = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(aside, "_DYNAMO", "comes_later")
    told: list[int] = []
    finder = aside._Finder(lambda: told.append(sys.modules["comes_later"].there))
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    __import__("json")
    assert not told
    __import__("comes_later")
    monkeypatch.delitem(sys.modules, "comes_later")
    assert told == [1]
