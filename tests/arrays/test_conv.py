"""Convolution and its two gradients against torch's, on every array library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

from ag_visual.arrays.kernels import conv, lines, taps

from ..oracle import torch
from .compare import agree, random_array, theirs

# input, weight, stride, padding, dilation, groups
CASES: list[tuple[Any, ...]] = [
    ((2, 3, 7, 8), (4, 3, 3, 2), (1, 1), (0, 0), (1, 1), 1),
    ((2, 3, 7, 8), (4, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 4, 9, 8), (6, 2, 3, 2), (2, 3), (1, 0), (1, 1), 2),
    ((1, 4, 9, 9), (4, 1, 3, 3), (1, 2), (2, 1), (2, 1), 4),
    ((2, 3, 5, 5), (8, 3, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 2, 6, 7), (3, 2, 2, 3), (3, 2), (0, 2), (1, 2), 1),
    ((3, 2, 3, 3), (30, 2, 3, 3), (1, 1), (0, 0), (1, 1), 1),
    ((0, 3, 5, 5), (2, 3, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 3, 9), (4, 3, 3), (2,), (1,), (2,), 1),
    ((1, 2, 4, 5, 4), (2, 2, 2, 3, 2), (1, 2, 1), (1, 1, 0), (1, 1, 2), 1),
    ((2, 3, 5, 5), (9, 3, 2, 2), (1, 1), (2, 1), (1, 1), 1),
    # Strides below the size of the kernel: a convolution for each phase of the gradient.
    ((2, 3, 11), (4, 3, 5), (3,), (2,), (1,), 1),
    ((2, 2, 9, 8), (3, 2, 5, 2), (4, 1), (4, 0), (1, 1), 1),
    ((2, 4, 10, 7), (4, 2, 4, 3), (2, 2), (1, 2), (1, 1), 2),
    ((1, 2, 7, 6, 8), (2, 2, 3, 2, 3), (2, 1, 3), (1, 0, 2), (1, 1, 1), 1),
    # Few channels in each group and many places: lines of images.
    ((3, 4, 26, 28), (4, 1, 3, 3), (1, 1), (1, 1), (1, 1), 4),
    ((3, 4, 26, 28), (8, 1, 3, 2), (1, 1), (1, 0), (1, 2), 4),
    ((2, 4, 33, 32), (2, 2, 2, 5), (1, 1), (0, 4), (2, 1), 2),
    ((2, 3, 1100), (3, 1, 4), (1,), (3,), (1,), 3),
    ((2, 2, 9, 12, 11), (2, 1, 3, 2, 2), (1, 1, 1), (0, 1, 1), (1, 2, 1), 2),
]


def reference(case: tuple[Any, ...], dtype: str, bias: Any) -> tuple[Any, ...]:
    shape, weight_shape, stride, padding, dilation, groups = case
    x = theirs(random_array(shape, dtype)).requires_grad_()
    w = theirs(random_array(weight_shape, dtype, seed=1)).requires_grad_()
    function = getattr(torch.nn.functional, f"conv{len(stride)}d")
    out = function(x, w, theirs(bias), stride, padding, dilation, groups)
    g = random_array(tuple(out.shape), dtype, seed=2)
    # torch conjugates in the gradients of complex numbers; these kernels are plain transposes.
    gx, gw = torch.autograd.grad(out, [x, w], theirs(g).conj() if out.is_complex() else theirs(g))
    if out.is_complex():
        gx, gw = gx.conj().resolve_conj(), gw.conj().resolve_conj()
    return x.detach().numpy(), w.detach().numpy(), out, g, gx, gw


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution_is_torchs(run: Callable[..., Any], case: tuple[Any, ...], dtype: str) -> None:
    bias = random_array((case[1][0],), dtype, seed=3)
    x, w, out, g, gx, gw = reference(case, dtype, bias)
    limits = case[2:]
    agree(run(conv.conv2d, x, w, bias, *limits), out)
    agree(run(conv.conv2d_input, g, w, x.shape, *limits), gx)
    agree(run(conv.conv2d_weight, g, x, w.shape, *limits), gw)


# One size each for a part of the batch, a product and a sum: everything in pieces, or in one.
@pytest.mark.parametrize("most", [1, 1 << 30], ids=["in pieces", "at once"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_lines_of_images_give_the_same(
    case: tuple[Any, ...], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_SHORTEST_BLOCK", 2)
    for name in ("_PART_BYTES", "_SMALL_PRODUCT", "_TOGETHER"):
        monkeypatch.setattr(lines, name, most)
    x, w, out, g, _, gw = reference(case, "float64", None)
    limits = (case[5], *case[2:5])
    bias = random_array((len(w),), seed=3)
    found = lines.forward(x, w, bias, out.shape[2:], *limits)
    agree(found, out.detach().numpy() + bias.reshape(-1, *(1 for _ in case[2])))
    if len(x):
        agree(lines.for_weight(g, x, w.shape, *limits), gw)


def test_what_is_not_finite_meets_no_zeros_around_a_phase() -> None:
    case = ((1, 2, 6, 6), (2, 2, 3, 3), (2, 2), (1, 1), (1, 1), 1)
    x, w, _, g, _, _ = reference(case, "float64", None)
    w = w.copy()
    w[0, 0, 0, 0] = numpy.inf
    leaf = theirs(x).requires_grad_()
    torch.nn.functional.conv2d(leaf, theirs(w), None, *case[2:]).backward(theirs(g))
    with numpy.errstate(invalid="ignore"):
        found = conv.conv2d_input(numpy, g, w, x.shape, *case[2:])
    assert not numpy.isnan(found).any()
    agree(found, leaf.grad)


def test_complex_convolution_is_torchs(run: Callable[..., Any]) -> None:
    x, w, out, g, gx, gw = reference(CASES[2], "complex128", None)
    limits = CASES[2][2:]
    agree(run(conv.conv2d, x, w, None, *limits), out)
    agree(run(conv.conv2d_input, g, w, x.shape, *limits), gx)
    agree(run(conv.conv2d_weight, g, x, w.shape, *limits), gw)


def test_integers_and_half_precision_are_computed_in_wider_types(run: Callable[..., Any]) -> None:
    limits = CASES[1][2:]
    x, w = random_array((2, 3, 7, 8), "int64"), random_array((4, 3, 3, 3), "int64", 1)
    exact = run(conv.conv2d, x, w, None, *limits)
    agree(exact, torch.nn.functional.conv2d(theirs(x), theirs(w), None, *limits))
    narrow = run(conv.conv2d, x.astype("float16"), w.astype("float16"), None, *limits)
    numpy.testing.assert_array_equal(narrow, exact.astype("float16"))


def test_memory_layout_of_the_operands_does_not_matter(run: Callable[..., Any]) -> None:
    x, w, out, g, gx, gw = reference(CASES[1], "float64", None)
    limits = CASES[1][2:]
    x, w, g = (numpy.asfortranarray(array) for array in (x, w, g))
    agree(run(conv.conv2d, x, w, None, *limits), out)
    agree(run(conv.conv2d_input, g, w, x.shape, *limits), gx)
    agree(run(conv.conv2d_weight, g, x, w.shape, *limits), gw)


@pytest.mark.parametrize("case", CASES[:4], ids=str)
def test_a_batch_in_parts_gives_the_same(
    run: Callable[..., Any], case: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conv, "_PART_BYTES", 1)
    x, w, out, g, gx, gw = reference(case, "float64", None)
    agree(run(conv.conv2d, x, w, None, *case[2:]), out)
    agree(run(conv.conv2d_input, g, w, x.shape, *case[2:]), gx)
    agree(run(conv.conv2d_weight, g, x, w.shape, *case[2:]), gw)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_tap_by_tap_gives_the_same(run: Callable[..., Any], case: tuple[Any, ...]) -> None:
    x, w, out, g, _, gw = reference(case, "float64", None)
    forward = run(taps.forward, x, w, out.shape[2:], *case[2:])
    agree(forward.reshape(out.shape), out)
    agree(run(taps.for_weight, g, x, w.shape, *case[2:]), gw)


# Where a number that is not finite is, in each array: image, channel, line, place.
AT = {"corner": (0, 0, 0, 0), "end of a line": (1, 0, 5, -1), "a line further": (0, 0, 40, 3)}


@pytest.mark.parametrize("number", [numpy.inf, numpy.nan], ids=str)
@pytest.mark.parametrize("at", AT)
@pytest.mark.parametrize("among", ["x", "w", "g"])
@pytest.mark.parametrize("limits", [(1, 0, 1), (1, 1, 1), (1, 0, 4), (1, 1, 4), (2, 1, 1)], ids=str)
def test_what_is_not_finite_stays_where_it_belongs(
    run: Callable[..., Any], limits: tuple[int, ...], among: str, at: str, number: float
) -> None:
    """Neither the padding nor what lies between lines is multiplied by it, as in torch."""
    stride, padding = ((n, n) for n in limits[:2])
    dilation, groups = (1, 1), limits[2]
    settings = (stride, padding, dilation, groups)
    x = random_array((2, 4, 72, 34), "float32")
    w = random_array((4, 4 // groups, 3, 3), "float32", seed=1)
    around = conv.output_size(x.shape[2:], w.shape[2:], stride, padding, dilation)
    g = random_array((2, 4, *around), "float32", seed=2)
    array = {"x": x, "w": w, "g": g}[among]
    array[tuple(min(i, n - 1) for i, n in zip(AT[at], array.shape, strict=True))] = number
    tx, tw = theirs(x).requires_grad_(), theirs(w).requires_grad_()
    bias = random_array((4,), "float32", seed=3)
    out = torch.nn.functional.conv2d(tx, tw, theirs(bias), *settings)
    gx, gw = torch.autograd.grad(out, [tx, tw], theirs(g))
    found = (
        run(conv.conv2d, x, w, bias, *settings),
        run(conv.conv2d_input, g, w, x.shape, *settings),
        run(conv.conv2d_weight, g, x, w.shape, *settings),
    )
    for mine, other in zip(found, (out.detach(), gx, gw), strict=True):
        numpy.testing.assert_array_equal(numpy.isfinite(mine), numpy.isfinite(other.numpy()))
        numpy.testing.assert_allclose(mine, other.numpy(), rtol=1e-4, atol=1e-3)
