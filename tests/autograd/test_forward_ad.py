"""forward_ad as torch's: levels, dual tensors, what has a tangent, views and writes, gradients."""

from __future__ import annotations

import copy
import gc
import math
import threading
import weakref
from typing import Any

import pytest

import ag_visual
from ag_visual.core import modes
from ag_visual.core.dual import ForwardLevel, blank_like

from ..programs import agree, expect, raised
from .forward import dual, said, unpacked


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    before = modes.special
    yield
    assert (modes.special, modes.duals) == (before, 0)
    assert not any(type(o) is ForwardLevel and o.open for o in gc.get_objects())


# Levels -----------------------------------------------------------------------------------------


def test_a_level_has_the_number_zero_and_does_not_nest() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        with fw.dual_level() as number:
            nested = [said(fw.enter_dual_level), said(lambda: fw.exit_dual_level(level=3))]
        fw.enter_dual_level()
        fw.exit_dual_level(level=0)
        closed = [said(fw.exit_dual_level), said(lambda: fw.exit_dual_level(level=0))]
        return [number, nested, closed, fw._current_level]

    agree(program)


def test_a_level_ends_where_an_exception_leaves_it() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        kept = []

        def failing() -> None:
            with fw.dual_level():
                kept.append(dual(t, [1.0]))
                raise ZeroDivisionError

        failed = said(failing)
        with fw.dual_level():
            return [failed, unpacked(t, kept[0]), unpacked(t, dual(t, [1.0]) * kept[0])]

    agree(program)


def test_a_level_decorates_functions_and_generators() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad

        @fw.dual_level()
        def square(x: Any) -> Any:
            return unpacked(t, fw.make_dual(x, x) ** 2)

        @fw.dual_level()
        def steps(x: Any) -> Any:
            yield unpacked(t, fw.make_dual(x, x) ** 2)
            yield fw._current_level

        x = t.tensor([3.0])
        return [square(x), square(x), square.__name__, list(steps(x)), fw._current_level]

    agree(program)


def test_leaving_a_level_takes_the_tangents_away() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        with fw.dual_level():
            x = dual(t, [1.0, 2.0])
            y, v = x * 2, x[0]
        after = fw.unpack_dual(y)
        with fw.dual_level():
            again = fw.make_dual(x, t.ones(2))
            return [
                after.primal is y,
                after.tangent,
                *[unpacked(t, each) for each in (x, y, v, x * 2, again)],
            ]

    agree(program)


def test_a_closed_level_keeps_nothing_alive() -> None:
    forward = ag_visual.autograd.forward_ad
    with forward.dual_level():
        x = ag_visual.ones(3)
        tangent = ag_visual.ones(3)
        ref = weakref.ref(tangent)
        kept = forward.make_dual(x, tangent) * 2
        del tangent
    assert kept.tolist() == [2.0, 2.0, 2.0]
    assert ref() is None


def test_another_thread_sees_the_level_and_tangents() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        seen: list[Any] = []

        def elsewhere() -> None:
            seen.extend([unpacked(t, x * 2), unpacked(t, dual(t, [5.0]) + 1)])
            seen.append(fw._is_fwd_grad_enabled())

        with fw.dual_level():
            x = dual(t, [1.0])
            with fw._set_fwd_grad_enabled(False):
                thread = threading.Thread(target=elsewhere)
                thread.start()
                thread.join()
        return seen

    agree(program)


def test_forward_mode_can_be_switched_off() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        seen = [fw._is_fwd_grad_enabled()]
        with fw.dual_level():
            x = dual(t, 1.0, 2.0)
            with fw._set_fwd_grad_enabled(False) as nothing:
                y, v, c = x * 2, x.view(1), x.clone()
                z = dual(t, 1.0, 3.0)
                seen += [nothing, fw._is_fwd_grad_enabled(), unpacked(t, x)]
            seen += [unpacked(t, each) for each in (x, y, v, c, z, z * 2)]
        setting = fw._set_fwd_grad_enabled(False)
        seen.append(fw._is_fwd_grad_enabled())
        with setting:
            pass
        return [*seen, fw._is_fwd_grad_enabled()]

    agree(program)


# Making and unpacking ---------------------------------------------------------------------------


def test_a_dual_is_a_view_that_keeps_the_tangent_it_was_given() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        x, tangent = t.ones(2, requires_grad=True), t.ones(2)
        with fw.dual_level():
            d = fw.make_dual(x, tangent)
            u = fw.unpack_dual(d)
            return [
                [d.requires_grad, d.is_leaf, d._is_view(), d._base is x, type(d).__name__],
                [u.tangent is tangent, u.primal._base is x, u.primal.requires_grad],
                [type(u).__name__, u._fields, unpacked(t, x), unpacked(t, u.primal)],
                type(fw.make_dual(t.nn.Parameter(t.ones(1)), t.ones(1))).__name__,
            ]

    agree(program)


def test_a_tangent_of_another_layout_is_copied() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        leaf = t.arange(6.0, requires_grad=True).reshape(3, 2).t()
        pairs = [
            (t.ones(2, 3), t.arange(6.0).reshape(3, 2).t()),
            (t.ones(3, 2).t(), t.arange(6.0).reshape(2, 3)),
            (t.ones(3, 2)[:, 0], t.ones(3)),
            (t.ones(3), t.ones(1).expand(3)),
            (t.ones(1).expand(3), t.ones(1).expand(3)),
            (t.ones(4)[1:3], t.ones(2)),
            (t.ones(4)[1:3], t.ones(4)[1:3]),
            (t.ones(2), t.ones(4)[2:]),
            (t.ones(0), t.ones(0)),
            (t.ones(1, 3), t.ones(3, 1).t()),
            (t.ones(2, 3), leaf),
        ]
        with fw.dual_level():
            found = [(fw.unpack_dual(fw.make_dual(x, m)).tangent, m) for x, m in pairs]
            return [[u is m, u.stride(), u.tolist(), u.requires_grad] for u, m in found]

    agree(program)


def test_what_cannot_be_dual() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        one, whole = t.tensor(1.0), t.tensor(1)
        without = [said(lambda: fw.make_dual(one, one)), fw.unpack_dual(3.0).primal]
        with fw.dual_level():
            d = dual(t, 1.0)
            calls = [
                lambda: fw.make_dual(whole, one),
                lambda: fw.make_dual(one, whole),
                lambda: fw.make_dual(one, t.ones(2)),
                lambda: fw.make_dual(1.0, one),
                lambda: fw.make_dual(one, 1.0),
                lambda: fw.make_dual(d, one),
                lambda: fw.make_dual(one, d),
                lambda: fw.make_dual(one, one, level=5),
                lambda: fw.make_dual(one, one, level=-1),
                lambda: fw.unpack_dual(3.0),
            ]
            levels = [fw.unpack_dual(d, level=n).tangent is None for n in (0, -1)]
            calls.append(lambda: fw.unpack_dual(d, level=5))
            return [without, [said(call) for call in calls], levels]

    agree(program)


def test_repr_shows_the_tangent() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        with fw.dual_level():
            d = dual(t, [1.0, 2.0])
            w = t.nn.Parameter(t.ones(2))
            with t.no_grad():
                w.mul_(d)
            shown = [d, d.double(), dual(t, 1.0, 2.0, requires_grad=True), w]
            shown += [dual(t, [[1.0, 2.0], [3.0, 4.0]]), fw.unpack_dual(d), d.detach()]
            return [repr(each) for each in shown]

    agree(program)


# What has a tangent -----------------------------------------------------------------------------


def test_what_hands_a_tangent_on() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        with fw.dual_level():
            d = dual(t, [1.0, 2.0])
            found = [
                d.clone(),
                d.view(2),
                d.contiguous(),
                d.double(),
                d.half(),
                d.to(t.complex64),
                d.requires_grad_(),
                d.cpu(),
                *d,
                t.stack([d, t.ones(2)]),
                d.detach(),
                d.data,
                copy.copy(d),
                copy.deepcopy(d.detach()),
                d.argmax(),
                d.long().float(),
                d > 1,
                t.zeros_like(d),
                t.ones(2).copy_(d),
                t.ones(2, dtype=t.int64).copy_(d),
            ]
            return [unpacked(t, each) for each in found]

    agree(program)


def test_numbers_of_a_dual_are_numbers() -> None:
    def program(t: Any) -> Any:
        with t.autograd.forward_ad.dual_level():
            d = dual(t, [1.0, 2.0])
            return [d.tolist(), d.sum().item(), float(d[0]), bool((d > 1).any()), d.numpy().sum()]

    agree(program)


def test_no_grad_leaves_tangents_alone() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)
        fw = t.autograd.forward_ad
        with fw.dual_level(), t.no_grad():
            d = fw.make_dual(x, t.ones(2))
            found = [d, d * 3, d[0], d.clone()]
            return [[unpacked(t, each), each.requires_grad] for each in found]

    agree(program)


def test_inference_mode_knows_no_tangents() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        with fw.dual_level():
            d = dual(t, [1.0, 2.0])
            with t.inference_mode():
                made = [d * 3, d[0], d.clone(), fw.make_dual(t.ones(2), t.ones(2))]
                inside = [unpacked(t, each) for each in (d, *made)] + [repr(d)]
                d.mul_(3)
            return [inside, [unpacked(t, each) for each in (d, *made, made[0] * d)]]

    agree(program)


def test_a_tangent_of_another_dtype_stays() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        with fw.dual_level():
            wide = fw.make_dual(t.tensor([1.0]), t.tensor([2.0], dtype=t.float64))
            turned = fw.make_dual(t.tensor([1.0]), t.tensor([2.0 + 1j]))
            z = t.zeros(1)
            z.add_(dual(t, [1.0], dtype=t.float64))
            return [unpacked(t, x) for x in (wide, wide * 2, wide.exp(), turned, turned * 2, z)]

    agree(program)


def test_out_and_resize_are_refused() -> None:
    def program(t: Any) -> Any:
        with t.autograd.forward_ad.dual_level():
            d = dual(t, [1.0, 2.0, 3.0])
            return [
                said(lambda: t.add(d, 1, out=t.zeros(3))),
                said(lambda: t.sin(t.ones(3), out=d)),
                said(lambda: t.cat([d, d], out=t.zeros(6))),
                said(lambda: t.max(d, 0, out=(t.zeros(()), t.zeros((), dtype=t.int64)))),
                said(lambda: d.resize_(1)),
                said(lambda: d.set_(t.zeros(3))),
            ]

    agree(program)


@pytest.mark.parametrize(
    "call",
    [
        lambda t, d: t.cdist(d, d),
        lambda t, d: t.nn.functional.pdist(d),
        lambda t, d: t.nn.functional.grid_sample(
            d.reshape(1, 1, 2, 3), t.zeros(1, 2, 2, 2), align_corners=False
        ),
        lambda t, d: t.nn.functional.ctc_loss(
            d[:, None, :].log_softmax(-1), t.tensor([[1]]), t.tensor([2]), t.tensor([1])
        ),
        lambda t, d: t.nn.functional.embedding_bag(t.tensor([[0, 1]]), d),
        lambda t, d: t.nn.functional.multi_margin_loss(d, t.tensor([0, 1])),
        lambda t, d: t.nn.functional.scaled_dot_product_attention(*[d.reshape(1, 1, 2, 3)] * 3),
        lambda t, d: d // 2,
        lambda t, d: t.heaviside(d, t.ones(2, 3)),
        lambda t, d: d.index_reduce(0, t.tensor([0, 1]), t.ones(2, 3), "prod"),
        lambda t, d: d.clone().index_reduce_(0, t.tensor([0, 1]), t.ones(2, 3), "prod"),
        lambda t, d: t.unique(d),
        lambda t, d: t.geqrf(d),
        lambda t, d: t.igamma(d, t.ones(2, 3)),
        lambda t, d: t.special.zeta(d + 2, t.ones(2, 3)),
        lambda t, d: t.binomial(d, t.ones(2, 3) / 2),
        lambda t, d: t.bincount(t.tensor([0, 1, 0]), d[0]),
        lambda t, d: t.histogram(d, 2),
    ],
)
def test_what_has_no_directional_derivative_is_refused(call: Any) -> None:
    def program(t: Any) -> Any:
        with t.autograd.forward_ad.dual_level():
            kind, text = raised(lambda: call(t, dual(t, [[1.0, 2.0, 3.0], [2.0, 1.0, 0.5]])))
            return [kind, text.splitlines()[0]]

    agree(program)


# Writes -----------------------------------------------------------------------------------------


def test_a_write_to_a_dual_writes_to_the_tangent_that_was_given() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        seen = []
        with fw.dual_level():
            x, tangent = t.ones(3), t.ones(3) * 5
            d = fw.make_dual(x, tangent)
            for write in (
                lambda: d.mul_(2),
                lambda: d.zero_(),
                lambda: d.copy_(t.ones(3)),
                lambda: d.copy_(dual(t, [1.0, 2.0, 3.0])),
                lambda: d.fill_(3),
                lambda: d.add_(1),
                lambda: d.__setitem__(0, dual(t, 4.0)),
                lambda: d.detach().mul_(10),
                lambda: x.mul_(2),
                lambda: fw.unpack_dual(d).primal.mul_(3),
                lambda: d.exp_(),
                lambda: d.sub_(d),
            ):
                write()
                seen.append([unpacked(t, d), tangent.tolist(), unpacked(t, x)])
        return seen

    agree(program)


def test_a_write_makes_base_and_views_dual() -> None:
    def program(t: Any) -> Any:
        seen = []
        with t.autograd.forward_ad.dual_level():
            base = t.zeros(4)
            v, w = base[1:3], base.view(2, 2)
            v.copy_(dual(t, [1.0, 2.0]))
            seen += [unpacked(t, each) for each in (base, v, w)]
            base.mul_(2)
            strided = base[::2]
            strided.add_(dual(t, [3.0, 4.0]))
            seen += [unpacked(t, each) for each in (base, v, w, strided, base[3], w.t())]
        return seen

    agree(program)


def test_the_primal_and_its_views_have_tangents_apart() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        seen = []
        with fw.dual_level():
            x = t.zeros(4)
            d = fw.make_dual(x, t.ones(4))
            p = fw.unpack_dual(d).primal
            q, r = p[:2], p[1:]
            q.add_(dual(t, [1.0, 2.0]))
            seen += [unpacked(t, each) for each in (d, x, p, q, r)]
            x.add_(dual(t, [1.0, 2.0, 3.0, 4.0]))
            x[1:].mul_(dual(t, [1.0, 2.0, 3.0]))
            seen += [unpacked(t, each) for each in (d, x, p, q, r, d[1:], x[1:], p[1:])]
            cut = x.detach()
            cut[:2].mul_(dual(t, [1.0, 2.0]))
            seen += [unpacked(t, each) for each in (cut, x)]
        return seen

    agree(program)


def test_views_that_come_in_lists() -> None:
    def program(t: Any) -> Any:
        seen = []
        with t.autograd.forward_ad.dual_level():
            x = dual(t, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
            parts = [*x.split(3), *x.chunk(3), *x.view(2, 3).unbind(), *t.tensor_split(x, 2)]
            x.mul_(2)
            seen += [unpacked(t, each) for each in parts]
            y = t.arange(6.0)
            parts = [*y.split(3), *y.view(2, 3).unbind()]
            y.mul_(dual(t, [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]))
            seen += [unpacked(t, each) for each in parts]
            z = t.arange(6.0)
            parts = z.split(3)
            parts[0].mul_(dual(t, [1.0, 2.0, 3.0]))
            return [*seen, *[unpacked(t, each) for each in (z, *parts)]]

    agree(program)


def test_geometry_in_place() -> None:
    def program(t: Any) -> Any:
        seen = []
        with t.autograd.forward_ad.dual_level():
            x = dual(t, [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
            v = x[0]
            for change in (
                lambda: x.t_(),
                lambda: x.unsqueeze_(0),
                lambda: x.squeeze_(),
                lambda: x.transpose_(0, 1),
                lambda: x.mul_(2),
            ):
                change()
                seen += [unpacked(t, x), unpacked(t, v)]
        return seen

    agree(program)


def test_complex_duals_and_their_parts() -> None:
    def program(t: Any) -> Any:
        with t.autograd.forward_ad.dual_level():
            x = dual(t, [1j, 1 + 1j], [2j, 1 + 2j])
            parts = t.view_as_real(x)
            seen = [parts, x.real, x.imag, x.abs(), x * x.conj(), x.sqrt(), x**2]
            seen = [unpacked(t, each) for each in seen]
            parts.mul_(2)
            x.real.add_(dual(t, [1.0, 2.0]))
            y = t.zeros(2, dtype=t.complex64)
            y.imag.add_(dual(t, [1.0, 2.0]))
            whole = t.view_as_complex(dual(t, [[1.0, 2.0], [3.0, 4.0]]))
            return [*seen, *[unpacked(t, each) for each in (x, parts, y, whole)]]

    agree(program)


def test_expanded_memory_is_not_written() -> None:
    def program(t: Any) -> Any:
        with t.autograd.forward_ad.dual_level():
            base = t.zeros(2)
            wide = base.expand(3, 2)
            base.add_(dual(t, [1.0, 2.0]))
            leaf = dual(t, [1.0, 2.0], requires_grad=True)
            filled = dual(t, [1.0, 2.0])
            filled.expand(3, 2).zero_()
            return [
                unpacked(t, wide),
                unpacked(t, filled),
                said(lambda: wide.add_(dual(t, [1.0, 2.0]))),
                said(lambda: leaf.mul_(2)),
            ]

    agree(program)


def test_a_random_op_in_place_draws_once() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        x = t.ones(2, 3)
        with fw.dual_level():
            d = fw.make_dual(t.ones(2, 3), t.ones(2, 3))
            for write in (
                lambda x: x.bernoulli_(0.5),
                lambda x: x.uniform_(),
                lambda x: x.normal_(),
            ):
                t.manual_seed(3)
                write(x)
                t.manual_seed(3)
                write(d)
                assert x.tolist() == d.tolist()
            return fw.unpack_dual(d).tangent

    expect(program, [[0.0] * 3] * 2)


# Gradients --------------------------------------------------------------------------------------


def test_gradients_of_duals_have_tangents() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        x = t.tensor([1.0, 2.0], requires_grad=True)
        leaf = t.ones(2, requires_grad=True)
        seen: list[Any] = []
        with fw.dual_level():
            d = fw.make_dual(x, t.tensor([3.0, 4.0]))
            x.register_hook(lambda g: seen.append(unpacked(t, g)))
            for create in (False, True):
                (g,) = t.autograd.grad((d**3).sum(), x, create_graph=create)
                seen += [unpacked(t, g), g.requires_grad]
            (second,) = t.autograd.grad(g.sum(), x)
            seen.append(unpacked(t, second))
            for _ in range(2):
                (leaf * d).sum().backward()
                seen.append(unpacked(t, leaf.grad))
            seed = dual(t, 1.0, 5.0)
            (g,) = t.autograd.grad((leaf * 2).sum(), leaf, grad_outputs=seed)
            return [*seen, unpacked(t, g)]

    agree(program)


def test_a_tangent_can_be_differentiated() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        x = t.tensor([1.0, 2.0], requires_grad=True)
        move = t.tensor([3.0, 4.0], requires_grad=True)
        with fw.dual_level():
            y = (fw.make_dual(x, move).sin() * x).sum()
            tangent = fw.unpack_dual(y).tangent
            found = t.autograd.grad(tangent, [x, move], create_graph=True)
            again = t.autograd.grad(found[0].sum(), [x, move])
            y.backward()
        return [tangent.item(), *[g.tolist() for g in (*found, *again)], x.grad]

    agree(program)


def test_saved_tensors_have_their_tangents() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        x = t.tensor([1.0, 2.0], requires_grad=True)
        seen = []
        with fw.dual_level():
            d = fw.make_dual(x, t.ones(2))
            for hooks in (False, True):
                if hooks:
                    with t.autograd.graph.saved_tensors_hooks(lambda y: y, lambda y: y):
                        y = (d * d).exp()
                else:
                    y = (d * d).exp()
                seen.append(unpacked(t, y.grad_fn._saved_result))
                (g,) = t.autograd.grad(y.sum(), x)
                seen.append(unpacked(t, g))
        return seen

    agree(program)


def test_the_tangent_of_a_view_stays_within_its_memory_where_that_has_gaps() -> None:
    fw = ag_visual.autograd.forward_ad
    wide = ag_visual.empty_strided((2, 4), (8, 2)).zero_()
    for x in (wide[:, 1:], wide.t()[1:], wide[:, 1:].as_strided((2, 3), (6, 2), 1)):
        tangent = blank_like(x, x._array.dtype)
        steps = zip(tangent.shape, tangent.stride(), strict=True)
        end = 1 + tangent.storage_offset() + sum((n - 1) * step for n, step in steps)
        assert end <= tangent._memory.size
        with fw.dual_level():
            moved = fw.unpack_dual(fw.make_dual(x, ag_visual.ones(x.shape))).tangent
            assert (moved.stride(), moved.sum().item()) == (x.stride(), 6)


def test_a_checkpoint_recomputes_with_tangents() -> None:
    def program(t: Any) -> Any:
        fw = t.autograd.forward_ad
        checkpoint = t.utils.checkpoint.checkpoint
        x = t.tensor([1.0, 2.0], requires_grad=True)
        with fw.dual_level():
            d = fw.make_dual(x, t.ones(2))
            y = checkpoint(lambda z: (z * z).sin(), d, use_reentrant=False)
            return [unpacked(t, y), unpacked(t, t.autograd.grad(y.sum(), x)[0])]

    agree(program)


@pytest.mark.parametrize("shape", [(), (2,)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_a_tangent_that_is_not_finite_ends_with_a_write(shape: Any, dtype: str) -> None:
    def program(t: Any) -> Any:
        fw, kind = t.autograd.forward_ad, getattr(t, dtype)
        tangents = []
        for write in (
            lambda y: y.fill_(2),
            lambda y: y.zero_(),
            lambda y: y.fill_(t.tensor(2, dtype=kind)),
        ):
            with fw.dual_level():
                x = fw.make_dual(t.ones(shape, dtype=kind), t.full(shape, math.nan, dtype=kind))
                tangents.append(fw.unpack_dual(write(x.clone())).tangent)
        return tangents

    agree(program)
