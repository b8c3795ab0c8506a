"""Module itself against torch's: registration, walking, hooks, state dicts, texts."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections import OrderedDict
from typing import Any

import pytest

import ag_visual as ag
from tests.programs import agree, plain, raised


def _net(t: Any) -> Any:
    class Net(t.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first = t.nn.Linear(2, 3)
            self.blocks = t.nn.ModuleList([t.nn.Linear(3, 3), t.nn.Linear(3, 3), t.nn.ReLU()])
            self.norm = t.nn.BatchNorm1d(3)
            self.shared = self.first
            self.scale = t.nn.Parameter(t.ones(3))
            self.register_buffer("steps", t.zeros(1))
            self.register_buffer("scratch", t.zeros(1), persistent=False)
            self.register_parameter("absent", None)
            self.plain = 3

        def forward(self, x: Any, factor: float = 1.0) -> Any:
            x = self.first(x)
            for block in self.blocks:
                x = block(x)
            return self.norm(x) * self.scale * factor

    net = Net().double()
    with t.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(t.arange(p.numel(), dtype=t.float64).reshape(p.shape).sin() + i / 7)
    return net


def _x(t: Any) -> Any:
    return t.arange(8.0, dtype=t.float64).reshape(4, 2).cos().requires_grad_()


def test_members() -> None:
    def program(t: Any) -> Any:
        net = _net(t)
        return [
            [n for n, _ in net.named_parameters()],
            [n for n, _ in net.named_parameters("top", recurse=False)],
            [n for n, _ in net.named_parameters(remove_duplicate=False)],
            [n for n, _ in net.named_buffers()],
            [n for n, _ in net.named_children()],
            [n for n, _ in net.named_modules()],
            [n for n, _ in net.named_modules(prefix="p", remove_duplicate=False)],
            len(list(net.modules())),
            list(net.state_dict()),
            list(net.state_dict(prefix="net.")),
            net.absent,
            repr(net),
            [n for n in dir(net) if n in ("first", "scale", "steps", "plain")],
            net.get_submodule("blocks.1") is net.blocks[1],
            net.get_parameter("blocks.0.bias") is net.blocks[0].bias,
            t.nn.Sequential(net).get_parameter("0.scale") is net.scale,
            t.nn.ModuleList([net]).get_buffer("0.norm.running_mean") is net.norm.running_mean,
            net.get_buffer("norm.running_mean") is net.norm.running_mean,
            net.state_dict(keep_vars=True)["scale"] is net.scale,
        ]

    agree(program)


def test_values_and_gradients_of_the_whole() -> None:
    def program(t: Any) -> Any:
        net, x = _net(t), _x(t)
        y = net(x, factor=2.0)
        y.square().sum().backward()
        return [y.detach(), x.grad, *[p.grad for p in net.parameters()]]

    agree(program)


@pytest.mark.parametrize(
    "act",
    [
        lambda t, m: m.register_buffer(3, None),
        lambda t, m: m.register_buffer("a.b", None),
        lambda t, m: m.register_buffer("", None),
        lambda t, m: m.register_buffer("first", None),
        lambda t, m: m.register_parameter("plain", None),
        lambda t, m: m.register_parameter("p", t.ones(1) * t.ones(1, requires_grad=True)),
        lambda t, m: m.add_module("a.b", t.nn.ReLU()),
        lambda t, m: m.add_module("scale", t.nn.ReLU()),
        lambda t, m: setattr(m, "scale", t.ones(3)),
        lambda t, m: setattr(m, "first", 3),
        lambda t, m: setattr(m, "steps", 3),
        lambda t, m: m.train(1),
        lambda t, m: m.get_submodule("blocks.7"),
        lambda t, m: m.get_submodule("plain"),
        lambda t, m: m.get_parameter("norm.running_mean"),
        lambda t, m: m.get_buffer("nowhere"),
        lambda t, m: m.nowhere,
        lambda t, m: m.to(t.int64),
        lambda t, m: t.nn.Module()(3),
        lambda t, m: m.load_state_dict(3),
        lambda t, m: m.load_state_dict({**m.state_dict(), "odd": t.ones(1), "x.y": t.ones(1)}),
        lambda t, m: m.load_state_dict({"scale": t.ones(4), "steps": t.zeros(1)}),
        lambda t, m: m.load_state_dict({**m.state_dict(), "scale": 3}),
    ],
)
def test_errors(act: Any) -> None:
    """The same kind of error, and the same text where names of classes are not in it."""

    def program(t: Any) -> Any:
        kind, text = raised(lambda: act(t, _net(t)))
        return [kind, text.replace("ag_visual", "torch").replace(", got: a.b", "")]

    agree(program)


def test_assignment_before_init() -> None:
    def program(t: Any) -> Any:
        class Early(t.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self, value: Any) -> None:
                self.value = value

        texts = [raised(lambda v=v: Early(v)) for v in (t.nn.ReLU(), t.nn.Parameter(t.ones(1)))]
        return [[kind, text[:45]] for kind, text in texts]

    agree(program, ...)


def test_reassignment_and_deletion() -> None:
    def program(t: Any) -> Any:
        m = t.nn.Module()
        m.a = t.nn.Parameter(t.ones(1))
        m.a = None
        m.b = t.ones(1)
        m.b = t.nn.Parameter(t.ones(2))
        m.c = t.nn.ReLU()
        m.c = t.nn.Tanh()
        m.d = t.nn.Buffer(t.ones(3))
        m.e = t.nn.Buffer(t.ones(3), persistent=False)
        seen = [list(m._parameters), list(m._modules), list(m._buffers), list(m.state_dict())]
        m.d = t.zeros(3)
        m.c = None
        del m.b, m.e
        return [*seen, list(m.state_dict()), m.d, m.c, hasattr(m, "b"), list(m._buffers)]

    agree(program)


# Switches and moves --------------------------------------------------------------------------


def test_training_gradients_and_dtypes() -> None:
    def program(t: Any) -> Any:
        net, x = _net(t), _x(t)
        seen = [net.eval() is net, net.training, net.norm.training, net.train().norm.training]
        net(x).sum().backward()
        net.zero_grad(set_to_none=False)
        seen += [p.grad for p in net.parameters()]
        net.zero_grad()
        seen += [p.grad for p in net.parameters()]
        scale = net.scale
        for move in ("half", "bfloat16", "float", "double"):
            getattr(net, move)()
            seen += [str(net.scale.dtype)[-8:], str(net.norm.num_batches_tracked.dtype)[-5:]]
        net.to(t.float32).to("cpu", t.float64)
        seen += [net.scale is scale, net.scale.requires_grad, str(net.steps.dtype)[-7:]]
        net.requires_grad_(False)
        seen += [any(p.requires_grad for p in net.parameters())]
        names: list[str] = []
        net.apply(lambda m: names.append(type(m).__name__))
        return [*seen, names]

    agree(program)


# Hooks ---------------------------------------------------------------------------------------


def test_forward_hooks() -> None:
    def program(t: Any) -> Any:
        m, seen = t.nn.Linear(2, 2), []
        with t.no_grad():
            m.weight.fill_(1)
            m.bias.zero_()

        def note(name: str, answer: Any = None) -> Any:
            return lambda *args: seen.append([name, len(args)]) or answer

        x = t.ones(1, 2)
        m.register_forward_pre_hook(note("pre"))
        m.register_forward_pre_hook(lambda m, args: args[0] * 2)
        m.register_forward_pre_hook(note("pre first"), prepend=True)
        m.register_forward_pre_hook(
            lambda m, args, kwargs: ((args[0] + kwargs["input2"],), {}), with_kwargs=True
        )
        m.register_forward_hook(note("post"))
        m.register_forward_hook(lambda m, args, out: out * 10)
        last = m.register_forward_hook(note("post kwargs"), with_kwargs=True)
        m.register_forward_hook(note("post first"), prepend=True)
        y = m(x, input2=1.0)
        last.remove()
        again = m(x, input2=0.0)
        return [seen, y.detach(), again.detach()]

    agree(program)


def test_the_tables_hold_the_hooks_themselves() -> None:
    """Programs look for their hooks in them, call them, and take them out."""

    def program(t: Any) -> Any:
        class Named:
            def __init__(self, names: list[str]) -> None:
                self.names = names

            def __iter__(self) -> Any:
                return iter(self.names)

            def __call__(self, *args: Any) -> None:
                self.names.append(str(len(args)))

        m = t.nn.Linear(1, 1)
        hooks = [Named([name]) for name in "abcd"]
        m.register_forward_pre_hook(hooks[0])
        handle = m.register_forward_pre_hook(hooks[1], with_kwargs=True)
        m.register_forward_hook(hooks[2])
        m.register_forward_hook(hooks[3], with_kwargs=True, always_call=True)
        tables = [m._forward_pre_hooks, m._forward_hooks]
        seen = [[h in hooks for h in table.values()] for table in tables]
        m(t.ones(1, 1))
        marks = [len(m._forward_pre_hooks_with_kwargs), len(m._forward_hooks_always_called)]
        handle.remove()
        marks.append(len(m._forward_pre_hooks_with_kwargs))
        other = copy.deepcopy(m)
        other(t.ones(1, 1))
        for key, hook in list(m._forward_hooks.items()):
            hook(m, None, None)
            del m._forward_hooks[key]
        m(t.ones(1, 1))
        inner = [
            list(h)
            for hooks_of in (other._forward_hooks, other._forward_pre_hooks)
            for h in hooks_of.values()
        ]
        return [seen, marks, [list(h) for h in hooks], inner]

    agree(program)


def test_hooks_that_are_always_called() -> None:
    def program(t: Any) -> Any:
        class Failing(t.nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, x: Any) -> Any:
                raise ValueError("no")

        m, seen = Failing(), []
        m.register_forward_hook(lambda *args: seen.append("never"))
        m.register_forward_hook(lambda m, a, out: seen.append(out), always_call=True)
        return [raised(lambda: m(1)), seen, raised(lambda: m.register_forward_pre_hook(3))[0]]

    expected = [["ValueError", "no"], [None], "TypeError"]
    assert plain(program(ag)) == expected


def test_pre_hook_answers_are_checked() -> None:
    def program(t: Any) -> Any:
        m = t.nn.Identity()
        m.register_forward_pre_hook(lambda m, a, k: 3, with_kwargs=True)
        return raised(lambda: m(1))

    agree(program)


def test_backward_hooks() -> None:
    def program(t: Any) -> Any:
        m, seen = t.nn.Bilinear(2, 3, 2).double(), []
        with t.no_grad():
            for i, p in enumerate(m.parameters()):
                p.copy_(t.arange(p.numel(), dtype=t.float64).reshape(p.shape).sin() + i)
        x = t.ones(4, 2, dtype=t.float64, requires_grad=True)
        y = t.ones(4, 3, dtype=t.float64)
        m.register_full_backward_pre_hook(lambda m, g: (g[0] * 2,))
        # What requires no gradient has none here, where torch has zeros.
        m.register_full_backward_hook(lambda m, gi, go: seen.extend([gi[0], len(gi), go[0]]))
        m.register_full_backward_hook(lambda m, gi, go: (gi[0] * 100, gi[1]))
        m(x, y).sum().backward()
        return [seen, x.grad, *[p.grad for p in m.parameters()]]

    agree(program)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_backward_hooks_with_several_outputs_and_no_gradient_of_inputs() -> None:
    def program(t: Any) -> Any:
        class Two(t.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.w = t.nn.Parameter(t.full((2,), 3.0))

            def forward(self, x: Any, name: str) -> Any:
                return x * self.w, name, x + self.w

        m, seen = Two(), []
        m.register_full_backward_hook(lambda m, gi, go: seen.append([list(gi), list(go)]))
        a, _, b = m(t.ones(2), "name")
        (a * 2 + b).sum().backward()
        return [seen, m.w.grad]

    agree(program)


@pytest.mark.parametrize("answer", [(1, 2), (None, None, None)])
def test_backward_hooks_must_answer_for_each(answer: Any) -> None:
    def program(t: Any) -> Any:
        m = t.nn.ReLU()
        m.register_full_backward_hook(lambda m, gi, go: answer)
        x = t.ones(2, requires_grad=True)
        return raised(lambda: m(x).sum().backward())

    agree(program)


# State dicts ---------------------------------------------------------------------------------


def test_nothing_is_changed_when_something_is_wrong() -> None:
    net = _net(ag)
    before = {k: v.tolist() for k, v in net.state_dict().items()}
    bad = {k: v + 1 for k, v in net.state_dict().items()}
    bad["scale"] = ag.ones(7)
    with pytest.raises(RuntimeError, match="size mismatch for scale"):
        net.load_state_dict(bad)
    assert {k: v.tolist() for k, v in net.state_dict().items()} == before


def test_not_strict_and_assigned() -> None:
    def program(t: Any) -> Any:
        net = _net(t)
        state = {"scale": t.full((3,), 5.0), "odd": t.ones(1)}
        found = net.load_state_dict(state, strict=False)
        seen = [sorted(found.missing_keys), found.unexpected_keys, net.scale.detach()]
        scale = net.scale
        other = {k: v + 1 for k, v in net.state_dict().items()}
        text = repr(net.load_state_dict(other, assign=True))
        seen += [text, net.scale is scale, type(net.scale).__name__, net.scale.requires_grad]
        return [*seen, net.norm.running_mean is other["norm.running_mean"]]

    agree(program)


def test_hooks_of_state_dicts_and_extra_state() -> None:
    def program(t: Any) -> Any:
        class Counted(t.nn.Linear):  # type: ignore[misc, name-defined]
            count = 7

            def get_extra_state(self) -> Any:
                return {"count": self.count}

            def set_extra_state(self, state: Any) -> None:
                self.count = state["count"]

        seen: list[Any] = []
        m = t.nn.Sequential(Counted(1, 1))
        m.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append([prefix, keep]))
        m[0].register_state_dict_post_hook(lambda m, d, prefix, meta: d.update(more=prefix))
        state = m.state_dict()
        m[0].register_load_state_dict_pre_hook(
            lambda m, d, prefix, *rest: seen.append([type(m).__name__, prefix, d.pop("more", 0)])
        )
        m.register_load_state_dict_post_hook(lambda m, keys: keys.unexpected_keys.clear())
        m[0].count = 8
        m.load_state_dict(state)
        return [list(state), seen, m[0].count, state._metadata["0"]]

    agree(program)


def test_copies_are_apart_and_pickles_keep_hooks() -> None:
    net = ag.nn.Sequential(ag.nn.Linear(2, 2), ag.nn.Tanh())
    net.register_forward_hook(_double)
    x = ag.ones(1, 2)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other(x).tolist() == net(x).tolist()
        other[0].weight.detach().zero_()
        assert other(x).tolist() != net(x).tolist()


def _double(module: Any, args: Any, output: Any) -> Any:
    return output * 2


# Containers ----------------------------------------------------------------------------------


def test_sequential_and_lists() -> None:
    def program(t: Any) -> Any:
        nn = t.nn
        s = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1))
        named = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
        seen = [repr(s[1:]), repr(named[:1]), repr(s + named), repr(2 * named), len(s)]
        s[1] = nn.Tanh()
        s.insert(1, nn.ReLU6())
        s.append(nn.Identity())
        seen += [repr(s), repr(s.pop(0)), repr(s)]
        del s[-1]
        s.extend([nn.GELU()])
        seen += [repr(s), repr(s[-1]), raised(lambda: s[9]), raised(lambda: named + 3)[0]]
        items = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
        items += [nn.ReLU(), nn.ReLU(), nn.Linear(2, 2)]
        seen += [repr(items), repr(nn.ModuleList()), repr(items[1:3])]
        items.insert(1, nn.Tanh())
        del items[2:4]
        return [*seen, repr(items), list(items.state_dict()), raised(lambda: items(1))[0]]

    agree(program)


def test_dictionaries() -> None:
    def program(t: Any) -> Any:
        d = t.nn.ModuleDict({"a": t.nn.ReLU(), "b": t.nn.Tanh()})
        d["c"] = t.nn.Sequential(t.nn.Linear(1, 1))
        d.update([["e", t.nn.GELU()]])
        seen = [list(d), "a" in d, len(d), repr(d.pop("a")), repr(d), list(d.keys())]
        del d["b"]
        seen += [[k for k, _ in d.items()], raised(lambda: d.update(3))[0]]
        d.clear()
        return [*seen, repr(d)]

    agree(program)


def test_lists_and_dictionaries_of_parameters() -> None:
    def program(t: Any) -> Any:
        p = t.nn.ParameterList([t.ones(2), t.nn.Parameter(t.zeros(1, 3)), "text"])
        p.append(t.ones(1))
        p += [3]
        seen = [repr(p), list(p.state_dict()), len(p), p[-1], type(p[0]).__name__]
        p[0] = t.zeros(2)
        seen += [p[1].detach(), repr(p), p[0].detach(), repr(p[1:])]
        d = t.nn.ParameterDict({"b": t.ones(2), "a": t.zeros(1)})
        d["c"] = t.ones(1)
        seen += [repr(d), sorted(d.state_dict()), list(d), d.pop("b").detach(), "b" in d]
        other = d | {"z": t.ones(1)}
        seen += [list(other), d.get("q", 5), other.popitem()[0], list(reversed(d))]
        return [*seen, raised(lambda: d(1)), raised(lambda: d[3])[0]]

    agree(program)


def test_gradients_reach_every_entry() -> None:
    w = ag.nn.ParameterList([ag.ones(2), ag.ones(2)])
    (w[0] * w[1] * 3).sum().backward()
    assert w[0].grad.tolist() == w[1].grad.tolist() == [3.0, 3.0]


def test_a_module_goes_with_its_last_name() -> None:
    """No reference cycle keeps modules, parameters or optimizers for the garbage collector."""
    net = ag.nn.Sequential(ag.nn.Linear(2, 2), ag.nn.BatchNorm1d(2), ag.nn.ModuleList([]))
    optimizer = ag.optim.Adam(net.parameters())
    net[0].register_full_backward_hook(lambda *args: None)
    net[:2](ag.ones(3, 2).requires_grad_()).sum().backward()
    optimizer.step()
    left = [weakref.ref(x) for x in (net, net[0], net[0].weight, optimizer)]
    gc.disable()
    try:
        del net, optimizer
        assert [ref() for ref in left] == [None] * 4
    finally:
        gc.enable()


def test_batches_are_not_counted_while_statistics_are_not_tracked() -> None:
    def program(t: Any) -> Any:
        norm = t.nn.BatchNorm2d(3)
        norm.track_running_stats = False
        norm(t.ones(4, 3, 2, 2))
        return [norm.num_batches_tracked, norm.running_mean]

    agree(program)


def test_a_buffer_takes_no_plain_attributes_place() -> None:
    def program(t: Any) -> Any:
        module = t.nn.Module()
        module.a, module.b, module.c = 1, t.nn.Parameter(t.ones(2)), t.nn.Linear(1, 1)
        said = [
            raised(lambda name=name: setattr(module, name, t.nn.Buffer(t.ones(2))))[0]
            for name in "abcd"
        ]
        members = [dict(module.named_parameters()), dict(module.named_buffers())]
        return [said, module.a, [sorted(each) for each in members]]

    agree(program)


def test_a_register_buffer_from_before_persistent_is_called_as_it_was() -> None:
    def program(t: Any) -> Any:
        class Old(t.nn.Module):
            def register_buffer(self, name: str, tensor: Any) -> None:
                super().register_buffer(name, tensor)

        old = Old()
        old.kept = t.nn.Buffer(t.ones(2))
        said = raised(lambda: setattr(old, "lost", t.nn.Buffer(t.ones(2), persistent=False)))
        return [sorted(old.state_dict()), said]

    agree(program)


def test_call_super_init_passes_arguments_on() -> None:
    def program(t: Any) -> Any:
        class Mixin:
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                self.given = [list(args), kwargs]

        class Passing(t.nn.Module, Mixin):
            call_super_init = True

            def __init__(self) -> None:
                super().__init__(5, b=4)

        class Plain(t.nn.Module, Mixin):
            pass

        return [Passing().given, hasattr(Plain(), "given"), raised(lambda: Plain(5))[0]]

    agree(program)


@pytest.mark.parametrize(
    "call",
    [
        lambda nn, x: nn.MultiheadAttention(8, 2)(x(3, 0, 8), x(3, 0, 8), x(3, 0, 8)),
        lambda nn, x: nn.TransformerEncoderLayer(8, 2, 16)(x(0, 3, 8)),
        lambda nn, x: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()(x(0, 3, 8)),
        lambda nn, x: nn.TransformerDecoderLayer(8, 2, 16)(x(3, 0, 8), x(4, 0, 8)),
        lambda nn, x: nn.LSTM(8, 2)(x(3, 0, 8)),
        lambda nn, x: nn.GRU(8, 2, batch_first=True)(x(0, 3, 8)),
    ],
)
def test_layers_of_sequences_take_empty_batches(call: Any) -> None:
    def program(t: Any) -> Any:
        x = t.zeros(1, requires_grad=True)
        found = call(t.nn, lambda *shape: x.expand(1, 1, 1).expand(*shape))
        outputs = found if isinstance(found, tuple) else (found,)
        outputs[0].sum().backward()
        return [tuple(out.shape) for out in outputs if not isinstance(out, tuple)]

    agree(program)


def test_weights_of_recurrent_layers_in_one_list() -> None:
    def program(t: Any) -> Any:
        layer = t.nn.LSTM(2, 3, proj_size=1, bidirectional=True)
        layer.weight_ih_l0 = t.nn.Parameter(t.ones(12, 2))
        return [[tuple(w.shape) for w in layer._flat_weights], layer._flat_weights[0][0]]

    agree(program)


def test_a_deep_copy_of_a_parameter_has_its_values_alone() -> None:
    def program(t: Any) -> Any:
        p = t.nn.Parameter(t.ones(2))
        p.grad, p.told = t.ones(2), 1
        q, again = copy.deepcopy([p, p])
        return [
            q.grad,
            hasattr(q, "told"),
            q is again,
            q.detach(),
            q.requires_grad,
            type(q).__name__,
        ]

    agree(program)
