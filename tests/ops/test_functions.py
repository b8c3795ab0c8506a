"""Functions that are made of ops: operators, products, reductions, losses, layers, as torch's.

SAME have torch's graph, too. ALIKE have torch's values and gradients through other nodes: torch
fuses where we compose (padding, group_norm, soft_margin_loss, sums with a dtype), has a node for a
Python number of C++ (MulBackward1), or copies where nothing has to be copied.
"""

from __future__ import annotations

import pytest

from .side_by_side import compare, compare_failure, each_expression, each_failure

SAME = """
x + 2
2 + x
x - m[0, 0]
2 - x
t.rsub(x, v[0])
x * x
2 * x
x / 3
2 / x
-x
+x
abs(x)
x ** 2
x ** 3
2 ** x
(x * x) ** m[0, 1]
x % 0.7
x.remainder(m[1, 1])
x.fmod(0.7)
x.div(0.7, rounding_mode="floor")
x.div(v[0], rounding_mode="trunc")
x.square()
x.true_divide(3)
x.add(o, alpha=2)
x.sub(o, alpha=3)
t.where(m > 0, m, 0.5)
t.where(m > 0, m, o)
m.where(m > 0, v)
x.clamp(-0.5, 0.5)
x.clamp(min=0)
x.clamp(max=v[0].detach())
x.clip(-1, 1)
x.clamp_min(0.1)
x.clamp_max(o)
x.lerp(x * 2, 0.3)
m.lerp(m * m, m)
m.addcmul(m, m, value=0.5)
m.addcdiv(m, m * m + 1)
m.round(decimals=1)
x.float_power(2)
x.nan_to_num()
z.abs()
z.angle()
z.sgn()
z * z.conj()
x.sum()
x.sum(1)
x.sum((0, -1), keepdim=True)
x.mean()
x.mean(0)
x.prod()
x.prod(1, True)
x.max()
x.max(1)
x.min(2, keepdim=True)
x.max(x * 0.5)
x.amax((0, 2))
x.amin()
x.argmax(1)
x.var()
x.var(1)
x.var(1, unbiased=False)
x.var((0, 1), correction=0)
x.std(False)
x.std(0, True, True)
t.var_mean(x, 1)
t.std_mean(x)
x.norm()
x.norm(1)
x.norm(3, dim=1)
x.norm(float("inf"), dim=(0, 1))
x.logsumexp(1)
x.logsumexp((0, 1), True)
x.cumsum(1)
x.cumprod(-1)
x.sort()
x.sort(1, descending=True)
x.topk(2)
x.kthvalue(2, 1)
x.median()
x.median(1)
x.nansum()
x.nansum(1)
m.trace()
x.msort()
m @ m.t()
m @ v
v @ v
x @ t.ones(4, 5, dtype=t.float64)
x @ x.transpose(1, 2)
x.matmul(x[0].t())
x[0].matmul(x.mT)
v @ m.t().unsqueeze(0).expand(2, 3, 2)
z @ z.mH
m.mm(m.t())
m.mv(v)
v.dot(v)
t.vdot(z[0], z[1])
x.bmm(x.mT)
t.outer(v, v)
t.addmm(v[:2], m, m.t(), beta=0.5, alpha=2)
t.addmv(v[:2], m, v)
t.baddbmm(v, x, x.mT)
t.addbmm(v, x, x.mT)
t.addr(m, v[:2], v)
t.inner(m, m)
t.tensordot(x, x, dims=([0, 2], [0, 2]))
t.nn.functional.linear(m, m, v[:2])
t.nn.functional.linear(m, m)
t.nn.functional.linear(x, x[0], v)
t.nn.functional.linear(x, x[0])
x.softmax(1)
t.softmax(x, dim=-1)
t.nn.functional.log_softmax(m, 0)
t.nn.functional.softmin(m, 1)
t.nn.functional.cross_entropy(m, i)
t.nn.functional.cross_entropy(m, i, reduction="none")
t.nn.functional.cross_entropy(m, i, weight=t.arange(1, 4, dtype=t.float64), reduction="sum")
t.nn.functional.cross_entropy(m, i, ignore_index=1)
t.nn.functional.cross_entropy(v, i[1])
t.nn.functional.cross_entropy(x, t.zeros(2, 4, dtype=t.int64))
t.nn.functional.cross_entropy(m, m.detach().softmax(1), reduction="sum")
t.nn.functional.nll_loss(m, i)
t.nn.functional.mse_loss(m, m * 2)
t.nn.functional.mse_loss(m, m * 2, reduction="sum")
t.nn.functional.l1_loss(m, m * 2)
t.nn.functional.smooth_l1_loss(m, m * 2, beta=0.3)
t.nn.functional.huber_loss(m, m * 2, delta=0.3)
t.nn.functional.binary_cross_entropy(m.sigmoid(), m.detach().sigmoid())
t.nn.functional.binary_cross_entropy_with_logits(m, m.sigmoid())
t.nn.functional.kl_div(m, m.detach().softmax(1), reduction="batchmean")
t.nn.functional.kl_div(m, m.detach(), reduction="sum", log_target=True)
t.nn.functional.poisson_nll_loss(m, m.detach())
t.nn.functional.normalize(m)
t.nn.functional.conv1d(x, x[:, :, :2], v[:2])
t.nn.functional.conv2d(x[None], x[None, :, :2, :2], padding=1)
t.nn.functional.conv2d(x, x[None, :, :2, :2])
t.nn.functional.conv2d(x[None], x[None, :, :3, :3], padding="same")
t.nn.functional.conv_transpose2d(x[None], x[:, None, :2, :2], stride=2, output_padding=1)
t.nn.functional.max_pool2d(x, 2)
t.nn.functional.max_pool2d(x, (2, 3), 1, padding=1)
t.nn.functional.max_pool1d(x, 2)
t.nn.functional.avg_pool2d(x, 2)
t.nn.functional.avg_pool1d(x, 2, ceil_mode=True)
t.nn.functional.adaptive_avg_pool2d(x, 1)
t.nn.functional.adaptive_avg_pool2d(x, (2, 3))
t.nn.functional.embedding(i, m)
t.nn.functional.embedding(i, m, padding_idx=1)
t.nn.functional.layer_norm(x, (4,))
t.nn.functional.layer_norm(x, (3, 4), x[0], x[1])
t.nn.functional.batch_norm(x, None, None, v, v, True)
t.nn.functional.batch_norm(x, v.detach(), v.detach() ** 2, v, v)
t.nn.functional.instance_norm(x)
t.nn.functional.glu(x)
t.nn.functional.prelu(x, v)
t.nn.functional.pad(m, (1, 2, 0, 1), value=0.5)
t.nn.functional.dropout(m, 0.5, False)
t.nn.functional.relu(m)
t.nn.functional.relu(m * 2, inplace=True)
t.nn.functional.leaky_relu(m, 0.2)
t.nn.functional.elu(m)
t.nn.functional.selu(m)
t.nn.functional.celu(m)
t.nn.functional.gelu(m)
t.nn.functional.gelu(m, approximate="tanh")
t.nn.functional.silu(m)
t.nn.functional.mish(m)
t.nn.functional.softplus(m)
t.nn.functional.logsigmoid(m)
t.nn.functional.hardtanh(m)
t.nn.functional.relu6(m)
t.nn.functional.hardswish(m)
t.nn.functional.softshrink(m, 0.3)
t.nn.functional.hardshrink(m, 0.3)
t.nn.functional.tanhshrink(m)
t.nn.functional.softsign(m)
t.nn.functional.threshold(m, 0.1, 5.0)
"""

ALIKE = """
v @ m.t()
x ** o
t.kron(m, m)
t.einsum("ij,kj->ik", m, m)
t.einsum("bij,bkj->bik", x, x)
t.einsum("ii->i", m[:, :2])
t.einsum("ij->j", m)
t.einsum("...i,i", m, v)
t.einsum("i,j,k->kij", v, v, v)
t.einsum("abc,dc->bad", x, x[0])
t.einsum(x, [0, 51, 2], x[0], [26, 2], [51, 0, 26])
t.einsum(x, [..., 1], v[:0].sum() + x[0, 0], [1])
t.einsum(m, [1, 30])
x.nanmean(1)
m.float().sum(dtype=t.float64)
m.float().sum(1, dtype=t.float64)
m.float().prod(dtype=t.float64)
m.float().mean(0, dtype=t.float64)
t.dist(m, m * 2)
x.diff()
x.diff(2, 0)
t.nn.functional.cross_entropy(m, i, label_smoothing=0.1)
t.nn.functional.cross_entropy(m, i, t.arange(1, 4, dtype=t.float64), label_smoothing=0.1)
t.nn.functional.cross_entropy(m, m.detach().softmax(1), label_smoothing=0.2)
t.nn.functional.gaussian_nll_loss(m, m * 2, m * m + 1, full=True)
t.nn.functional.hinge_embedding_loss(m, m.detach().sign())
t.nn.functional.margin_ranking_loss(v, v * 2, v.detach().sign())
t.nn.functional.soft_margin_loss(m, m.detach().sign())
t.nn.functional.cosine_similarity(m, m * m)
t.nn.functional.pairwise_distance(m, m * m)
t.nn.functional.cosine_embedding_loss(m, m * m, t.tensor([1, -1]))
t.nn.functional.triplet_margin_loss(m, m * 2, m * m, swap=True)
t.nn.functional.multilabel_soft_margin_loss(m, b.double())
t.nn.functional.group_norm(x.reshape(1, 6, 4), 3)
t.nn.functional.pad(m, (1, 2), mode="reflect")
t.nn.functional.pad(m, (1, 2), mode="replicate")
t.nn.functional.pad(m[None], (1, 2), mode="circular")
t.nn.functional.scaled_dot_product_attention(x, x * 2, x)
t.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
t.nn.functional.bilinear(m, m * 2, x[:, :, :3])
t.nn.functional.one_hot(j, 3)
t.nn.functional.elu(m * 2, inplace=True)
t.matrix_power(m[:, :2], 3)
"""

ERRORS = """
m @ m | cannot be multiplied
v @ o | at least 1D
x.bmm(m) | must be
v.dot(v[:2]) | same number of elements
x.sum(5) | Dimension out of range
x.sum((0, 0)) | appears multiple times
i.mean() | could not infer output dtype
t.zeros(0).max() | Expected reduction dim to be specified for input.numel() == 0
t.zeros(2, 0).max(1) | Expected reduction dim 1 to have non-zero size
x.topk(9) | out of range
x.clamp() | At least one of 'min' or 'max' must not be None
x.div(2, rounding_mode="up") | rounding_mode
b - b | Subtraction, the `-` operator, with two bool tensors is not supported
-b | Negation, the `-` operator, on a bool tensor is not supported
i // 0 | ZeroDivisionError
x + "text" | unsupported operand type
t.add(x, "text") | must be Tensor, not str
x + t.zeros(5) | must match the size of tensor
t.where(m, m, m) | expected condition to be a boolean tensor
t.tensor([2]) ** -1 | negative integer powers are not allowed
m & b | not implemented for 'Double'
t.nn.functional.cross_entropy(m, t.tensor([0, 5])) | is out of bounds
t.nn.functional.cross_entropy(m, m[0, :2].detach()) | expected target dtype to be Long or Byte
t.nn.functional.cross_entropy(m, t.tensor([0, 1, 2])) | to match target batch_size
t.nn.functional.cross_entropy(m, i, reduction="most") | is not a valid value for reduction
t.nn.functional.conv2d(m, x[None]) | Expected 3D (unbatched) or 4D (batched) input to conv2d
t.nn.functional.conv2d(x[None], x[None, :1, :2, :2]) | to have 1 channels, but got 2 channels
t.nn.functional.conv2d(x[None], x[None, :, :, :1], stride=0) | non-positive stride
t.nn.functional.max_pool2d(x, 9) | Output size is too small
t.nn.functional.max_pool2d(x, 2, padding=2) | pad should be at most half of effective kernel size
t.nn.functional.dropout(m, 1.5) | dropout probability has to be between 0 and 1, but got 1.5
t.nn.functional.embedding(t.tensor([9]), m) | index out of range in self
t.nn.functional.embedding(m, m) | to have one of the following scalar types
t.nn.functional.layer_norm(m, (4,)) | Given normalized_shape=[4], expected input with shape [*, 4]
t.nn.functional.softmax(m, 5) | Dimension out of range
t.nn.functional.one_hot(t.tensor([3]), 2) | Class values must be smaller than num_classes
t.nn.functional.binary_cross_entropy(m * 9, m.detach()) | between 0 and 1
t.nn.functional.glu(v) | Halving dimension must be even
t.einsum("ij,jk", m) | operands
t.einsum("ij->ik", m) | einsum
"""


@pytest.mark.oracle
@each_expression(SAME)
def test_as_torch(expression: str) -> None:
    compare(expression)


@pytest.mark.oracle
@each_expression(ALIKE)
def test_values_and_gradients_as_torch(expression: str) -> None:
    compare(expression, look=False)


@pytest.mark.oracle
@each_failure(ERRORS)
def test_errors_as_torch(expression: str, phrase: str) -> None:
    compare_failure(expression, phrase)
