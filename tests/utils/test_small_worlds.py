"""torch's small modules: what programs ask and set beside computing."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest

import ag_visual as ag
from ag_visual import compiler

from ..oracle import torch


def answer(ask: Any, t: Any) -> Any:
    """What a question gives, with what it warns of or raises."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = ask(t)
        except Exception as error:
            found = type(error).__name__, str(error)
    return repr(found), [each.category for each in told]


SWITCHES = {
    "precision": lambda t: (
        t.set_float32_matmul_precision("high")
        or (t.get_float32_matmul_precision(), t.set_float32_matmul_precision("highest"))
    ),
    "precision_of_int": lambda t: t.set_float32_matmul_precision(3),
    "precision_unknown": lambda t: t.set_float32_matmul_precision("x"),
    "deterministic": lambda t: [
        (
            t.use_deterministic_algorithms(mode, warn_only=warn),
            t.are_deterministic_algorithms_enabled(),
            t.is_deterministic_algorithms_warn_only_enabled(),
            t.get_deterministic_debug_mode(),
        )
        for mode, warn in ((True, True), (True, False), (False, True), (False, False))
    ],
    "deterministic_of_int": lambda t: t.use_deterministic_algorithms(1),
    "debug_mode": lambda t: [
        (t.set_deterministic_debug_mode(mode), t.get_deterministic_debug_mode())
        for mode in ("warn", 2, "error", 0)
    ],
    "debug_mode_unknown": lambda t: t.set_deterministic_debug_mode("x"),
    "debug_mode_number": lambda t: t.set_deterministic_debug_mode(7),
    "threads_none": lambda t: t.set_num_threads(0),
    "threads_of_float": lambda t: t.set_num_threads(1.5),
    "threads": lambda t: [
        (t.set_num_threads(n), t.get_num_threads()) for n in (1, t.get_num_threads())
    ],
    "interop_none": lambda t: t.set_num_interop_threads(0),
    "cudnn": lambda t: (
        t.backends.cudnn.is_available(),
        t.backends.cudnn.version(),
        t.backends.cudnn.enabled,
        t.backends.cudnn.benchmark,
        t.backends.cudnn.deterministic,
        t.backends.cudnn.allow_tf32,
        t.backends.mps.is_available(),
        t.backends.mps.is_built(),
        t.backends.cuda.matmul.allow_tf32,
        t.backends.cuda.is_built(),
    ),
    "cudnn_flags": lambda t: flagged(t.backends.cudnn),
    "matmul_unknown": lambda t: setattr(t.backends.cuda.matmul, "foo", 1),
    "sdpa": lambda t: attended(t),
    "sdpa_of_string": lambda t: t.nn.attention.sdpa_kernel("math").__enter__(),
    "accelerator": lambda t: (
        t.accelerator.is_available(),
        t.accelerator.device_count(),
        t.accelerator.current_accelerator(),
    ),
    "accelerator_device": lambda t: t.accelerator.current_device_index(),
    "accelerator_memory": lambda t: t.accelerator.memory_allocated(),
    "cuda": lambda t: (
        t.cuda.memory_allocated(),
        t.cuda.max_memory_allocated(),
        t.cuda.memory_reserved(),
        t.cuda.memory_stats(),
        t.cuda.is_bf16_supported(),
        t.cuda.is_initialized(),
        t.cuda.get_rng_state_all(),
        t.cuda.manual_seed_all(0),
        t.cuda.set_device(-1),
    ),
    "other_devices": lambda t: (
        t.mps.is_available(),
        t.xpu.is_available(),
        t.xpu.device_count(),
        t.cpu.is_available(),
        t.cpu.device_count(),
        t.cpu.current_device(),
    ),
    "compiling": lambda t: (
        t.compiler.is_compiling(),
        t.jit.is_scripting(),
        t.jit.is_tracing(),
        t.onnx.is_in_onnx_export(),
        t.jit.annotate(int, 3),
    ),
    "versions": lambda t: [
        importlib.import_module(f"{t.__name__}.torch_version").TorchVersion("2.8.0+x") >= other
        for other in ((2, 8), "2.8.0", "2.10", (2, 7, 9), "2.8.0+x", "1.13")
    ],
    "consumed_prefix": lambda t: consumed(t.nn.modules.utils),
    "dlpack": lambda t: (
        importlib.import_module(f"{t.__name__}.utils.dlpack").from_dlpack(t.arange(3)).tolist()
    ),
}


def flagged(cudnn: Any) -> Any:
    with cudnn.flags(enabled=False, benchmark=True):
        inside = cudnn.enabled, cudnn.benchmark
    return inside, cudnn.enabled, cudnn.benchmark


def attended(t: Any) -> Any:
    attention = importlib.import_module(f"{t.__name__}.nn.attention")
    math = attention.SDPBackend.MATH
    with attention.sdpa_kernel([math]):
        inside = t.backends.cuda.flash_sdp_enabled(), t.backends.cuda.math_sdp_enabled()
    return inside, t.backends.cuda.flash_sdp_enabled(), str(math), int(math)


def consumed(utils: Any) -> Any:
    state = {"module.a": 1, "b": 2}
    utils.consume_prefix_in_state_dict_if_present(state, "module.")
    return sorted(state.items())


@pytest.mark.oracle
@pytest.mark.parametrize("name", SWITCHES)
def test_answers_are_torchs(name: str) -> None:
    assert answer(SWITCHES[name], ag) == answer(SWITCHES[name], torch)


def test_programs_run_as_they_are_and_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_warned", set())

    def double(x: Any) -> Any:
        return x * 2

    for name, use in {
        "compile": lambda: ag.compile(mode="max-autotune")(double),
        "jit.script": lambda: ag.jit.script(double),
        "jit.trace": lambda: ag.jit.trace(double, (ag.ones(2),)),
    }.items():
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert use() is use() is double
        [warning] = told
        assert f"torch.{name} compiles nothing here" in str(warning.message)
    layer = ag.nn.Linear(1, 1)
    monkeypatch.setattr(compiler, "_warned", set())
    with pytest.warns(UserWarning, match=r"torch\.compile compiles nothing here"):
        layer.compile()
    with pytest.raises(RuntimeError, match="Either mode or options can be specified"):
        ag.compile(double, mode="default", options={})


PAIRS: dict[str, Any] = {
    "close": lambda t: ([1.0, 1 + 1e-8], [1.0, 1.0]),
    "vectors": lambda t: (t.tensor([1.0, 2.0, 3.0]), t.tensor([1.0, 2.5, 3.0])),
    "nan": lambda t: (t.ones(2, 2), t.tensor([[1.0, 2.0], [float("nan"), 1.0]])),
    "scalars": lambda t: (t.tensor(1.0), t.tensor(2.0)),
    "shape": lambda t: (t.ones(2), t.ones(3)),
    "dtype": lambda t: (t.ones(2), t.ones(2, dtype=t.float64)),
    "types": lambda t: (1, 1.0),
    "numbers": lambda t: (1, 2),
    "nested": lambda t: ([{"x": [1, 2.0]}], [{"x": [1, 3.0]}]),
    "length": lambda t: ([1], [1, 2]),
    "keys": lambda t: ({"a": 1, "c": 2}, {"a": 1, "b": 1}),
    "strings": lambda t: ("a", "a"),
    "none": lambda t: (None, 1),
    "booleans": lambda t: (True, False),
    "integers": lambda t: (t.tensor([200, 3], dtype=t.uint8), t.tensor([1, 5], dtype=t.uint8)),
    "complex": lambda t: (t.tensor([1 + 1j]), t.tensor([1 + 2j])),
    "half": lambda t: (t.ones(3, dtype=t.float16), t.zeros(3, dtype=t.float16)),
    "infinite": lambda t: (t.tensor([float("inf")]), t.tensor([1.0])),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", PAIRS)
def test_assert_close_finds_and_tells_what_torchs_does(name: str) -> None:
    found = [answer(lambda t: t.testing.assert_close(*PAIRS[name](t)), t) for t in (ag, torch)]
    assert found[0] == found[1]


OPTIONS: list[dict[str, Any]] = [
    {"rtol": 1e-3},
    {"rtol": 0, "atol": 1},
    {"rtol": 0, "atol": 0.25},
    {"msg": "mine"},
    {"msg": lambda text: f"{text} (mine)"},
    {"check_stride": True},
]


@pytest.mark.oracle
@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
def test_options_of_assert_close_are_torchs(options: dict[str, Any]) -> None:
    def ask(t: Any) -> None:
        t.testing.assert_close(t.ones(2, 3) / 2, t.ones(3, 2).t(), **options)

    assert answer(ask, ag) == answer(ask, torch)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "bfloat16", "complex64"])
def test_make_tensor_has_torchs_range(dtype: str) -> None:
    for options in (
        {},
        {"low": 1, "high": 2},
        {"noncontiguous": True},
        {"exclude_zero": True},
        {"low": 3, "high": 2},
        {"low": float("nan")},
        {"requires_grad": True},
    ):
        found = []
        for t in (ag, torch):
            kind = getattr(t, dtype)
            given = {"dtype": kind, "device": "cpu", **options}
            told = answer(lambda t, given=given: t.testing.make_tensor(3, 40, **given), t)
            if told[0].startswith("("):
                found.append(told)
                continue
            x = t.testing.make_tensor(3, 40, **given)
            real = t.view_as_real(x) if x.is_complex() else x
            number = real.detach().to(t.float64)
            found.append((x.shape, x.stride(), x.requires_grad, str(x.dtype).rpartition(".")[2]))
            assert number.min() >= options.get("low", -9)
            assert number.max() <= options.get("high", 10)
            assert not options.get("exclude_zero") or bool((x != 0).all())
        assert found[0] == found[1]


def test_a_timer_measures_a_statement() -> None:
    timer = ag.utils.benchmark.Timer("x.add(1)", globals={"x": ag.ones(3)}, label="add")
    for measured in (timer.timeit(5), timer.blocked_autorange(min_run_time=0.001)):
        assert 0 < measured.median < 10
        assert repr(measured).splitlines()[1] == "add"
    assert ag.utils.benchmark.select_unit(2e-5) == ("us", 1e-6)
