"""torch.fft, stft, istft and the windows side by side with torch."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import ag_visual as ag

from ..oracle import torch
from ..properties.checks import close
from .side_by_side import graph

REAL_ONLY = ("rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn")
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
TWO = tuple(f"{name}2" for name in ONE)
MANY = tuple(f"{name}n" for name in ONE)
NORMS = (None, "backward", "ortho", "forward")


def signal(shape: tuple[int, ...], kind: str) -> Any:
    random = numpy.random.default_rng(2)
    x = random.uniform(-1, 1, shape)
    if kind.startswith("complex"):
        x = x + 1j * random.uniform(-1, 1, shape)
    return (x * 5).astype(kind)


def outcome(t: Any, function: Any, x: Any) -> list[Any]:
    """The value, the gradient and that of the gradient along fixed directions."""
    random = numpy.random.default_rng(8)

    def direction(like: Any) -> Any:
        g = random.uniform(-1, 1, tuple(like.shape))
        if like.is_complex():
            g = g + 1j * random.uniform(-1, 1, tuple(like.shape))
        return t.tensor(g)

    leaf = t.tensor(x)
    floating = x.dtype in (numpy.float64, numpy.complex128)
    out = function(t, leaf.requires_grad_() if floating else leaf)
    found = [out.detach().numpy(force=True)]
    if floating:
        g = direction(out).requires_grad_()
        (first,) = t.autograd.grad(out, leaf, g, create_graph=True)
        (second,) = t.autograd.grad(first, g, direction(first))
        found += [first.detach().numpy(force=True), second.numpy(force=True)]
    return found


def same(function: Any, x: Any) -> None:
    ours = outcome(ag, function, x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = outcome(torch, function, x)
    for a, b in zip(ours, theirs, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        single = a.dtype.itemsize <= 8 and a.dtype != numpy.float64
        close(a, b, "transform", *((1e-4, 1e-4) if single else (1e-10, 1e-11)))


def kinds(name: str) -> Iterator[str]:
    yield from ("float64", "float32", "int64", "bool")
    if name not in REAL_ONLY:
        yield from ("complex128", "complex64")


@pytest.mark.oracle
@pytest.mark.parametrize("name", ONE)
def test_one_dimension(name: str) -> None:
    for kind in kinds(name):
        x = signal((3, 5, 4), kind)
        for n, dim, norm in itertools.product((None, 1, 4, 7), (-1, 1), NORMS):
            same(lambda t, x: getattr(t.fft, name)(x, n, dim, norm), x)  # noqa: B023


@pytest.mark.oracle
@pytest.mark.parametrize("name", [*TWO, *MANY])
def test_several_dimensions(name: str) -> None:
    cases = [(None, None), (None, (2, 0)), ((3, 6), (-1, 0)), ((4, 3), (0, 1)), ((-1, 5), (1, 2))]
    if name in MANY:
        cases += [((4,), None), ((2, 5), None), (None, (1,))]
    for kind in kinds(name):
        x = signal((3, 5, 4), kind)
        for (s, dim), norm in itertools.product(cases, NORMS):
            named = {} if dim is None and name in TWO else {"dim": dim}
            same(lambda t, x: getattr(t.fft, name)(x, s, norm=norm, **named), x)  # noqa: B023


@pytest.mark.parametrize(
    ("there", "back", "kind"),
    [("fft", "ifft", "complex128"), ("rfft", "irfft", "float64"), ("ihfft", "hfft", "float64")],
)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("suffix", ["", "2", "n"])
def test_back_and_forth(there: str, back: str, kind: str, norm: Any, suffix: str) -> None:
    x = signal((4, 3, 5), kind)
    spectrum = getattr(ag.fft, there + suffix)(ag.tensor(x), norm=norm)
    sizes = 5 if not suffix else x.shape[-2:] if suffix == "2" else x.shape
    found = getattr(ag.fft, back + suffix)(spectrum, sizes, norm=norm)
    close(found.numpy(), x, "round trip", 1e-12, 1e-12)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "expression",
    [
        "t.fft.fft(x)",
        "t.fft.fft(m)",
        "t.fft.fftn(z, s=(3, 5))",
        "t.fft.irfft(z)",
        "t.fft.hfft2(z)",
        "t.fft.ihfft2(m)",
        "t.fft.fftshift(m, 1)",
    ],
)
def test_graphs(expression: str) -> None:
    found = []
    for t in (ag, torch):
        scope = {"t": t, "x": t.ones(4), "m": t.ones(2, 3), "z": t.ones(2, 3) + 1j}
        scope = {k: v.requires_grad_() if k != "t" else v for k, v in scope.items()}
        out = eval(expression, scope)
        found.append(None if out.grad_fn is None else graph(out.grad_fn))
    assert str(found[0]) == str(found[1])


ERRORS = [
    "t.fft.fft(t.zeros(0))",
    "t.fft.fft(t.zeros(3), norm='x')",
    "t.fft.fft(t.zeros(3), dim=2)",
    "t.fft.fft(t.zeros(3), n=-2)",
    "t.fft.fft(t.zeros(()))",
    "t.fft.fft(t.zeros(3, dtype=t.float16))",
    "t.fft.fft(t.zeros(3, dtype=t.bfloat16))",
    "t.fft.rfft(t.zeros(3) + 1j)",
    "t.fft.ihfft(t.zeros(3) + 1j)",
    "t.fft.irfft(t.zeros(1))",
    "t.fft.irfft(t.zeros(3), n=0)",
    "t.fft.fft2(t.zeros(3))",
    "t.fft.fftn(t.zeros(3, 3), dim=(0, 0))",
    "t.fft.fftn(t.zeros(3, 3), s=(1, 2, 3))",
    "t.fft.fftn(t.zeros(3, 3), s=(1, 2), dim=(0,))",
    "t.fft.fftn(t.zeros(3, 3), s=(0, 2))",
    "t.fft.irfftn(t.zeros(3, 3), s=(3, 0))",
    "t.fft.rfftn(t.zeros(3) + 1j)",
    "t.fft.rfftn(t.zeros(()), dim=())",
    "t.fft.irfftn(t.zeros(()), dim=())",
    "t.fft.hfftn(t.zeros(()), dim=())",
    "t.stft(t.zeros(10), 4)",
    "t.stft(t.zeros(2, 2, 10), 4, return_complex=True)",
    "t.stft(t.zeros(10), 11, return_complex=True, center=False)",
    "t.stft(t.zeros(10), 4, 0, return_complex=True)",
    "t.stft(t.zeros(10), 4, win_length=5, return_complex=True)",
    "t.stft(t.zeros(10) + 1j, 4, onesided=True, return_complex=True)",
    "t.stft(t.zeros(10, dtype=t.int32), 4, return_complex=True)",
    "t.istft(t.zeros(3, 4), 4)",
    "t.istft(t.zeros(3, 4) + 1j, 4, return_complex=True)",
    "t.hann_window(-1)",
]


@pytest.mark.oracle
@pytest.mark.parametrize("expression", ERRORS)
def test_errors_as_torch(expression: str) -> None:
    with pytest.raises(Exception) as expected:
        eval(expression, {"t": torch})
    with pytest.raises(type(expected.value)) as found:
        eval(expression, {"t": ag})
    assert str(expected.value).rstrip(".") in str(found.value)


@pytest.mark.parametrize(
    ("call", "phrase"),
    [
        (lambda x, w: ag.istft(x, 4, window=w[:3]), "window has to be 1D and length of"),
        (lambda x, w: ag.istft(x, 4, window=w * 0), "window overlap add min"),
        (lambda x, w: ag.istft(x, 4, hop_length=5), "expected 0 < hop_length <= win_length"),
        (lambda x, w: ag.istft(x, 6), "match n_fft / 2 + 1 when onesided=True, but got 3"),
        (lambda x, w: ag.istft(x[:, :0], 4), "input tensor cannot be empty"),
        (lambda x, w: ag.stft(w, 4, window=w[:3], return_complex=True), "size equal to win_length"),
    ],
)
def test_what_istft_refuses(call: Any, phrase: str) -> None:
    with pytest.raises(RuntimeError, match=phrase.replace("+", r"\+")):
        call(ag.ones(3, 4) + 0j, ag.ones(4))


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["hann", "hamming", "blackman", "bartlett", "kaiser"])
def test_windows(name: str) -> None:
    for length, periodic in itertools.product((0, 1, 2, 7, 8), (True, False)):
        for kind in ("float64", "float32"):
            a, b = (
                getattr(t, f"{name}_window")(length, periodic, dtype=getattr(t, kind))
                for t in (ag, torch)
            )
            assert str(a.dtype) == str(b.dtype)
            close(
                a.numpy(), b.numpy(), f"{name} {length}", 1e-6, 1e-7 if kind == "float32" else 1e-14
            )


@pytest.mark.oracle
def test_frequencies() -> None:
    for name, n, d in itertools.product(("fftfreq", "rfftfreq"), (1, 2, 5, 8), (1.0, 0.3)):
        a, b = (getattr(t.fft, name)(n, d) for t in (ag, torch))
        assert a.tolist() == b.tolist()
    out = ag.empty(0)
    assert ag.fft.fftfreq(4, out=out) is out
    assert out.tolist() == [0.0, 0.25, -0.5, -0.25]


STFT = [
    {"n_fft": 4},
    {"n_fft": 5, "hop_length": 2, "onesided": False},
    {"n_fft": 6, "win_length": 4, "window": 4, "normalized": True},
    {"n_fft": 4, "center": False},
    {"n_fft": 4, "pad_mode": "constant", "return_complex": False},
    {"n_fft": 8, "hop_length": 3, "win_length": 5},
]


@pytest.mark.oracle
@pytest.mark.parametrize("options", STFT, ids=str)
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_stft(options: dict[str, Any], kind: str) -> None:
    if kind == "complex128" and options.get("return_complex") is False:
        options = {**options, "onesided": False}

    def transformed(t: Any, x: Any) -> Any:
        named = {"return_complex": True, **options}
        if "window" in named:
            named["window"] = t.hann_window(named["window"], dtype=t.float64)
        return t.stft(x, **named)

    for shape in ((20,), (2, 17)):
        same(transformed, signal(shape, kind))


@pytest.mark.oracle
@pytest.mark.parametrize(
    "options",
    [{}, {"length": 14}, {"normalized": True}, {"center": False, "hop_length": 2}, {"window": 8}],
    ids=str,
)
def test_istft(options: dict[str, Any]) -> None:
    def signals(t: Any, x: Any) -> Any:
        named = dict(options)
        if "window" in named:
            named["window"] = t.hamming_window(named["window"], dtype=t.float64)
        return t.istft(x, 8, **named)

    for shape in ((5, 6), (2, 5, 7)):
        same(signals, signal(shape, "complex128"))


def test_istft_inverts_stft() -> None:
    x = ag.tensor(signal((2, 24), "float64"))
    window = ag.hann_window(8, dtype=ag.float64)
    spectrum = ag.stft(x, 8, window=window, return_complex=True)
    close(ag.istft(spectrum, 8, window=window, length=24).numpy(), x.numpy(), "istft")
    with pytest.warns(UserWarning, match="The length of signal is shorter"):
        longer = ag.istft(spectrum, 8, window=window, length=40)
    assert longer.shape == (2, 40)
