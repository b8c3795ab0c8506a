"""nn.functional against torch's: values, graphs, first and second derivatives, error texts.

SAME have torch's graph, too; ALIKE reach the same numbers through other nodes.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

import ag_visual as ag

from ..ops.side_by_side import graph, listed, numbers, tensors, total
from ..oracle import torch
from ..programs import agree, raised
from ..properties.checks import close

SAME = """
F.interpolate(x, scale_factor=2)
F.interpolate(x, size=7, mode="linear", align_corners=True)
F.interpolate(x, scale_factor=1.7, mode="nearest-exact")
F.interpolate(x, size=2, mode="area")
F.interpolate(p, scale_factor=(1.5, 2), mode="bilinear")
F.interpolate(p, scale_factor=(1.5, 2), mode="bilinear", recompute_scale_factor=True)
F.interpolate(p, size=(3, 2), mode="bilinear", antialias=True)
F.interpolate(p, size=(5, 9), mode="bicubic", align_corners=True)
F.interpolate(p, size=(2, 3), mode="bicubic", antialias=True)
F.interpolate(q, scale_factor=2, mode="trilinear")
F.interpolate(q, size=(2, 3, 5), mode="nearest")
F.upsample(x, scale_factor=2)
F.upsample_nearest(p, scale_factor=2)
F.upsample_bilinear(p, scale_factor=2)
F.pixel_shuffle(p, 2)
F.pixel_unshuffle(p, 2)
F.channel_shuffle(p, 2)
F.unfold(p, (2, 3), padding=1, stride=2)
F.fold(F.unfold(p, 2, dilation=2), (4, 6), 2, dilation=2)
F.affine_grid(x[:, :2, :3], (2, 1, 4, 5))
F.affine_grid(x[:, :, :4], (2, 1, 2, 3, 4), align_corners=True)
F.adaptive_max_pool1d(x, 3)
F.adaptive_max_pool2d(p, (3, None), return_indices=True)
F.adaptive_max_pool3d(q, 2)
F.max_pool1d_with_indices(x, 2)
F.max_pool2d_with_indices(p, 2, 1, 1)
F.max_pool3d_with_indices(q, 2)
F.adaptive_max_pool2d_with_indices(p, 2)
F.fractional_max_pool2d(p, 2, output_size=3, _random_samples=u[..., :2])
F.fractional_max_pool2d(p, 2, output_ratio=(0.5, 0.5), _random_samples=u[..., :2])
F.fractional_max_pool3d(q, 2, output_size=(1, 2, 3), _random_samples=u[:, :2])
F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2)
F.max_unpool2d(*F.max_pool2d(p, 2, return_indices=True), 2, output_size=(5, 6))
F.max_unpool3d(*F.max_pool3d(q, 2, return_indices=True), 2, output_size=(3, 4, 5))
F.conv_transpose1d(x, t.ones(3, 2, 3).double(), stride=2, dilation=3, output_padding=2)
F.conv_transpose1d(x, t.ones(3, 2, 3).double(), dilation=3, output_padding=2)
F.conv_transpose2d(p, w3.reshape(4, 3, 2, 2), None, 1, 1, (1, 1), 1, 2)
F.batch_norm(p[:0], t.zeros(4), t.ones(4), training=True)
F.multilabel_margin_loss(o, t.tensor(0))
F.group_norm(p, 2)
F.group_norm(p, 2, c, c * 2)
F.batch_norm(p, None, None, c, c * 2, True)
F.layer_norm(x, (3, 4))
F.embedding_bag(k, e)
F.embedding_bag(k, e, mode="sum", padding_idx=1)
F.embedding_bag(k, e, mode="max")
F.embedding_bag(k[0], e, t.tensor([0, 2, 2]), mode="mean")
F.embedding_bag(k[0], e, t.tensor([0, 2, 4]), mode="max", include_last_offset=True)
F.multi_margin_loss(m, i)
F.multi_margin_loss(m, i, p=2, margin=0.5, weight=v.detach(), reduction="sum")
F.multilabel_margin_loss(m, t.tensor([[0, -1, 2], [1, 2, -1]]), reduction="none")
F.soft_margin_loss(m, t.tensor([[1.0, -1, 1], [-1, 1, 1]]).double())
F.linear_cross_entropy(m, e, i)
F.rrelu(x)
F.pad(x, (1, 2), "reflect")
F.pad(x, (1, -2, 2, 1), "replicate")
F.pad(p, (2, 1, 1, 3), "reflect")
F.pad(q, (1, 0, 1, 2, 0, 1), "replicate")
F.scaled_dot_product_attention(p, p * 2, p)
F.scaled_dot_product_attention(p, p * 2, p, is_causal=True, scale=0.3)
F.scaled_dot_product_attention(p, p * 2, p, attn_mask=t.eye(4) > 0)
F.selu(x)
"""

ALIKE = """
F.conv_tbc(x, w3.view(3, 4, 4), v4, 1)
F.rms_norm(x, (4,))
F.rms_norm(x, (3, 4), x[0], eps=0.1)
F.local_response_norm(x, 2)
F.local_response_norm(p, 3, alpha=0.1, beta=0.6, k=1.5)
F.triplet_margin_with_distance_loss(x[0], x[1], x[0] * 2, swap=True, reduction="sum")
F.lp_pool1d(x * x + 1, 3, 2)
F.lp_pool2d(p * p + 1, 2, 2, ceil_mode=True)
F.lp_pool3d(q * q + 1, 1.5, 2)
F.instance_norm(p, weight=c, bias=c * 2)
F.instance_norm(p, t.zeros(4).double(), t.ones(4).double(), use_input_stats=False)
F.pad(x, (1, 2), "circular")
F.pad(p, (2, 1, -1, 3), "circular")
F.scaled_dot_product_attention(x, x * 2, x)
F.scaled_dot_product_attention(x, x, x, attn_mask=t.tensor([[True, False, True]] * 3))
F.scaled_dot_product_attention(p, p[:, :2], p[:, 2:], enable_gqa=True)
F.multi_head_attention_forward(x, x, x, 4, 2, w3, None, None, None, False, 0.0, w1, v4)
F.multi_head_attention_forward(x, x * 2, x, 4, 2, w3, b3, None, None, True, 0.0, w1, v4)[0]
F.multi_head_attention_forward(*xs, 4, 2, w3, b3, row, row, False, 0.0, w1, v4, **apart)
F.multi_head_attention_forward(*xs, 4, 2, w3, b3, None, None, False, 0.0, w1, v4, **masked)
F.multi_head_attention_forward(*single, 4, 2, w3, b3, None, None, False, 0.0, w1, v4)
"""

# torch has no second derivative of these.
ONCE = """
F.grid_sample(p, grid)
F.grid_sample(p, grid, mode="bicubic", padding_mode="reflection", align_corners=True)
F.grid_sample(p, grid, mode="nearest", padding_mode="border")
F.grid_sample(q, grid3, padding_mode="border")
F.grid_sample(p[:, :0], grid, mode="bicubic")
F.grid_sample(p[:0], grid[:0])
t.grid_sampler_2d(p, grid, 0, 1, True)
t.grid_sampler_3d(q, grid3, 1, 2, False)
"""

SETUP = """
F = t.nn.functional
rng = np.random.default_rng(3)
def given(*shape): return t.tensor(rng.standard_normal(shape)).requires_grad_()
p, q, c, e = given(2, 4, 4, 6), given(2, 2, 3, 4, 5), given(4), given(5, 3)
v4, b3 = given(4), given(12)
w3, w1 = given(12, 4), given(4, 4)
grid, grid3 = given(2, 3, 2, 2), given(2, 2, 3, 1, 3)
u = t.tensor(rng.random((2, 4, 3)))
k = t.tensor([[0, 1, 4, 1], [2, 1, 0, 0]])
xs, single, row = (x, x, x), (x[0], x[1], x[1]), v4.view(1, 1, 4)
apart = {"average_attn_weights": False}
padded = t.tensor([[False, True], [False, False], [False, False]])
masked = {"attn_mask": t.ones(2, 2).triu(1) > 0, "key_padding_mask": padded}
"""


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def evaluate(expression: str, t: Any) -> tuple[dict[str, Any], list[Any]]:
    """The leaves by name, and the expression's results."""
    scope = {**tensors(t), "t": t, "np": numpy}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(SETUP, scope)
        results = listed(eval(expression, scope))
    leaves = {
        name: value
        for name, value in scope.items()
        if isinstance(value, t.Tensor) and value.is_leaf and value.requires_grad
    }
    return leaves, results


def gradients(t: Any, leaves: dict[str, Any], results: list[Any], twice: bool) -> dict[str, Any]:
    """First (and second) derivatives by the leaves that the results depend on."""
    names, values = list(leaves), list(leaves.values())
    first = t.autograd.grad(total(results, t), values, create_graph=twice, allow_unused=True)
    found = {n: numbers(g) for n, g in zip(names, first, strict=True) if g is not None}
    grown = [g for g in first if g is not None and g.requires_grad]
    if twice and grown:
        second = t.autograd.grad(total(grown, t), values, allow_unused=True)
        pairs = zip(names, second, strict=True)
        found.update((f"{n}, second", numbers(g)) for n, g in pairs if g is not None)
    return found


def compare(expression: str, *, look: bool = True, twice: bool = True) -> None:
    (ours, mine), (theirs, other) = evaluate(expression, ag), evaluate(expression, torch)
    assert len(mine) == len(other)
    for a, b in zip(mine, other, strict=True):
        assert (tuple(a.shape), repr(a.dtype)) == (tuple(b.shape), repr(b.dtype))
        close(numbers(a), numbers(b), "value", 1e-10, 1e-12)
        if look:
            assert graph(a.grad_fn) == graph(b.grad_fn)
    if not any(b.requires_grad for b in other):
        return
    found = gradients(ag, ours, mine, twice)
    expected = gradients(torch, theirs, other, twice)
    for name, g in expected.items():
        close(found[name], g, name, 1e-8, 1e-9)


@pytest.mark.oracle
@pytest.mark.parametrize("expression", lines(SAME))
def test_torchs_graph_and_derivatives(expression: str) -> None:
    compare(expression, twice=not any(name in expression for name in NEVER_TWICE))


@pytest.mark.oracle
@pytest.mark.parametrize("expression", lines(ALIKE))
def test_torchs_numbers_through_other_nodes(expression: str) -> None:
    compare(expression, look=False, twice="enable_gqa" not in expression)


@pytest.mark.oracle
@pytest.mark.parametrize("expression", lines(ONCE))
def test_torchs_values_and_first_derivatives(expression: str) -> None:
    compare(expression, twice=False)


# torch's second derivative of these is an error.
NEVER_TWICE = ("scaled_dot_product", "multi_margin", "multilabel_margin", "embedding_bag")

FAILURES: dict[str, str] = {
    "F.interpolate(x, size=3, scale_factor=2)": "only one of size or scale_factor should be",
    "F.interpolate(x)": "either size or scale_factor should be defined",
    "F.interpolate(x, size=(3, 4))": "must have the same number of spatial dimensions",
    "F.interpolate(x, size=3, align_corners=True)": "align_corners option can only be set with",
    "F.interpolate(x, size=3, mode='bilinear')": "Got 3D input, but bilinear mode needs 4D input",
    "F.interpolate(x, size=3, mode='x')": "Only 3D, 4D and 5D input Tensors supported",
    "F.interpolate(x, size=3, antialias=True)": "Anti-alias option is restricted to bilinear",
    "F.interpolate(x, size=0)": "Input and output sizes should be greater than 0",
    "F.pixel_shuffle(p, 3)": "is not divisible by 9",
    "F.fold(x, (3, 3), 2)": "divisible by the product of kernel_size",
    "F.unfold(p, 9)": "its components must be at least one",
    "F.grid_sample(p, grid, mode='x')": "expected mode to be 'bilinear', 'nearest' or 'bicubic'",
    "F.grid_sample(p, grid, padding_mode='x')": "expected padding_mode to be 'zeros', 'border', or",
    "F.grid_sample(p, grid3)": "grid_sampler(): expected",
    "F.grid_sample(q, grid3, mode='bicubic')": "bicubic interpolation only supports 4D input",
    "F.affine_grid(x, (2, 1, 3, 3))": "Expected a batch of 2D affine matrices of shape Nx2x3",
    "F.affine_grid(x, (2, 1, 3))": "affine_grid only supports 4D and 5D sizes",
    "F.adaptive_max_pool1d(v, 2)": "Expected 2 to 3 dimensions, but got 1-dimensional tensor",
    "F.adaptive_max_pool2d(m, 2)": "Expected 3D or 4D tensor, but got: [2, 3]",
    "F.fractional_max_pool2d(p, 2)": "requires specifying either an output_size or",
    "F.fractional_max_pool2d(p, 5, output_size=2)": "pool height 5 too large relative to input",
    "F.max_unpool2d(p, p.long(), 2, output_size=(99, 99))": "invalid output_size",
    "F.max_unpool2d(p, p, 2)": "elements in indices should be type int64 but got: Double",
    "F.local_response_norm(m, 2)": "Expected 3D or higher dimensionality",
    "F.rms_norm(x, (5,))": "Given normalized_shape=[5], expected input with shape",
    "F.rms_norm(x, (4,), v)": "Expected weight to be of same shape as normalized_shape",
    "F.group_norm(p, 3)": "Expected number of channels in input to be divisible by num_groups",
    "F.group_norm(v, 1)": "Expected at least 2 dimensions for input tensor but received 1",
    "F.group_norm(p, 2, v)": "Expected weight to be a vector of size equal to the number of",
    "F.instance_norm(x[:, :, :1])": "Expected more than 1 spatial element when training",
    "F.embedding_bag(k[0], e)": "offsets has to be a 1D Tensor but got None",
    "F.embedding_bag(k, e, t.tensor([0]))": "if input is 2D, then offsets has to be None",
    "F.embedding_bag(k, e, mode='x')": "mode has to be one of sum, mean or max",
    "F.embedding_bag(k, e, padding_idx=9)": "padding_idx must be within the number of embeddings",
    "F.multi_margin_loss(m, i, p=3)": "only p == 1 and p == 2 supported",
    "F.multi_margin_loss(m, i + 9)": "target out of range",
    "F.multilabel_margin_loss(m, i)": "inconsistent target size",
    "F.triplet_margin_loss(m, m, m, margin=-1)": "margin must be greater than 0, got -1",
    "F.linear_cross_entropy(m, x, i)": "expected equal input and linear_weight last dimensions",
    "F.rrelu(x, 2, 1, True)": "Lower bound should be less than or equal to the upper bound",
    "F.alpha_dropout(x, 1.5)": "dropout probability has to be between 0 and 1, but got 1.5",
    "F.pad(x, (9, 0), 'reflect')": "Padding size should be less than the corresponding input",
    "F.pad(v, (1, 1), 'replicate')": "Padding size 2 is not supported for 1D input tensor",
    "F.pad(x, (1, 1), 'reflect', 1.0)": "doesn't take in value argument",
    "F.scaled_dot_product_attention(v, v, v)": "to all be  at least 2 dimensional",
    "F.scaled_dot_product_attention(m, m.float(), m)": "to have the same dtype, but got",
    "F.scaled_dot_product_attention(m, m, m, dropout_p=2.0)": "has to be between 0 and 1",
}


@pytest.mark.oracle
@pytest.mark.parametrize("expression", FAILURES)
def test_torchs_errors(expression: str) -> None:
    told = []
    for t in (ag, torch):
        with pytest.raises(Exception) as caught:
            evaluate(expression, t)
        names = [c.__name__ for c in type(caught.value).__mro__ if c.__module__ == "builtins"]
        assert FAILURES[expression] in str(caught.value)
        told.append(names[0])
    assert told[0] == told[1]


# Noise --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dims"),
    [(f"dropout{rank}d", dims) for rank in (1, 2, 3) for dims in range(6)],
)
def test_dropout_of_channels_takes_torchs_dimensions(name: str, dims: int) -> None:
    """Which dimensions share their fate, whether it warns, and what is refused."""

    def program(t: Any) -> Any:
        x = t.ones([32, 32, 3, 3, 2][:dims])
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                out = getattr(t.nn.functional, name)(x, 0.5, True)
            except RuntimeError as error:
                return [str(error)[:40], len(warned)]
        alike = [bool((out == out.narrow(dim, 0, 1)).all()) for dim in range(dims)]
        where = {warning.filename == __file__ for warning in warned}
        return [alike, len(warned), sorted(where), sorted(set(out.flatten().tolist()))]

    agree(program)


@pytest.mark.parametrize("name", ["alpha_dropout", "feature_alpha_dropout"])
def test_alpha_dropout_keeps_mean_and_variance(name: str) -> None:
    ag.manual_seed(0)
    x = ag.randn(400, 300)
    y = getattr(ag.nn.functional, name)(x, 0.3, True)
    assert abs(y.mean().item()) < 0.05
    assert abs(y.std().item() - 1) < 0.05
    assert getattr(ag.nn.functional, name)(x, 0.3) is x


def test_whole_channels_are_dropped() -> None:
    ag.manual_seed(0)
    y = ag.nn.functional.feature_alpha_dropout(ag.ones(50, 40, 6), 0.5, True)
    assert (y == y[:, :, :1]).all()
    assert len(y.unique()) == 2


def test_rrelu_draws_slopes_between_its_bounds() -> None:
    ag.manual_seed(0)
    x = ag.linspace(-2, 2, 100, requires_grad=True)
    y = ag.nn.functional.rrelu(x, 0.2, 0.4, training=True)
    y.sum().backward()
    slopes = x.grad[x < 0]
    assert ((slopes >= 0.2) & (slopes <= 0.4)).all()
    assert len(slopes.unique()) > 40
    close((y[x < 0] / x[x < 0]).detach().numpy(), slopes.numpy(), "slopes", 1e-6)
    twin = (x * 1).requires_grad_()
    ag.manual_seed(0)
    written = ag.nn.functional.rrelu(twin, 0.2, 0.4, True, inplace=True)
    assert written is twin
    assert written.grad_fn.name() == "RreluWithNoiseBackward1"
    close(written.detach().numpy(), y.detach().numpy(), "in place")


def test_embedding_scales_long_rows_down() -> None:
    weight = ag.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]])
    found = ag.nn.functional.embedding(ag.tensor([0, 1, 0]), weight, max_norm=1.0)
    close(found.norm(dim=1).numpy(), [1, 0.5, 1], "norms", 1e-5)
    assert weight[2].tolist() == [6, 8]
    assert weight._version == 1


def test_embedding_bag_divides_gradients_by_frequency() -> None:
    """torch 2.13 divides those of some rows by the frequency of others."""
    weight = ag.ones(5, 3, requires_grad=True)
    bags = ag.tensor([[0, 1, 4, 1], [2, 1, 0, 0]])
    ag.nn.functional.embedding_bag(bags, weight, scale_grad_by_freq=True).sum().backward()
    close(weight.grad[:, 0].numpy(), [0.25, 0.25, 0.25, 0, 0.25], "gradient")


def test_instance_norm_moves_running_statistics_as_torch() -> None:
    found = []
    for t in (ag, torch):
        mean, var = t.zeros(3), t.ones(3)
        x = t.from_numpy(numpy.random.default_rng(0).normal(2, 3, (4, 3, 5)).astype("float32"))
        t.nn.functional.instance_norm(x, mean, var, momentum=0.3)
        found.append((mean.numpy(), var.numpy()))
    close(found[0][0], found[1][0], "mean", 1e-5)
    close(found[0][1], found[1][1], "variance", 1e-5)


@pytest.mark.parametrize("target", ["t.tensor([3])", "t.tensor(3)"])
def test_the_margin_loss_of_a_row_has_the_dimensions_of_its_target(target: str) -> None:
    def program(t: Any) -> Any:
        x = t.arange(5.0, requires_grad=True)
        loss = t.nn.functional.multi_margin_loss(x, eval(target, {"t": t}), reduction="none")
        loss.sum().backward()
        return [loss.detach(), tuple(loss.shape), x.grad]

    agree(program)


def test_the_old_meaning_of_grids_is_warned_of() -> None:
    def program(t: Any) -> Any:
        f = t.nn.functional
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            grid = f.affine_grid(t.eye(2, 3).unsqueeze(0), [1, 1, 2, 2])
            f.grid_sample(t.ones(1, 1, 2, 2), grid)
            f.grid_sample(t.ones(1, 1, 2, 2), grid, align_corners=False)
        return [(str(w.message)[:90], w.category.__name__) for w in told]

    agree(program)


def test_clipping_an_exhausted_generator_warns() -> None:
    def program(t: Any) -> Any:
        generator = (p for p in [t.nn.Parameter(t.ones(1))])
        list(generator)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            total = t.nn.utils.clip_grad_norm_(generator, 1.0)
            t.nn.utils.clip_grad_norm_([], 1.0)
        return [total, [str(w.message) for w in told]]

    agree(program)


@pytest.mark.parametrize("hard", [False, True])
def test_gumbel_softmax_without_dimensions(hard: bool) -> None:
    x = ag.tensor(0.5, requires_grad=True)
    y = ag.nn.functional.gumbel_softmax(x, hard=hard)
    y.backward()
    assert y.item() == pytest.approx(1.0)
    assert x.grad.item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (2, 3, 0)])
def test_the_mean_loss_of_nothing_against_probabilities_is_nan(shape: tuple[int, ...]) -> None:
    def program(t: Any) -> Any:
        x = t.zeros(shape, requires_grad=True)
        known = x.detach().softmax(1)
        cross = t.nn.functional.cross_entropy
        return [cross(x, known), cross(x, known, label_smoothing=0.1)]

    agree(program)


def test_rms_norm_of_too_few_dimensions_is_refused() -> None:
    agree(lambda t: raised(lambda: t.nn.functional.rms_norm(t.ones(3), (1, 3)))[0])
