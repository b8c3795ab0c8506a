"""Mixed precision: which dtype each op computes in, and with which gradients, as torch's."""

from __future__ import annotations

import re
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.dispatch.autocast import casts_of
from ag_visual.dispatch.table import cast_bodies, ops
from ag_visual.nn import recurrent
from tests.ops import side_by_side
from tests.oracle import torch

EXPRESSIONS = """
x @ x.mT
m @ v
v @ m.t()
v @ v
t.mm(m, m.t())
t.mv(m, v)
t.bmm(x, x.mT)
t.baddbmm(v, x.mT, x)
t.addmm(v[:2], m, m.t())
t.einsum("ij,kj->ik", m, m)
t.tensordot(m, m, 2)
t.inner(m, m)
t.linalg.vecdot(m, m)
t.linalg.multi_dot([m, m.t(), m])
t.nn.functional.linear(x[:, :, :3], m)
t.nn.functional.linear(x[:, :, :3], m, v[:2])
t.nn.functional.conv1d(x, x)
t.nn.functional.conv_transpose2d(x[None], x[None].transpose(0, 1))
t.nn.functional.bilinear(m, m, x[:, :, :3])
t.nn.functional.scaled_dot_product_attention(x, x, x)
t.nn.functional.prelu(x, o)
m.exp() + m.softmax(1)
m.sum() * v
(m @ m.t()).log_softmax(1)
(m @ m.t()).pow(2).sum()
t.nn.functional.layer_norm(x[0].t() @ x[0], (4,)) * t.tensor([1.0, 2.0, -3.0, 4.0])
t.cat([m @ m.t(), m], 1)
t.stack([m @ m.t(), m[:, :2]])
t.nn.functional.mse_loss(m @ m.t(), m[:, :2])
t.nn.functional.cross_entropy(m @ m.t(), i)
t.nn.functional.binary_cross_entropy((m @ m.t()).sigmoid(), m[:, :2].sigmoid().detach())
t.nn.functional.smooth_l1_loss((m @ m.t()), m[:, :2].detach())
t.cdist(m @ m.t(), m[:, :2])
(m @ m.t()).inverse()
(m @ m.t()).prod()
(m @ m.t()).trace()
t.fft.rfft(m @ m.t()).abs()
t.nn.functional.pad(x @ x.mT, (1, 1), mode="reflect")
t.nn.functional.avg_pool2d((x @ x.mT)[None], 2)
t.nn.functional.normalize(m @ m.t())
(m @ m.t()).quantile(0.3)
(m @ m.t()).index_copy(0, i, m[:, :2])
(m @ m.t()).mean() + m
m * m.to(t.bfloat16)
m.to(t.float64) @ m.to(t.float64).t()
z @ z.mT
y = m @ m.t(); y += m[:, :2]
y = m @ m.t(); y.addmm_(m, m.t())
y = t.nn.functional.linear(m, m.detach()).relu().sum()
"""


def tensors(t: Any, kind: str) -> dict[str, Any]:
    """The tensors of `side_by_side`, in lower precision; leaves."""
    found = {}
    for name, x in side_by_side.tensors(t).items():
        plain = x.detach()
        if plain.is_floating_point():
            plain = plain.to(getattr(t, kind)).requires_grad_()
        elif plain.is_complex():
            plain = plain.to(t.complex64).requires_grad_()
        found[name] = plain
    return found


def evaluated(t: Any, kind: str, expression: str) -> Any:
    """Dtype, values and gradients of an expression in a block."""
    scope = {**tensors(t, kind), "t": t}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with t.autocast("cpu"):
            try:
                found = eval(expression, scope)
            except SyntaxError:
                exec(expression, scope)
                found = scope["y"]
    loss = t.view_as_real(found) if found.is_complex() else found
    (loss.float() ** 2).sum().backward()
    leaves = {name: scope[name] for name in side_by_side.LEAVES}
    grads = {n: x.grad for n, x in leaves.items() if x.grad is not None and not x.is_complex()}
    seen = {name: str(g.dtype) for name, g in grads.items()}
    numbers = [x.detach().float().numpy() for x in (loss, *grads.values())]
    return (str(found.dtype), tuple(found.shape), seen), numbers


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("expression", EXPRESSIONS.strip().splitlines())
def test_dtypes_and_gradients_are_those_of_torch(expression: str, kind: str) -> None:
    try:
        expected, theirs = evaluated(torch, kind, expression)
    except (RuntimeError, NotImplementedError) as error:
        with pytest.raises(type(error)):  # as without mixed precision: what has no kernel
            evaluated(ag, kind, expression)
        return
    seen, ours = evaluated(ag, kind, expression)
    assert seen == expected
    for a, b in zip(ours, theirs, strict=True):
        scale = max(1.0, float(numpy.abs(b).max()))
        numpy.testing.assert_allclose(a, b, rtol=3e-2, atol=3e-2 * scale)


# The declarations against torch's own lists -------------------------------------------------------

_ELSEWHERE = {
    # torch's parts of ops, backends, and what there is not here.
    *("_convolution", "convolution"),
    *("_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "_scaled_dot_product_flash_attention"),
    *("frobenius_norm", "nuclear_norm", "nll_loss2d", "mkldnn_rnn_layer", "_lu_with_info"),
    *("_addmm_activation", "_native_multi_head_attention", "_grid_sampler_2d_cpu_fallback"),
    *("multilabel_margin_loss_forward", "fake_quantize_per_tensor_affine"),
}
_OTHER_NAMES = {"cross_entropy_loss": "cross_entropy"}


def declared(name: str) -> dict[str, str]:
    """What is said of an op or a composite."""
    name = _OTHER_NAMES.get(name, name)
    if name.endswith("_cell"):
        return dict(vars(getattr(recurrent, name))["casts"])
    if name in cast_bodies:
        return dict(vars(cast_bodies[name])["casts"])
    return dict(ops[name].casts or {}) if name in ops else {}


@pytest.mark.oracle
def test_the_lists_for_cuda_are_those_of_torchs_header() -> None:
    header = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
    text = header.read_text()
    for macro, word in {
        "LOWER_PRECISION_FP": "lower",
        "FP32": "float32",
        "FP32_SET_OPT_DTYPE": "result",
        "PROMOTE": "widest",
    }.items():
        body = re.search(rf"#define AT_FORALL_{macro}\(_\)((?:.*\\\n)*.*\n)", text)
        assert body is not None
        names = set(re.findall(r"_\((\w+)", body[1])) - _ELSEWHERE
        assert len(names) >= 8
        assert {n: declared(n).get("cuda") for n in names} == dict.fromkeys(names, word)
    listed = set(re.findall(r"_\((\w+)", text)) | {"norm", "binary_cross_entropy", "softmax_layer"}
    known = {*cast_bodies, *(name for name, op in ops.items() if op.casts)}
    more = {n for n in known if declared(n).get("cuda") not in (None, "keep")} - listed
    assert more == {"log_softmax_layer", "cross_entropy"}  # made of listed ones


@pytest.mark.oracle
def test_the_lists_for_the_cpu_are_those_of_torchs_dispatcher() -> None:
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU")
    listed = {name.removeprefix("aten::").partition(".")[0] for name in registered} - _ELSEWHERE
    listed = {_OTHER_NAMES.get(name, name) for name in listed}
    known = {*cast_bodies, *(name for name, op in ops.items() if op.casts)}
    ours = {name for name in known if declared(name).get("cpu") not in (None, "keep")}
    assert listed - ours == set()
    # Composites of torch that reach a listed op at once.
    assert ours - listed == {"max_unpool1d"}


def test_a_word_that_is_not_known_is_an_error_at_import() -> None:
    assert casts_of("cpu lower, cuda keep") == {"cpu": "lower", "cuda": "keep"}
    with pytest.raises(TypeError, match="'loower' is not known"):
        casts_of("loower")


# The block ----------------------------------------------------------------------------------------


def product(t: Any) -> str:
    x = t.ones(2, 2)
    return str((x @ x).dtype)


@pytest.mark.oracle
def test_blocks_nest_and_switch_off_as_in_torch() -> None:
    def story(t: Any) -> list[Any]:
        said: list[Any] = [product(t)]
        block = t.autocast("cpu", dtype=t.float16)
        with block:
            said += [product(t), t.is_autocast_enabled("cpu"), t.get_autocast_dtype("cpu")]
            with t.autocast("cpu", enabled=False):
                said += [product(t), t.is_autocast_enabled("cpu")]
                with t.amp.autocast("cpu", t.bfloat16):
                    said.append(product(t))
            said.append(product(t))
        said += [product(t), t.is_autocast_enabled("cpu"), t.get_autocast_dtype("cpu")]
        said.append(t.autocast("cpu")(product)(t))
        t.set_autocast_enabled("cpu", True)
        said.append(product(t))
        t.set_autocast_enabled("cpu", False)
        said += [t.is_autocast_enabled("cuda"), t.get_autocast_dtype("cuda"), product(t)]
        try:
            with t.autocast("cpu"):
                raise KeyError
        except KeyError:
            said.append(product(t))
        return [str(each) for each in said]

    assert story(ag) == story(torch)


def test_it_is_of_one_thread() -> None:
    found = []
    with ag.autocast("cpu"):
        thread = threading.Thread(target=lambda: found.append(product(ag)))
        thread.start()
        thread.join()
        assert product(ag) == "torch.bfloat16"
    assert found == ["torch.float32"]


def outcome(t: Any, call: str) -> tuple[str, str]:
    """The class and the text of what a call raises, or the text that it warns with."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            eval(call, {"t": t})
        except Exception as error:
            # Other tests have a device of their own, which is listed.
            text = str(error).replace("ag_visual.devices.", "torch.").replace(", strict", "")
            return type(error).__name__, text
    return "", "".join(str(each.message) for each in said)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "call",
    [
        "t.autocast('foo')",
        "t.autocast('meta')",
        "t.autocast(t.device('cpu'))",
        "t.autocast('cpu', dtype=t.float32)",
        "t.autocast('cpu')(3)",
        "t.amp.GradScaler('cpu', growth_factor=1.0)",
        "t.amp.custom_fwd(device_type=3)",
    ],
)
def test_what_is_refused_or_warned_of_begins_as_in_torch(call: str) -> None:
    ag.zeros(1, device="meta")  # from now on a device in use, which changes nothing of what is told
    kind, text = outcome(ag, call)
    expected, begin = outcome(torch, call)
    assert kind == expected
    assert begin
    assert text.startswith(begin)


@pytest.mark.parametrize("call", ["t.autocast('cuda')", "t.amp.GradScaler()"])
def test_mixed_precision_without_a_gpu_is_off_and_says_so(call: str) -> None:
    without = outcome(ag, call)
    assert without[0] == ""
    assert ("not available" in without[1]) != ag.cuda.is_available()
    if torch.__version__ and torch.cuda.is_available() == ag.cuda.is_available():
        assert without == outcome(torch, call)


def casts(root: Any) -> int:
    """How many casts are in a graph."""
    nodes, found = [root], set()
    while nodes:
        node = nodes.pop()
        if node is not None and node not in found:
            found.add(node)
            nodes += [following for following, _ in node.next_functions]
    return sum("ToCopy" in node.name() for node in found)


@pytest.mark.oracle
@pytest.mark.parametrize("cached", [True, False])
def test_a_weight_is_cast_once_in_a_block(cached: bool) -> None:
    def count(t: Any) -> int:
        w, x = t.ones(2, 2, requires_grad=True), t.ones(2, 2)
        with t.autocast("cpu", cache_enabled=cached):
            return casts((x @ w @ w @ w).grad_fn)

    assert count(ag) == count(torch) == (1 if cached else 3)


def test_a_cached_cast_is_never_of_another_state() -> None:
    """torch keeps the old copy, and a copy made without a graph: gradients are lost there."""
    w, x = ag.ones(1, 1, requires_grad=True), ag.ones(1, 1)
    with ag.autocast("cpu"):
        with ag.no_grad():
            assert (x @ w).item() == 1
        (x @ w).sum().backward()
        assert w.grad is not None
        with ag.no_grad():
            w.fill_(3.0)
        assert (x @ w).item() == 3
        w.data = ag.full((1, 1), 5.0)
        assert (x @ w).item() == 5


# Beside the rest of autograd ----------------------------------------------------------------------


@pytest.mark.oracle
def test_a_training_loop_in_mixed_precision() -> None:
    def train(t: Any) -> list[float]:
        model = t.nn.Sequential(
            t.nn.Linear(3, 8), t.nn.ReLU(), t.nn.LayerNorm(8), t.nn.Linear(8, 2)
        )
        with t.no_grad():
            for p in model.parameters():
                p.copy_(t.linspace(-1, 1, p.numel()).reshape(p.shape).sin())
        optimizer, scaler = t.optim.SGD(model.parameters(), lr=0.05), t.amp.GradScaler("cpu")
        x, y = t.linspace(-1, 1, 12).reshape(4, 3), t.tensor([0, 1, 1, 0])
        losses = []
        for _ in range(6):
            optimizer.zero_grad()
            with t.autocast("cpu"):
                loss = t.nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            assert all(p.grad.dtype is t.float32 for p in model.parameters())
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        return losses

    numpy.testing.assert_allclose(train(ag), train(torch), rtol=2e-2)


@pytest.mark.oracle
@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_is_recomputed_in_the_same_precision(reentrant: bool) -> None:
    def grads(t: Any) -> list[Any]:
        from importlib import import_module

        again = import_module(f"{t.__name__}.utils.checkpoint").checkpoint
        w, x = t.full((2, 2), 1.003, requires_grad=True), t.full((2, 2), 1.007, requires_grad=True)
        kinds = []

        def part(x: Any) -> Any:
            y = (x @ w).exp()
            kinds.append(str((x @ w).dtype))
            return y @ w

        with t.autocast("cpu"):
            loss = again(part, x, use_reentrant=reentrant).sum()
        loss.backward()
        return [kinds, w.grad.tolist(), x.grad.tolist()]

    ours, theirs = grads(ag), grads(torch)
    assert ours[0] == theirs[0] == ["torch.bfloat16"] * len(ours[0])
    numpy.testing.assert_allclose(ours[1:], theirs[1:], rtol=2e-2)


@pytest.mark.oracle
@pytest.mark.parametrize("cast", [None, "float32"])
def test_custom_functions_know_of_it(cast: str | None) -> None:
    def story(t: Any) -> list[str]:
        said = []

        class Product(t.autograd.Function):
            @staticmethod
            @t.amp.custom_fwd(device_type="cpu", cast_inputs=cast and getattr(t, cast))
            def forward(ctx: Any, a: Any, b: Any) -> Any:
                ctx.save_for_backward(a, b)
                said.extend([str(a.dtype), str((a @ b).dtype)])
                return a @ b

            @staticmethod
            @t.amp.custom_bwd(device_type="cpu")
            def backward(ctx: Any, g: Any) -> Any:
                a, b = ctx.saved_tensors
                said.extend([str(g.dtype), str((g @ b.t()).dtype)])
                return g @ b.t(), a.t() @ g

        x = t.ones(2, 2, requires_grad=True)
        for on in (True, False):
            with t.autocast("cpu", enabled=on):
                y = Product.apply(x.to(t.bfloat16) if on else x, x)
            (g,) = t.autograd.grad(y.float().sum(), x)
            said += [str(y.dtype), str(g.dtype), str(g.tolist())]
        return said

    assert story(ag) == story(torch)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_transforms_of_functions_cast_inside() -> None:
    def story(t: Any) -> list[Any]:
        w, x = t.ones(3, 3) * 1.01, t.linspace(0, 1, 6).reshape(2, 3)

        def f(x: Any) -> Any:
            y = x @ w
            return (y.float() ** 2).sum()

        with t.autocast("cpu"):
            one, each = t.func.grad(f)(x[0]), t.vmap(lambda v: v @ w)(x)
            _, tangent = t.func.jvp(lambda v: (v @ w).exp(), (x[0],), (t.ones(3),))
        found = [one, each, tangent]
        return [[str(v.dtype) for v in found], *[v.float().tolist() for v in found]]

    ours, theirs = story(ag), story(torch)
    assert ours[0] == theirs[0]
    for a, b in zip(ours[1:], theirs[1:], strict=True):
        numpy.testing.assert_allclose(a, b, rtol=2e-2)


@pytest.mark.oracle
def test_recurrent_layers() -> None:
    def story(t: Any, kind: str) -> list[str]:
        layer = getattr(t.nn, kind)(3, 4)
        with t.autocast("cpu"):
            out, last = layer(t.ones(5, 2, 3).to(t.bfloat16))
        out.float().sum().backward()
        h = last[0] if isinstance(last, tuple) else last
        return [str(x.dtype) for x in (out, h, layer.weight_hh_l0.grad)]

    for kind in ("LSTM", "GRU", "RNN"):
        assert story(ag, kind) == story(torch, kind), kind


def test_a_result_that_is_given_a_place_is_not_cast() -> None:
    x, out = ag.ones(2, 2), ag.zeros(2, 2)
    with ag.autocast("cpu"):
        assert ag.mm(x, x, out=out).dtype is ag.float32
    assert out.tolist() == [[2.0, 2.0], [2.0, 2.0]]


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:.*CUDA is not available:UserWarning")
def test_older_names_warn_and_do_the_same() -> None:
    from importlib import import_module

    def story(t: Any) -> list[Any]:
        cuda, cpu = (import_module(f"{t.__name__}.{kind}.amp") for kind in ("cuda", "cpu"))
        said = []
        for call in (
            lambda: cpu.autocast()(product)(t),
            lambda: cuda.autocast(enabled=False)(product)(t),
            lambda: cpu.GradScaler().get_scale(),
            lambda: cuda.GradScaler(enabled=False).get_scale(),
            lambda: cuda.custom_bwd(product).__name__,
            lambda: isinstance(cpu.autocast(), t.autocast),
        ):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                said.append(call())
            said += [(str(w.message), w.category.__name__) for w in caught]
        return said

    assert story(ag) == story(torch)


FOR_CUDA = """
h.softmax(1): float32
t.nn.functional.softmax(h, dim=1): float32
h.softmax(1, dtype=t.float64): float64
h.sum(): float32
h.sum(1, True): float32
h.sum(dtype=t.float64): float64
h.cumsum(0): float32
h.prod(): float32
h.norm(): float32
t.linalg.vector_norm(h): float32
t.linalg.matrix_norm(h): float32
h.double().sum(): float64
h.long().sum(): int64
h.exp(): float32
h ** 2: float32
2 ** h: float32
h.pow(h): float32
1 / h: float32
h.double().exp(): float64
t.nn.functional.layer_norm(h, (2,)): float32
t.nn.functional.gelu(h): float16
h.mean(): float16
h.addcmul(h, h): float16
h.addcmul(h, s): float32
t.atan2(s, h): float32
h.index_put((t.tensor([0]),), s[:1]): float32
t.tensordot(h, s, 1): float32
t.nn.functional.bilinear(s, h, s[None]): float32
s @ s: float16
t.einsum("ij,jk->ik", s, s): float16
t.nn.functional.mse_loss(h, h): float32
t.nn.functional.cross_entropy(h, t.tensor([0, 1])): float32
t.nn.functional.pairwise_distance(h, h): float32
t.nn.functional.normalize(h): float32
t.nn.functional.local_response_norm(h[None], 2): float32
t.nn.functional.lp_pool1d(h, 2.0, 2): float32
t.nn.functional.gaussian_nll_loss(h, h, h): float32
h.square(): float32
h.std(): float16
t.cat([h, s]): float32
t.lstm_cell(s, (s, s), s.repeat(4, 1), s.repeat(4, 1))[1]: float16
t.nn.GRUCell(2, 2)(s): float16
"""


def test_the_words_for_cuda_do_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the CPU were a CUDA device, which the tests cannot count on."""
    cells = [getattr(recurrent, f"{kind}_cell") for kind in ("lstm", "gru")]
    tables = [op.casts for op in ops.values() if op.casts]
    tables += [vars(body)["casts"] for body in (*cast_bodies.values(), *cells)]
    for table in tables:
        said = table.get("cuda")
        monkeypatch.setitem(table, "cpu", said) if said else monkeypatch.delitem(table, "cpu")
    s = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    for line in FOR_CUDA.strip().splitlines():
        expression, _, dtype = line.rpartition(": ")
        scope = {"t": ag, "s": s, "h": s.half()}
        with ag.autocast("cpu", dtype=ag.float16):
            found = eval(expression, scope)
        assert str(found.dtype) == f"torch.{dtype}", expression
        if found.requires_grad:
            found.sum().backward()
    with ag.autocast("cpu", dtype=ag.float16):
        with pytest.raises(RuntimeError, match="are unsafe to autocast"):
            ag.nn.functional.binary_cross_entropy(s.sigmoid(), s.sigmoid())
        with pytest.raises(RuntimeError, match="Unexpected floating ScalarType"):
            s.half().addcmul(s.bfloat16(), s.half())
