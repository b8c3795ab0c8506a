"""Layers as programs have them: recurrent, transformer, convolution, pooling, small matrices.

Each is written once on the names that both engines share and runs forward and backward.
`measure` prints the median over turns of each pair's ratio to torch, with the quartiles, and what
the ratio is to be; with the extra `fast`, and with NumPy alone.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from . import cases
from .cases import Case, Engine

Make = Callable[[Engine], Case]


def _data(*shape: int) -> Any:
    return numpy.random.default_rng(0).normal(size=shape)


def _trained(engine: Engine, module: Any, *given: Any, first: bool = False) -> Case:
    """Forward and backward of a module; the gradients come to its parameters and inputs."""
    leaves = [*module.parameters(), *(x for x in given if x.requires_grad)]
    out = module(*given)
    g = engine.tensor(_data(*(out[0] if first else out).shape))

    def run() -> None:
        out = module(*given)
        (out[0] if first else out).backward(g)
        for leaf in leaves:
            leaf.grad = None

    return run


def _function(engine: Engine, function: Callable[..., Any], *shapes: tuple[int, ...]) -> Case:
    """Forward and backward of a function of tensors, which all get gradients."""
    given = [engine.tensor(_data(*shape), grad=True) for shape in shapes]
    g = engine.tensor(_data(*function(*given).shape))

    def run() -> None:
        function(*given).backward(g)
        for x in given:
            x.grad = None

    return run


def recurrent(kind: str, width: int, batch: int, **options: Any) -> Make:
    """nn.LSTM, nn.GRU or nn.RNN over 100 steps."""

    def make(engine: Engine) -> Case:
        engine.t.manual_seed(0)
        module = getattr(engine.t.nn, kind)(width, width, **options)
        return _trained(engine, module, engine.tensor(_data(100, batch, width)), first=True)

    return make


def cells(kind: str, width: int, batch: int) -> Make:
    """A loop of 100 steps over nn.LSTMCell or nn.GRUCell."""

    def make(engine: Engine) -> Case:
        t = engine.t
        t.manual_seed(0)
        cell = getattr(t.nn, kind)(width, width)
        steps = engine.tensor(_data(100, batch, width)).unbind(0)
        zeros = t.zeros(batch, width)

        def run() -> None:
            state = (zeros, zeros) if kind == "LSTMCell" else zeros
            for x in steps:
                state = cell(x, state)
            (state[0] if kind == "LSTMCell" else state).sum().backward()
            for leaf in cell.parameters():
                leaf.grad = None

        return run

    return make


def language_model(engine: Engine) -> Case:
    """A step of SGD on an embedding, an LSTM of width 64 and a head; 35 words, 16 texts."""
    t = engine.t
    t.manual_seed(0)
    words, lstm, head = t.nn.Embedding(200, 64), t.nn.LSTM(64, 64), t.nn.Linear(64, 200)
    net = t.nn.ModuleList([words, lstm, head])
    optimizer = t.optim.SGD(net.parameters(), lr=0.01)
    text = t.from_numpy(numpy.random.default_rng(0).integers(0, 200, (36, 16)))

    def run() -> None:
        optimizer.zero_grad()
        scores = head(lstm(words(text[:-1]))[0])
        loss = t.nn.functional.cross_entropy(scores.flatten(0, 1), text[1:].flatten())
        loss.backward()
        optimizer.step()

    return run


def gpt_block(engine: Engine) -> Case:
    """A pre-norm block: width 64, 4 heads, 64 tokens, 4 texts, causal attention, GELU."""
    t = engine.t
    t.manual_seed(0)
    nn = t.nn

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(64), nn.LayerNorm(64)
            self.qkv, self.proj = nn.Linear(64, 192), nn.Linear(64, 64)
            self.mlp = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))

        def forward(self, x: Any) -> Any:
            b, n, d = x.shape
            q, k, v = self.qkv(self.ln1(x)).split(d, -1)
            q, k, v = (y.view(b, n, 4, d // 4).transpose(1, 2) for y in (q, k, v))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).reshape(b, n, d))
            return x + self.mlp(self.ln2(x))

    return _trained(engine, Block(), engine.tensor(_data(4, 64, 64), grad=True))


def encoder_layer(engine: Engine) -> Case:
    """nn.TransformerEncoderLayer of width 64 with 4 heads on 4 x 64 tokens, without dropout."""
    engine.t.manual_seed(0)
    layer = engine.t.nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
    return _trained(engine, layer, engine.tensor(_data(4, 64, 64), grad=True))


def module(kind: str, *args: Any, given: tuple[int, ...], **options: Any) -> Make:
    """A module of nn on one input that gets a gradient, too."""

    def make(engine: Engine) -> Case:
        engine.t.manual_seed(0)
        layer = getattr(engine.t.nn, kind)(*args, **options)
        return _trained(engine, layer, engine.tensor(_data(*given), grad=True))

    return make


def function(path: str, *shapes: tuple[int, ...], **options: Any) -> Make:
    """A function by its dotted name under torch."""

    def make(engine: Engine) -> Case:
        found = engine.t
        for name in path.split("."):
            found = getattr(found, name)
        return _function(engine, lambda *given: found(*given, **options), *shapes)

    return make


def solve(engine: Engine) -> Case:
    """linalg.solve of 256 systems of 4 x 4."""
    eye = engine.t.eye(4) * 4
    return _function(
        engine, lambda a, b: engine.t.linalg.solve(a + eye, b), (256, 4, 4), (256, 4, 1)
    )


def of_matrices(name: str) -> Make:
    """A function of linalg on 256 matrices of 4 x 4, positive definite."""

    def make(engine: Engine) -> Case:
        eye = engine.t.eye(4) * 4
        named = getattr(engine.t.linalg, name)
        return _function(engine, lambda a: named(a @ a.mT + eye), (256, 4, 4))

    return make


def by_index(name: str) -> Make:
    """gather, scatter_add, index_add or indexing of 256 x 64, forward and backward."""

    def make(engine: Engine) -> Case:
        rng = numpy.random.default_rng(0)
        cells_ = engine.t.from_numpy(rng.integers(0, 256, (256, 64)))
        rows = engine.t.from_numpy(rng.integers(0, 256, 256))
        calls: dict[str, Callable[..., Any]] = {
            "gather": lambda x, y: x.gather(0, cells_) + y,
            "scatter_add": lambda x, y: x.scatter_add(0, cells_, y),
            "index_add": lambda x, y: x.index_add(0, rows, y),
            "x[rows]": lambda x, y: x[rows] + y,
        }
        return _function(engine, calls[name], (256, 64), (256, 64))

    return make


def embedding(engine: Engine) -> Case:
    """nn.Embedding of 1000 words of width 64 on 16 x 64 words."""
    engine.t.manual_seed(0)
    table = engine.t.nn.Embedding(1000, 64)
    words = engine.t.from_numpy(numpy.random.default_rng(0).integers(0, 1000, (16, 64)))
    return _trained(engine, table, words)


IMAGES = (32, 16, 28, 28)

CASES: dict[str, Make] = {
    "LSTM, width 32, batch 8": recurrent("LSTM", 32, 8),
    "LSTM, width 128, batch 1": recurrent("LSTM", 128, 1),
    "LSTM, width 128, batch 16": recurrent("LSTM", 128, 16),
    "LSTM, 2 layers, both directions": recurrent("LSTM", 32, 8, num_layers=2, bidirectional=True),
    "GRU, width 32, batch 8": recurrent("GRU", 32, 8),
    "RNN, width 32, batch 8": recurrent("RNN", 32, 8),
    "LSTMCell loop": cells("LSTMCell", 32, 8),
    "GRUCell loop": cells("GRUCell", 32, 8),
    "language model step": language_model,
    "GPT block": gpt_block,
    "TransformerEncoderLayer": encoder_layer,
    "layer_norm, 64 x 128": lambda e: cases.layer_norm(e, 64, 128),
    "layer_norm, 32 x 64 x 256": lambda e: cases.layer_norm(e, 32, 64, 256),
    "softmax, 64 x 128": lambda e: cases.softmax(e, 64, 128),
    "softmax, 32 x 64 x 256": lambda e: cases.softmax(e, 32, 64, 256),
    "log_softmax, 64 x 128": function("log_softmax", (64, 128), dim=-1),
    "cross_entropy, 64 x 10": cases.cross_entropy,
    "batch_norm": module("BatchNorm2d", 16, given=IMAGES),
    "group_norm": module("GroupNorm", 4, 16, given=IMAGES),
    "GELU, 64 x 256": function("nn.functional.gelu", (64, 256)),
    "convolution 3 x 3": lambda e: cases.convolution(e, 3, 1),
    "convolution 3 x 3, stride 2": lambda e: cases.convolution(e, 3, 2),
    "convolution 3 x 3, dilation 2": module(
        "Conv2d", 16, 16, 3, padding=2, dilation=2, given=IMAGES
    ),
    "convolution 3 x 3, 4 groups": lambda e: cases.convolution(e, 3, 1, 4),
    "depthwise convolution": lambda e: cases.convolution(e, 3, 1, 16),
    "transposed convolution, stride 2": module(
        "ConvTranspose2d", 16, 16, 4, stride=2, padding=1, given=(32, 16, 14, 14)
    ),
    "convolution of sequences": module("Conv1d", 16, 32, 5, padding=2, given=(32, 16, 128)),
    "max_pool 2 x 2": module("MaxPool2d", 2, given=IMAGES),
    "avg_pool 2 x 2": module("AvgPool2d", 2, given=IMAGES),
    "conv net step": cases.conv_net,
    "solve, 256 of 4 x 4": solve,
    "inv, 256 of 4 x 4": of_matrices("inv"),
    "det, 256 of 4 x 4": of_matrices("det"),
    "cholesky, 256 of 4 x 4": of_matrices("cholesky"),
    "gather": by_index("gather"),
    "scatter_add": by_index("scatter_add"),
    "index_add": by_index("index_add"),
    "x[rows]": by_index("x[rows]"),
    "embedding": embedding,
    "chain, forward and backward": lambda e: cases.chain(e, True),
    "chain under no_grad": cases.no_grad_chain,
    "double backward": cases.double_backward,
    "MLP step": cases.mlp,
    "MLP step, nn and optim": cases.mlp_modules,
}


AIMS: dict[str, tuple[float, float | None]] = {
    "LSTM, width 32, batch 8": (1.3, 2.5),
    "LSTM, width 128, batch 1": (1.1, 1.6),
    "LSTM, width 128, batch 16": (1.6, None),
    "language model step": (1.5, None),
    "GPT block": (1.3, None),
    "layer_norm, 64 x 128": (0.9, 1.8),
    "layer_norm, 32 x 64 x 256": (0.9, 1.8),
    "softmax, 64 x 128": (1.2, 1.4),
    "softmax, 32 x 64 x 256": (1.2, 1.4),
    "convolution 3 x 3": (1.2, None),
    "convolution 3 x 3, stride 2": (1.2, None),
    "depthwise convolution": (1.5, None),
    "conv net step": (0.8, None),
    "solve, 256 of 4 x 4": (1.5, None),
    "chain, forward and backward": (0.6, None),
    "chain under no_grad": (0.65, None),
    "MLP step": (0.65, None),
}
"""The largest ratio that is wanted with `fast`, and with NumPy alone."""


def measure(ours: Engine, theirs: Engine, seconds: float, turn: float, only: str) -> None:
    """Each case in whose name the pattern `only` is found."""
    for name, make in CASES.items():
        if re.search(only, name):
            for told in _measured(name, make(ours), make(theirs), seconds, turn):
                print(told, flush=True)


def _measured(name: str, mine: Case, theirs: Case, seconds: float, turn: float) -> Iterator[str]:
    """A line for each way: in turns of `turn` seconds for `seconds` altogether."""
    from ag_visual.arrays import fast  # not at import: `against` chooses which ag_visual it is

    runs = {"torch": theirs, "NumPy alone": _switched(mine, False)}
    if fast.is_available():
        runs["fast"] = _switched(mine, True)
    found = _turns(runs, seconds, turn)
    for way, aim in zip(("fast", "NumPy alone"), AIMS.get(name, (None, None)), strict=True):
        if way not in found:
            continue
        ratios = [a / b for a, b in zip(found[way], found["torch"], strict=True)]
        low, median, high = statistics.quantiles(ratios, n=4)
        a, b = (statistics.median(found[each]) * 1e6 for each in (way, "torch"))
        yield (
            f"{name:34} {way:12} {a:9.1f} us  torch {b:9.1f} us  ratio {median:6.2f}"
            f"  ({low:.2f} to {high:.2f}, {len(ratios)} turns){f'  aim {aim}' if aim else ''}"
        )


def _switched(run: Case, enabled: bool) -> Case:
    """The same with compiled kernels, or without."""
    from ag_visual.arrays import fast

    def switched() -> None:
        fast.enabled = enabled
        run()

    return switched


def _turns(runs: dict[str, Case], seconds: float, turn: float) -> dict[str, list[float]]:
    """What one run of each took in each turn, in the time of this thread: none of it waits."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()  # compiled kernels come from the disk
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(found["torch"]) < 6:
        for name, run in runs.items():
            run()  # the caches are its own
            count, begun = 0, time.thread_time()
            while (spent := time.thread_time() - begun) < turn or not count:
                run()
                count += 1
            found[name].append(spent / count)
    return {name: took[1:] for name, took in found.items()}
