"""Random programs of tensors with thousands of elements: what adds up, and what goes in parts.

Those of lines have up to 48: sums in pairs, blocks and narrow accumulators never show there.
"""

from __future__ import annotations

from typing import Any

from .program import holes
from .writer import NARROW, Writer

SHAPES = [(4096,), (5001,), (64, 70), (3, 1500), (1500, 3), (2, 40, 50), (4, 3, 20, 20), (1, 3000)]
FLOATS = ["float32"] * 3 + ["float64"] * 2 + ["float16", "bfloat16"] * 2 + ["complex64"]
OTHERS = ["int64", "int32", "uint8", "int8", "bool"]
REAL_ONLY = ["torch.dist", "kl_div"]  # torch refuses complex ones, or fails in their backward
# What shows the last digits of its input: the spread of equal numbers, a slope where two are one.
FEW_DIGITS = [
    "std(",
    "var(",
    "layer_norm",
    "torch.dist",
    "normalize",
    "group_norm",
    "cdist",
    "- {x}.mean",
]
MADE = [
    "",
    "",
    "",
    ".abs()",
    ".abs()",
    ".mT",
    "[::2]",
    ".flip(0)",
    " * 0.01",
    " + 3",
    ".unsqueeze(0)",
]

# {b}: what broadcasts to x; {rows}, {all}: indices into its first dimension, of its own shape.
ALIKE = [
    "{x} * {b}",
    "{x} + {b}",
    "{x} / ({b}.abs() + 1)",
    "torch.where({b} > 0, {b}, {x})",
    "{x}.lerp({b}, 0.3)",
    "{x}.addcmul({b}, {b}, value=0.5)",
    "torch.maximum({x}, {b})",
    "{b}.expand_as({x}) * {x}",
    "{x}.masked_fill({x}.real > 0.5, 2)",
    "{x}.cumsum({dim})",
    "{x}.cumsum({dim}).flip({dim})",
    "{x}.softmax({dim})",
    "{x}.log_softmax({dim})",
    "{x}.logcumsumexp({dim})",
    "{x}.cummax({dim})[0]",
    "{x}.sort(stable=True, dim={dim})[0]",
    "{x}.tril(-3)",
    "torch.nn.functional.prelu({x}, {one})",
    "torch.nn.functional.gelu({x})",
    "torch.nn.functional.silu({x})",
    "torch.nn.functional.normalize({x}, dim={dim})",
    "{x}.tanh() * {x}.sigmoid()",
    "{x}.clamp(-0.5, 1)",
    "{x}.roll(7, {dim})",
    "{x} - {x}.mean({dim}, keepdim=True)",
]
REDUCED = [
    "{x}.sum()",
    "{x}.mean()",
    "{x}.var()",
    "{x}.std()",
    "{x}.norm()",
    "{x}.norm(1)",
    "{x}.norm(3, {dim})",
    "{x}.sum({dim})",
    "{x}.mean({dim})",
    "{x}.var({dim}, unbiased=False)",
    "{x}.logsumexp({dim})",
    "{x}.amax({dim})",
    "{x}.max({dim})[0]",
    "{x}.median({dim})[0]",
    "{x}.nansum()",
    "{x}.sum(dtype=torch.float64)",
    "({x} * 0.01 + 1).prod({dim})",
    "{x}.square().sum({dim}, keepdim=True)",
    "torch.linalg.vector_norm({x}, 4)",
    "torch.dist({x}, {b})",
    "{x}.diff(dim={dim}).abs().sum()",
    "torch.trapezoid({x}, dim={dim})",
]
LOSSES = "mse_loss l1_loss smooth_l1_loss huber_loss poisson_nll_loss kl_div"
REDUCED += [
    f"torch.nn.functional.{name}({{x}}, {{b}}.expand_as({{x}}), reduction={{reduction}})"
    for name in LOSSES.split()
]
REDUCED += [
    "torch.nn.functional.soft_margin_loss({x}, {b}.detach().sign().expand_as({x}))",
    "torch.nn.functional.binary_cross_entropy_with_logits({x}, {b}.expand_as({x}).sigmoid())",
]
BY_INDEX = [
    "{x}.index_select(0, {rows})",
    "{x}[{rows}]",
    "{x}.gather(0, {all})",
    "{x} * {x}[{rows}].mean(0)",
    "torch.zeros_like({x}).scatter_add(0, {all}, {x})",
    "{x}.scatter_reduce(0, {all}, {x}, 'amax')",
    "torch.zeros_like({x}).index_put(({rows},), {x}, accumulate=True)",
    "{x}.repeat_interleave(2, 0)",
    "{x}.take({all})",
    "{x}.unfold(0, 3, 2)",
    "{x}[{x}.real > 0]",
    "{x}.masked_select({b} == {b})",
    "{x}.repeat(3, *[1] * ({x}.dim() - 1))",
    "{x}.contiguous().as_strided((1000,), (1,)) * {x}.contiguous().as_strided((1000,), (0,))",
]
ROWS = [
    "{x}.reshape(-1, 10)[:300] @ {x}.reshape(-1, 10)[:300].mT",
    "{x}.reshape(-1, 10).mT @ {x}.reshape(-1, 10)",
    "{x}.reshape(-1) @ {x}.reshape(-1)",
    "torch.nn.functional.linear({x}.reshape(-1, 10), {x}.reshape(-1, 10)[:7], {x}.reshape(-1)[:7])",
    "torch.einsum('ij,ik->jk', {x}.reshape(-1, 10), {x}.reshape(-1, 10))",
    "torch.nn.functional.conv1d({x}.reshape(1, 1, -1), {x}.reshape(-1)[:9].reshape(3, 1, 3))",
    "torch.nn.functional.avg_pool1d({x}.reshape(1, 2, -1), 50)",
    "torch.nn.functional.max_pool1d({x}.reshape(1, 2, -1), 5)",
    "torch.nn.functional.cross_entropy({x}.reshape(-1, 10), {classes})",
    "torch.nn.functional.nll_loss({x}.reshape(-1, 10), {classes}, reduction='sum')",
    "torch.cdist({x}.reshape(-1, 10)[:60], {x}.reshape(-1, 10)[60:90])",
    "torch.nn.functional.layer_norm({x}, [{x}.shape[-1]])",
    "torch.nn.functional.group_norm({x}.reshape(1, 10, -1), 5)",
    "torch.nn.functional.interpolate({x}.reshape(1, 1, 10, -1), scale_factor=2, mode='bilinear')",
    "torch.nn.functional.fold({x}.reshape(-1)[:2000].reshape(1, 4, 500), (6, 101), 2)",
    "torch.fft.rfft({x}.reshape(-1, 10).mT).abs()",
]
WRITES = [
    "{x}.mul_({b})",
    "{x}.add_({b}, alpha=2)",
    "{x}[::3].mul_(2)",
    "{x}[1:].add_({x}[:-1].detach().clone())",
    "{x}[{rows}] = 2",
    "{x}.masked_fill_({x}.real > 0, 1)",
    "{x}.index_add_(0, {rows}, {x}.detach().clone())",
    "{x}.scatter_(0, {all}, 3)",
    "{x}.copy_({b})",
    "{x}.clamp_(-1, 1)",
    "{x}.sigmoid_()",
    "{x}.cumsum_(0)",
]
COUNTED = [
    "{x}.sum()",
    "{x}.sum({dim})",
    "{x}.cumsum({dim})",
    "{x}.any({dim})",
    "{x}.all()",
    "{x}.amax({dim})",
    "{x}.argmax({dim})",
    "{x}.sort(stable=True, dim={dim})[1]",
    "{x}.unique(return_counts=True)[1]",
    "{x}.count_nonzero({dim})",
    "{x} * {x}",
    "{x}.float().mean()",
    "{x}.flip(0).cumprod({dim})",
    "torch.bincount({x}.reshape(-1).long().abs())",
    "torch.zeros_like({x}).index_add(0, {rows}, {x})",
]


def many(w: Writer) -> None:
    """Some steps, their gradients, and some writes."""
    shape = w.pick(*SHAPES)
    if w.maybe(0.15):
        (x,) = w.add(
            "numbers({n}, {size}).mul(3).to(torch.{t})", w.size(0, 9), shape, w.pick(*OTHERS)
        )
        for _ in range(w.size(1, 3)):
            w.add(*_filled(w, w.pick(*COUNTED), x, shape, [x]))
        return
    dtype = w.pick(*FLOATS)
    w.once = dtype in NARROW
    base = w.numbers(shape, dtype, grad=True)
    made = w.pick(*MADE)
    if made == ".mT" and len(shape) < 2:
        made = ""
    x, inputs = base, [base]
    if made:
        (x,) = w.add("{x}{made}", base, made)
        shape = _made(shape, made)
    (b,) = w.add(
        "numbers({n}, {size}, {dtype}){made}.requires_grad_()",
        w.size(0, 99),
        _smaller(w, shape),
        repr(dtype),
        w.pick("", ".abs()"),
    )
    inputs.append(b)
    for _ in range(w.size(0, 1)):
        (x,) = w.add(*_filled(w, w.pick(*ALIKE), x, shape, inputs))
    written = w.maybe(0.3)
    if written:
        (x,) = w.add("{x} * 1", x)
        w.do(*_filled(w, w.pick(*WRITES), x, shape, inputs))
    form = w.pick(*w.pick(ALIKE, REDUCED, REDUCED, BY_INDEX, ROWS))
    apart = {"complex64": REAL_ONLY, "float64": []}.get(dtype, FEW_DIGITS)
    if any(each in form for each in apart):
        form = REDUCED[0]
    (out,) = w.add(*_filled(w, form, x, shape, inputs))
    # torch's second derivatives of it are NaN where a first one is zero.
    w.once |= any("logcumsumexp" in line.form for line in w.lines)
    w.slopes([out], inputs, 0.2, "")


def _smaller(w: Writer, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to this one."""
    found = tuple(w.pick(n, n, 1) for n in shape)
    return found[w.pick(0, 0, len(found), 1) :]


def _made(shape: tuple[int, ...], made: str) -> tuple[int, ...]:
    if made == ".mT":
        return (*shape[:-2], shape[-1], shape[-2])
    if made == "[::2]":
        return ((shape[0] + 1) // 2, *shape[1:])
    return (1, *shape) if "unsqueeze" in made else shape


def _filled(
    w: Writer, form: str, x: str, shape: tuple[int, ...], inputs: list[str]
) -> tuple[str, ...]:
    """A form and what fills its holes."""
    first, rank = shape[0], len(shape)
    choice: dict[str, Any] = {
        "x": lambda: x,
        "b": lambda: inputs[-1],
        "one": lambda: f"{inputs[-1]}.reshape(-1)[:1]",
        "dim": lambda: w.pick(*range(-rank, rank)),
        "reduction": lambda: repr(w.pick("mean", "sum", "none")),
        "rows": lambda: (
            f"torch.arange({first}).mul({w.pick(1, 3, 7)}).remainder({w.pick(first, 2)})"
        ),
        "all": lambda: (
            f"torch.arange({x}.numel()).reshape({x}.shape).mul({w.pick(1, 5)}).remainder("
            f"{w.pick(first, 1, 3)}).clamp_max({first - 1})"
        ),
        "classes": lambda: f"torch.arange({x}.numel() // 10).remainder(10)",
    }
    return form, *(str(choice[each]()) for each in holes(form))
