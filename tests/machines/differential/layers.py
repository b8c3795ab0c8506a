"""Random programs of layers that are computed in ways of their own: values and gradients."""

from __future__ import annotations

from typing import Any

from .program import holes
from .writer import NARROW, Writer

REAL = ["float32", "float32", "float64", "float64", "float64"]
TYPES = [*REAL, "float16", "bfloat16"]
SMALL = "small(1)"  # every fast path, whatever the size


def turned(w: Writer, x: str, rank: int) -> str:
    """A tensor, or the same with its elements in another order in memory."""
    if rank < 2 or w.maybe(0.75):
        return x
    return w.pick(
        f"{x}.mT.contiguous().mT",
        f"{x}.flip(0).flip(0)",
        f"{x}.repeat(2, *[1] * {rank - 1})[::2][:{x}.shape[0]]",
    )


def recurrent(w: Writer) -> None:
    """RNN, LSTM and GRU: packed or not, with a projection, seen by outputs, states or both."""
    if w.maybe(0.15):
        cell(w)
        return
    kind, dtype = w.pick("LSTM", "LSTM", "GRU", "RNN"), w.pick(*REAL)
    width, hidden = w.size(1, 4), w.size(1, 5)
    options = {
        "num_layers": [1, 2, 2],
        "bias": [False],
        "bidirectional": [True],
        "batch_first": [True],
    }
    more = {"proj_size": [max(hidden - 1, 1)] if hidden > 1 else [0]} if kind == "LSTM" else {}
    more = {"nonlinearity": ["'relu'", "'tanh'"]} if kind == "RNN" else more
    given = ", ".join(filter(None, (w.given(0.4, **options), w.given(0.3, **more))))
    form = "filled(torch.nn.{kind}({width}, {hidden}{options}), {number}, {dtype})"
    (m,) = w.add(
        form,
        kind,
        width,
        hidden,
        f", {given}" * bool(given),
        w.size(0, 99),
        repr(dtype),
        letters="m",
    )
    steps, rows = w.pick(0, 1, 1, 2, 3, 5), w.pick(0, 1, 2, 3, 3, 5)
    steps, rows = (max(steps, 1), max(rows, 1)) if w.maybe(0.93) else (steps, rows)
    first = "batch_first=True" in given
    batched = w.maybe(0.85)
    shape: tuple[int, ...] = (rows, steps, width) if first else (steps, rows, width)
    x = w.numbers(shape if batched else (steps, width), dtype, wild=0.04, grad=w.maybe(0.8))
    mode = w.pick("", SMALL)
    packed = batched and min(rows, steps) > 0 and w.maybe(0.4)
    given_x = turned(w, x, len(shape))
    if packed:
        lengths = [w.size(1, steps) for _ in range(rows)]
        lengths[w.size(0, rows - 1)] = steps
        form = (
            "torch.nn.utils.rnn.pack_padded_sequence({x}, {lengths}, {first}, enforce_sorted=False)"
        )
        (given_x,) = w.add(form, given_x, lengths, first, letters="k")
    inputs = [x]
    state = ""
    if w.maybe(0.4):
        count = (2 if "num_layers=2" in given else 1) * (2 if "bidirectional" in given else 1)
        size = hidden
        if kind == "LSTM" and "proj_size" in given:
            size = more["proj_size"][0] or hidden
        among = (rows,) if batched else ()
        h = w.numbers((count, *among, size), dtype, grad=w.maybe(0.5))
        inputs.append(h)
        state = f", {h}"
        if kind == "LSTM":
            c = w.numbers((count, *among, hidden), dtype, grad=w.maybe(0.5))
            inputs.append(c)
            state = f", ({h}, {c})"
    w.add("{m}({x}{state})", m, given_x, state, targets=("y0", "z0"), mode=mode)
    outputs = w.add("y0.data" if packed else "y0")
    outputs += w.add("z0", letters="uu") if kind == "LSTM" else w.add("z0")
    seen = w.random.sample(outputs, w.size(1, len(outputs)))
    if w.maybe(0.08):
        w.do("[p.detach().mul_(2) for p in {m}.parameters()]", m)
    elif w.maybe(0.1):
        w.add("{m}({x}{state})[0]", m, x if not packed else given_x, state, letters="q", mode=mode)
    w.slopes(seen, [*inputs[:1], f"*{m}.parameters()", *inputs[1:]], 0.4, mode)


def cell(w: Writer) -> None:
    kind, dtype = w.pick("LSTMCell", "GRUCell", "RNNCell"), w.pick(*REAL)
    width, hidden = w.size(1, 4), w.size(1, 5)
    form = "filled(torch.nn.{kind}({width}, {hidden}{options}), {number}, {dtype})"
    (m,) = w.add(
        form,
        kind,
        width,
        hidden,
        w.pick("", ", bias=False"),
        w.size(0, 99),
        repr(dtype),
        letters="m",
    )
    among = w.pick((), (2,), (3,))
    x = w.numbers((*among, width), dtype, grad=True)
    h = w.numbers((*among, hidden), dtype, grad=w.maybe(0.5))
    if kind == "LSTMCell":
        seen = w.add("{m}({x}, ({h}, {same}))".replace("{same}", "{h}"), m, x, h, h, letters="uu")
    else:
        seen = w.add("{m}({x}, {h})", m, x, h)
    w.slopes(w.random.sample(seen, w.size(1, len(seen))), [x, h, f"*{m}.parameters()"], 0.5, "")


def attention(w: Writer) -> None:
    """scaled_dot_product_attention and MultiheadAttention, with masks of every kind."""
    if w.maybe(0.4):
        heads(w)
        return
    dtype = w.pick(*TYPES)
    batch = w.pick((), (2,), (2, 3), (1, 2))
    queries, keys, width, depth = (w.pick(1, 2, 3, 4) for _ in range(4))
    if w.maybe(0.5):
        depth = width
    grad = w.maybe(0.85)
    groups = len(batch) == 2 and w.maybe(0.15)
    q = w.numbers(
        (*batch[:-1], batch[-1] * 2, queries, width) if groups else (*batch, queries, width),
        dtype,
        0.05,
        grad,
    )
    k = w.numbers((*batch, keys, width), dtype, 0.05, grad)
    v = w.numbers((*batch, keys, depth), dtype, 0.05, grad and w.maybe(0.8))
    options = []
    inputs = [q, k, v]
    kind = w.random.random()
    among = w.pick(
        (queries, keys),
        (queries, keys),
        (1, keys),
        (*batch[:1], *(1,) * len(batch[1:]), queries, keys),
    )
    if kind < 0.25:
        (mask,) = w.add(
            "numbers({number}, {size}) > {threshold}", w.size(0, 99), among, w.pick(-1, 0, 0.5, 9)
        )
        options.append(f"attn_mask={mask}")
    elif kind < 0.45:
        mask = w.numbers(among, dtype, 0.3, w.maybe(0.3))
        inputs.append(mask)
        options.append(f"attn_mask={mask}")
    elif kind < 0.55:
        form = "torch.zeros({size}, dtype=torch.{dtype})"
        form += ".masked_fill(numbers({number}, {size}) > 0, -float('inf'))"
        (mask,) = w.add(form, among, dtype, w.size(0, 99), among)
        options.append(f"attn_mask={mask}")
    if not options and w.maybe(0.3):
        options.append("is_causal=True")
    if w.maybe(0.25):
        options.append(f"scale={w.pick(0.5, 2.0, 1e3 if dtype == 'float64' else 1.0)}")
    if groups:
        options.append("enable_gqa=True")
    mode = w.pick("", SMALL)
    twice = 0.6 if w.maybe(0.3) and not w.once else 0.0
    if twice:
        mode = "math()"  # torch's other ways have no second derivative
    form = "torch.nn.functional.scaled_dot_product_attention({q}, {k}, {v}{options})"
    fills = [turned(w, each, len(batch) + 2) for each in inputs[:3]]
    (out,) = w.add(form, *fills, "".join(f", {each}" for each in options), mode=mode)
    w.slopes([out], inputs, twice, mode)


def heads(w: Writer) -> None:
    """MultiheadAttention."""
    dtype, count, size = w.pick(*REAL), w.pick(1, 2), w.pick(1, 2, 3)
    width = count * size
    options = w.given(
        0.25,
        bias=[False],
        add_bias_kv=[True],
        add_zero_attn=[True],
        batch_first=[True],
        kdim=[3],
        vdim=[2],
    )
    form = "filled(torch.nn.MultiheadAttention({width}, {heads}{options}), {number}, {dtype})"
    (m,) = w.add(
        form, width, count, f", {options}" * bool(options), w.size(0, 99), repr(dtype), letters="m"
    )
    if w.maybe(0.3):
        w.do("{m}.eval()", m)
    rows, queries = w.size(1, 3), w.size(1, 4)
    same = w.maybe(0.4) and "dim=" not in options
    keys = queries if same else w.size(1, 4)
    batched = w.maybe(0.8)
    first = "batch_first" in options

    def shape(n: int, last: int) -> tuple[int, ...]:
        return (((rows, n) if first else (n, rows)) if batched else (n,)) + (last,)

    grad = w.maybe(0.8)
    q = w.numbers(shape(queries, width), dtype, 0.03, grad)
    k = v = q
    if not same:
        k = w.numbers(shape(keys, 3 if "kdim" in options else width), dtype, 0.03, grad)
        v = w.numbers(shape(keys, 2 if "vdim" in options else width), dtype, 0.03, grad)
    more = []
    if w.maybe(0.3):
        among = w.pick(
            (queries, keys), (queries, keys), (rows * count if batched else count, queries, keys)
        )
        (mask,) = w.add(
            w.pick(
                "numbers({number}, {size}) > {threshold}",
                "numbers({number}, {size}, wild='-inf') * {threshold}",
            ),
            w.size(0, 99),
            among,
            w.pick(1, 0.5, 2),
        )
        more.append(f"attn_mask={mask}")
    if w.maybe(0.3):
        among = (rows, keys) if batched else (keys,)
        (mask,) = w.add(
            "numbers({number}, {size}) > {threshold}", w.size(0, 99), among, w.pick(0, 1, 0.5)
        )
        more.append(f"key_padding_mask={mask}")
    more += filter(None, [w.given(0.3, need_weights=[False], average_attn_weights=[False])])
    mode = w.pick("", SMALL)
    quiet = "torch.no_grad()" if w.maybe(0.1) else mode
    w.add(
        "{m}({q}, {k}, {v}{options})",
        m,
        q,
        k,
        v,
        "".join(f", {each}" for each in more),
        letters="uu",
        mode=quiet,
    )
    outputs = [w.lines[-1].targets[0]]
    if "need_weights" not in "".join(more):
        outputs = w.random.sample(list(w.lines[-1].targets), w.size(1, 2))
    w.slopes(
        outputs,
        [*dict.fromkeys([q, k, v]), f"*{m}.parameters()"],
        0.0 if "need_weights" in "".join(more) else 0.3,
        mode,
    )


def convolutions(w: Writer) -> None:
    """Convolutions of one to three dimensions and transposed ones, of every stride and dilation."""
    dims, dtype = w.pick(1, 1, 2, 2, 2, 3), w.pick(*REAL, *REAL, "float16", "complex64")
    groups = w.pick(1, 1, 1, 2, 3)
    inner, outer = w.size(1, 3), w.size(1, 3)
    large = w.maybe(0.1)
    mode = "" if large else w.pick("", SMALL, SMALL)
    rows = w.size(4, 8) if large else w.pick(1, 1, 2, 3, 9)
    side = {1: 700, 2: 26, 3: 9}[dims] if large else {1: 9, 2: 6, 3: 4}[dims]
    space = tuple(side if large else w.size(1, side) for _ in range(dims))
    kernel = tuple(w.size(1, 3) for _ in range(dims))
    across = w.maybe(0.3)
    options = {}

    def each(name: str, often: float, low: int, high: int) -> None:
        if w.maybe(often):
            values = tuple(w.size(low, high) for _ in range(dims))
            options[name] = values[0] if w.maybe(0.4) else values

    each("stride", 0.5, 1, 3)
    each("padding", 0.5, 0, 2)
    each("dilation", 0.3, 1, 3)
    if across:
        each("output_padding", 0.2, 0, 1)
    elif "stride" not in options and w.maybe(0.1):
        options["padding"] = w.pick("'same'", "'valid'")
    if groups > 1:
        options["groups"] = groups
    name = f"conv{'_transpose' if across else ''}{dims}d"
    channels = groups * inner
    if across:
        weight_shape: tuple[int, ...] = (channels, outer, *kernel)
    else:
        weight_shape = (groups * outer, inner, *kernel)
    batch = () if w.maybe(0.08) else (rows,)
    x = w.numbers((*batch, channels, *space), dtype, 0.04, w.maybe(0.8))
    k = w.numbers(weight_shape, dtype, 0.03, w.maybe(0.8))
    inputs, bias = [x, k], "None"
    if w.maybe(0.5):
        bias = w.numbers((groups * outer,), dtype, 0.0, w.maybe(0.8))
        inputs.append(bias)
    form = "torch.nn.functional.{name}({x}, {k}, {bias}{options})"
    given = "".join(f", {key}={value}" for key, value in options.items())
    fills = turned(w, x, len(batch) + 1 + dims), turned(w, k, dims + 2)
    (out,) = w.add(form, name, *fills, bias, given, mode=mode)
    w.slopes([out], inputs, 0.0 if large else 0.35, mode)


ROWS = [
    "{x}.softmax({dim})",
    "{x}.softmax({dim})",
    "{x}.log_softmax({dim})",
    "{x}.log_softmax({dim})",
    "torch.nn.functional.softmin({x}, {dim})",
    "{x}.logsumexp({dim})",
    "torch.nn.functional.gelu({x})",
    "torch.nn.functional.gelu({x}, approximate='tanh')",
    "torch.nn.functional.layer_norm({x}, ({last},))",
    "torch.nn.functional.layer_norm({x}, ({last},), {weight}, {bias})",
    "torch.nn.functional.layer_norm({x}, ({last},), {weight}, None, {eps})",
    "torch.nn.functional.layer_norm({x}, tuple({same}.shape))",
    "torch.nn.functional.rms_norm({x}, ({last},), {weight})",
    "torch.nn.functional.group_norm({x}, 1)",
    "torch.nn.functional.batch_norm({x}, None, None, training=True)",
    "torch.nn.functional.cross_entropy({x}, {same}.detach().argmax(1))",
    "torch.nn.functional.cross_entropy({x}, {same}.detach().softmax(1), label_smoothing=0.1)",
    "torch.nn.functional.nll_loss({x}.log_softmax(1), {same}.detach().argmin(1), reduction='none')",
    "torch.nn.functional.kl_div({x}, {same}.detach().softmax(-1), reduction='sum')",
    "torch.nn.functional.silu({x})",
    "torch.nn.functional.mish({x})",
    "torch.nn.functional.glu({x}.repeat_interleave(2, {dim}), {dim})",
    "torch.nn.functional.normalize({x}, dim={dim})",
]
SCALES = ["", "", "", " * 100", " + 100", " * 1e-4", " * 0"]
# Of 16-bit floats: no differences of what was rounded.
PLAIN = [
    *ROWS[:8],
    "{x}.norm(2, {dim})",
    "{x}.norm()",
    "{x}.std({dim})",
    "torch.var_mean({x})[1]",
    "torch.nn.functional.silu({x})",
    "torch.nn.functional.pairwise_distance({x}, {same}.detach().flip(-1))",
]


def rows(w: Writer) -> None:
    """What is computed row by row: with the compiled kernels, where they are installed."""
    dtype = w.pick(*TYPES)
    large = w.maybe(0.08)
    shape = (
        w.pick((70, 64), (3, 40, 40), (5000,))
        if large
        else w.pick(
            (), (1,), (3,), (2, 3), (4, 5), (5, 1), (2, 3, 4), (2, 0), (0, 3), (3, 4, 2, 2), (2, 33)
        )
    )
    mode = "" if large else w.pick("", SMALL, SMALL)
    base = w.numbers(shape, dtype, 0.0 if large else 0.12, grad=True)
    narrow = dtype in NARROW
    x, scale = base, w.pick(*(["", "", " * 300", " * 3e-3"] if narrow else SCALES))
    if scale or w.maybe(0.3):
        (x,) = w.add("{x}{scale}", turned(w, base, len(shape)), scale)
    w.once |= bool(scale)
    form, inputs = w.pick(*(PLAIN if narrow else ROWS)), [base]
    values: dict[str, Any] = {"x": x, "last": shape[-1] if shape else 1}
    if "norm(" in form and dtype == "float32" and (scale or 0 < values["last"] < 5):
        form = ROWS[0]  # of two numbers that are near each other, what is normed has few digits
    if "batch_norm" in form and (len(shape) < 2 or dtype == "float32"):
        form = ROWS[2]
    values |= {"dim": w.pick(-1, -1, 0), "eps": w.pick(1e-5, 1e-3)}
    for each in [e for e in ("weight", "bias") if e in holes(form)]:
        values[each] = w.numbers((values["last"],), dtype, 0.0, w.maybe(0.8))
        inputs.append(values[each])
    fills = [values[each] for each in holes(form)]
    (out,) = w.add(form, *fills, mode=mode)
    w.slopes([out], inputs, 0.0 if large else 0.4, mode)
