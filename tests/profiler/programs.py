"""Programs that are profiled, each written once: `name(t)` gives what is run, t the engine."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Program = Callable[[], None]


def _part(t: Any, name: str) -> Any:
    return importlib.import_module(f"{t.__name__}.{name}")


def mlp(t: Any) -> Program:
    layers = (t.nn.Linear(4, 5), t.nn.ReLU(), t.nn.Linear(5, 3), t.nn.Tanh(), t.nn.GELU())
    net = t.nn.Sequential(*layers)
    x, y = t.randn(6, 4), t.tensor([0, 1, 2, 0, 1, 2])

    def run() -> None:
        loss = t.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        loss.item()

    return run


def conv_net(t: Any) -> Program:
    layers = (t.nn.Conv2d(1, 3, 3, padding=1), t.nn.BatchNorm2d(3), t.nn.ReLU(), t.nn.MaxPool2d(2))
    net = t.nn.Sequential(*layers, t.nn.Flatten(), t.nn.Dropout(0.5), t.nn.Linear(12, 2))
    x = t.randn(2, 1, 4, 4)

    def run() -> None:
        net(x).pow(2).mean().backward()

    return run


def rnn(t: Any) -> Program:
    w = t.randn(4, 4, requires_grad=True)
    b = t.zeros(4, requires_grad=True)
    x = t.randn(5, 2, 4)

    def run() -> None:
        h = t.zeros(2, 4)
        for step in range(5):
            h = t.tanh(x[step] @ w + h @ w.t() + b)
        (h**2).sum().backward()

    return run


def recurrent_layers(t: Any) -> Program:
    """Forward alone: torch's fused layers have backwards of their own."""
    cell, layers = t.nn.GRUCell(3, 4), (t.nn.RNN(3, 4), t.nn.LSTM(3, 4), t.nn.GRU(3, 4))
    x = t.randn(5, 2, 3)

    def run() -> None:
        for layer in layers:
            layer(x)
        cell(x[0])

    return run


def transformer_layer(t: Any) -> Program:
    qkv, out, norm = t.nn.Linear(8, 24), t.nn.Linear(8, 8), t.nn.LayerNorm(8)
    mlp = t.nn.Sequential(t.nn.Linear(8, 16), t.nn.GELU(), t.nn.Linear(16, 8))
    x = t.randn(2, 5, 8)

    def run() -> None:
        parts = [p.view(2, 5, 2, 4).transpose(1, 2) for p in qkv(x).chunk(3, -1)]
        mixed = t.nn.functional.scaled_dot_product_attention(*parts)
        h = norm(x + out(mixed.transpose(1, 2).reshape(2, 5, 8)))
        norm(h + mlp(h)).sum().backward()

    return run


def attention(t: Any) -> Program:
    """With and without weights and masks, of one tensor, of two and of three."""
    heads = t.nn.MultiheadAttention(8, 2, batch_first=True)
    x, y, z = t.randn(2, 5, 8), t.randn(2, 4, 8), t.randn(2, 4, 8)
    causal = t.nn.Transformer.generate_square_subsequent_mask(5)
    padding = t.tensor([[False, False, True, True], [False, False, False, True]])

    def run() -> None:
        for weights in (True, False):
            heads(x, x, x, need_weights=weights)[0].sum().backward()
            heads(x, x, x, attn_mask=causal, need_weights=weights)[0].sum().backward()
            heads(x, y, y, key_padding_mask=padding, need_weights=weights)[0].sum().backward()
            heads(x, y, z, need_weights=weights)[0].sum().backward()

    return run


def encoder_layer(t: Any) -> Program:
    layer = t.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    x = t.randn(2, 5, 8)

    def run() -> None:
        layer(x).sum().backward()

    return run


def optimizer_step(t: Any) -> Program:
    p, q = t.randn(3, requires_grad=True), t.randn(3, requires_grad=True)
    optimizers = t.optim.SGD([p], lr=0.1, momentum=0.9), t.optim.Adam([q], lr=0.1)

    def run() -> None:
        for each in optimizers:
            each.zero_grad()
        ((p * p).sum() + (q / 2 - 1).abs().mean()).backward()
        for each in optimizers:
            each.step()

    return run


def data_loader(t: Any) -> Program:
    data = _part(t, "utils.data")
    loader = data.DataLoader(data.TensorDataset(t.arange(8.0).reshape(8, 1)), batch_size=4)

    def run() -> None:
        for (batch,) in loader:
            (batch * 2).sum()

    return run


def reentrant(t: Any) -> Program:
    checkpoint = _part(t, "utils.checkpoint").checkpoint
    x = t.randn(3, requires_grad=True)

    def run() -> None:
        checkpoint(lambda a: (a.sin() * 2).exp(), x, use_reentrant=True).sum().backward()

    return run


def checkpoint(t: Any) -> Program:
    again = _part(t, "utils.checkpoint").checkpoint
    x = t.randn(3, requires_grad=True)

    def run() -> None:
        again(lambda a: (a.sin() * 2).exp(), x, use_reentrant=False).sum().backward()

    return run


def custom_function(t: Any) -> Program:
    class Square(t.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * g * x

    x = t.randn(3, requires_grad=True)

    def run() -> None:
        Square.apply(x).sum().backward()

    return run


def double_backward(t: Any) -> Program:
    x = t.randn(3, requires_grad=True)

    def run() -> None:
        (g,) = t.autograd.grad((x * x.sin()).sum(), x, create_graph=True)
        (g * g).sum().backward()

    return run


def many_ops(t: Any) -> Program:
    x = t.randn(4, 6, requires_grad=True)
    index = t.tensor([0, 1])

    def run() -> None:
        a = x.view(2, 12).permute(1, 0).contiguous()
        c = t.stack([t.cat([a, a])] * 2).mean(0)
        d = c[:3].unsqueeze(0).expand(2, 3, 2).reshape(-1)
        e = (1 - d).clamp(min=0) + d.softmax(0) - d.log_softmax(0)
        f = t.where(e > 0, e, d).to(t.float64)
        g = f.max() + f.std() + f.norm() + x.t().matmul(x).diagonal().sum()
        with t.no_grad():
            z = x.detach().clone()
            z.add_(1).mul_(2)
            z /= 3
        h = t.einsum("ij,kj->ik", x, x).tril().pow(2).sqrt().sum() + x.chunk(2)[0].sum()
        h = h + x.split(2)[1].prod() + x.T.flatten()[0] + x.masked_fill(x > 0, 0.0).sum()
        (g + h + x.index_select(0, index).sum()).backward()

    return run


def ranges(t: Any) -> Program:
    named = _part(t, "autograd.profiler").record_function
    x = t.randn(3, requires_grad=True)

    @named("decorated")
    def squares() -> Any:
        return x * x

    def run() -> None:
        with named("outer"), named("inner", "with arguments"):
            y = squares().sum()
        with named("all of the backward"):
            y.backward()

    return run


PROGRAMS: dict[str, Callable[[Any], Program]] = {
    each.__name__: each
    for each in (
        *(mlp, conv_net, rnn, recurrent_layers, transformer_layer, attention, encoder_layer),
        *(
            optimizer_step,
            data_loader,
            reentrant,
            checkpoint,
            custom_function,
            double_backward,
            many_ops,
            ranges,
        ),
    )
}

LINES = (
    *("bool(s)", "float(s)", "int(s)", "x.float()", "x.double()", "x.to('cpu')", "x.cpu()"),
    *("x.type_as(y)", "x.contiguous()", "x.T.contiguous()", "x.conj()", "z.conj()"),
    *("x.split(2)", "x.split([1, 2])", "t.split(x, [1, 2])", "x.unique()", "t.unique(x, dim=0)"),
    *("F.softmax(x, 1)", "F.log_softmax(x, 1)", "F.softmin(x, 1)", "F.normalize(x)"),
    *("F.relu6(x)", "F.selu(x)", "F.softsign(x)", "F.tanhshrink(x)", "F.logsigmoid(x)"),
    *("F.unfold(im, 3)", "F.fold(im.reshape(1, 12, 32), (9, 5), (2, 2))", "F.lp_pool2d(im, 2, 2)"),
    *(
        "F.grid_sample(im, im.mT[:, :2].permute(0, 2, 3, 1), align_corners=True)",
        "F.dropout1d(im[0])",
        "F.dropout2d(im)",
    ),
    *("F.affine_grid(x[None, :2, :3], (1, 3, 4, 4), True)", "F.local_response_norm(im, 2)"),
    *("F.interpolate(im, scale_factor=2)", "F.multilabel_soft_margin_loss(x, y)"),
    *("x[1:, ::2]", "x[0, None]", "x[0:2, ..., 1]"),
    *("x.new_zeros(3)", "x.new_ones(3)", "x.new_full((3,), 1.0)", "x.new_empty(3)"),
    *("t.normal(0.0, 1.0, (3,))", "t.tril_indices(3, 3)", "t.hann_window(8)"),
    *("x.clone().resize_(2, 2)", "nn.init.zeros_(x)", "nn.utils.rnn.pad_sequence([x, x[:1]])"),
    *("nn.utils.clip_grad_norm_([w], 1.0)", "nn.utils.clip_grad_value_([w], 1.0)"),
    *(
        "t._foreach_mul_([x, y], 1.0)",
        "nn.LSTM(8, 5)(im[0])",
        "nn.GRU(8, 5, batch_first=True)(im[0])",
    ),
    "net(c, c, tgt_mask=mask)",
)
"""One call each, on the names that `line` gives it."""


def line(t: Any, text: str) -> Program:
    t.manual_seed(0)
    given = {
        "t": t,
        "F": _part(t, "nn.functional"),
        "nn": t.nn,
        "s": t.tensor(2.0),
        "x": t.rand(3, 4),
        "y": t.rand(3, 4),
        "q": t.rand(4, 4),
        "im": t.rand(2, 3, 8, 8),
        "c": t.rand(1, 4, 4),
        "net": t.nn.Transformer(4, 2, 1, 1, 5, batch_first=True),
        "mask": t.nn.Transformer.generate_square_subsequent_mask(4),
        "z": t.rand(3, dtype=t.complex64),
        "w": t.rand(3, requires_grad=True),
    }
    given["w"].sum().backward()
    code = compile(text, "<line>", "exec")
    return lambda: exec(code, given)
