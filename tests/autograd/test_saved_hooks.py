"""Saved tensors: pack and unpack hooks, raw saved fields, mutation that is allowed."""

from __future__ import annotations

from typing import Any

import pytest

import ag_visual
from tests.programs import agree, expect, raised


def test_only_the_innermost_pair_is_used_and_the_same_tensor_packs_twice() -> None:
    def program(t: Any) -> Any:
        seen: list[str] = []

        def pair(name: str) -> Any:
            return t.autograd.graph.saved_tensors_hooks(
                lambda v: (seen.append(f"pack {name}"), v)[1],
                lambda v: (seen.append(f"unpack {name}"), v)[1],
            )

        x = t.tensor([2.0], requires_grad=True)
        with pair("outer"), pair("inner"):
            y = x * x
        with pair("outer"):
            z = y * y
        z.backward()
        return [seen, x.grad]

    agree(program)


def test_unpack_runs_once_per_access() -> None:
    def program(t: Any) -> Any:
        seen: list[str] = []
        x = t.tensor([2.0], requires_grad=True)
        with t.autograd.graph.saved_tensors_hooks(
            lambda v: v * 10, lambda v: (seen.append("u"), v / 10)[1]
        ):
            y = x.sin()
        first = y.grad_fn._saved_self
        second = y.grad_fn._saved_self
        y.backward()
        return [first, second, len(seen), x.grad]

    agree(program)


def test_unpacked_values_may_have_another_dtype_or_shape() -> None:
    def program(t: Any) -> Any:
        a = t.ones(5, requires_grad=True)
        with t.autograd.graph.saved_tensors_hooks(lambda v: v, lambda v: v.double()):
            y = a * a
        y.sum().backward()
        b = t.ones(5, requires_grad=True)
        with t.autograd.graph.saved_tensors_hooks(lambda v: v, lambda v: v.narrow(0, 0, 1)):
            z = b * b
        z.sum().backward()
        return [a.grad, str(a.grad.dtype), b.grad]

    agree(program)


def test_a_pack_hook_must_not_write_its_input() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([2.0], requires_grad=True)
        with t.autograd.graph.saved_tensors_hooks(lambda v: v.mul_(2), lambda v: v):
            y = t.tensor([1.0])
            kind, text = raised(lambda: x * y)
        return [kind, text[:60]]

    agree(program)


def test_errors_of_hooks_propagate() -> None:
    class Mine(Exception):
        pass

    def program(t: Any) -> Any:
        def fail(v: Any) -> Any:
            raise Mine("no")

        x = t.tensor([2.0], requires_grad=True)
        seen = []
        with t.autograd.graph.saved_tensors_hooks(fail, lambda v: v):
            try:
                x * x
            except Mine as error:
                seen.append(str(error))
        with t.autograd.graph.saved_tensors_hooks(lambda v: v, fail):
            y = x * x
        try:
            y.backward()
        except Mine as error:
            seen.append(str(error))
        with t.autograd.graph.saved_tensors_hooks(lambda v: v, lambda v: 1):
            y = x * x
        kind, text = raised(lambda: y.backward())
        return [*seen, kind, text[:90]]

    agree(program)


def test_saving_an_output_gives_the_hook_a_tensor_of_the_graph() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []

        def pack(v: Any) -> Any:
            seen.append([v.requires_grad, v.grad_fn is not None, v.is_leaf])
            return v.detach()

        x = t.tensor([2.0], requires_grad=True)
        with t.autograd.graph.saved_tensors_hooks(pack, lambda v: v):
            y = (x * 1).exp()
        y.backward()
        return [seen, x.grad]

    agree(program)


def test_saved_self_is_the_input_and_saved_result_is_another_object() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([2.0], requires_grad=True)
        y = x.sin()
        z = x.exp()
        return [
            y.grad_fn._saved_self is x,
            z.grad_fn._saved_result is z,
            z.grad_fn._saved_result.grad_fn is z.grad_fn,
            (x * 2).grad_fn._saved_self is None,
        ]

    agree(program, [True, False, True, True])


def test_saved_fields_are_gone_after_backward() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([2.0], requires_grad=True)
        y = x.sin()
        y.backward()
        kind, text = raised(lambda: y.grad_fn._saved_self)
        kind2, _ = raised(
            lambda: y.grad_fn._raw_saved_self.register_hooks(lambda v: v, lambda v: v)
        )
        return [kind, text[:62], kind2]

    agree(program)


def test_raw_saved_hooks() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        x = t.tensor([2.0], requires_grad=True)
        y = x * x
        y.grad_fn._raw_saved_self.register_hooks(
            lambda v: (seen.append("pack"), v * 10)[1], lambda v: (seen.append("unpack"), v)[1]
        )
        again = raised(lambda: y.grad_fn._raw_saved_self.register_hooks(lambda v: v, lambda v: v))
        none = raised(
            lambda: (x * 2).grad_fn._raw_saved_self.register_hooks(lambda v: v, lambda v: v)
        )
        bad = raised(lambda: y.grad_fn._raw_saved_other.register_hooks(lambda v: v))
        made = raised(lambda: type(y.grad_fn._raw_saved_other)())
        y.backward()
        return [seen, x.grad, [[k, e[:60]] for k, e in (again, none, made)], bad[0]]

    agree(program)


def test_an_output_that_is_packed_as_it_is_comes_back_in_the_graph() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []

        def unpack(packed: Any) -> Any:
            kind, (tensor, again) = packed
            seen.append([kind, tensor is again, tensor.requires_grad, tensor.grad_fn.name()])
            return tensor

        x = t.tensor([2.0], requires_grad=True)
        with t.autograd.graph.saved_tensors_hooks(lambda v: ("own", (v, v)), unpack):
            y = x.exp()
        (g,) = t.autograd.grad(y, x, create_graph=True)
        (h,) = t.autograd.grad(g, x)
        return [g, h, seen]

    agree(program)


def test_the_version_is_checked_where_no_hook_took_the_tensor() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([2.0], requires_grad=True)
        y = x * 1
        with t.autograd.graph.saved_tensors_hooks(lambda v: v.clone(), lambda v: v):
            z = y * y
        y.mul_(5)
        z.backward()
        return [x.grad]

    agree(program, [[4.0]])


def test_disable_saved_tensors_hooks() -> None:
    def program(t: Any) -> Any:
        seen = []
        graph = t.autograd.graph
        x = t.tensor([2.0], requires_grad=True)
        with graph.disable_saved_tensors_hooks("first message"):
            with graph.disable_saved_tensors_hooks("second message"):
                seen.append(raised(graph.saved_tensors_hooks(abs, abs).__enter__))
            seen.append(raised(graph.save_on_cpu().__enter__))
        with graph.saved_tensors_hooks(lambda v: v, lambda v: v):
            y = x * x
            kind, text = raised(lambda: _enter(graph.disable_saved_tensors_hooks("inside")))
            seen.append([kind, text])
        y.backward()
        return [seen, x.grad]

    def _enter(manager: Any) -> None:
        with manager:
            pass

    agree(program)


def test_save_on_cpu() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([2.0], requires_grad=True)
        with t.autograd.graph.save_on_cpu():
            y = (x * x).exp()
        y.backward()
        return [x.grad]

    agree(program)


def test_hooks_and_custom_functions() -> None:
    def program(t: Any) -> Any:
        seen: list[str] = []

        class Square(t.autograd.Function):  # type: ignore[name-defined, misc]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return 2 * g * ctx.saved_tensors[0]

        x = t.tensor([2.0], requires_grad=True)
        with t.autograd.graph.saved_tensors_hooks(
            lambda v: (seen.append("pack"), v)[1], lambda v: (seen.append("unpack"), v)[1]
        ):
            y = Square.apply(x)
        y.backward()
        return [seen, x.grad]

    agree(program, [["pack", "unpack"], [4.0]])


def test_allow_mutation_on_saved_tensors_clones_on_mutation() -> None:
    def program(t: Any) -> Any:
        a = t.tensor([2.0, 3.0], requires_grad=True)
        with t.autograd.graph.allow_mutation_on_saved_tensors() as ctx:
            b = a.clone()
            out = (b**2).sum()
            b.sin_()
            out.backward()
            seen = a.grad.clone()
            c = a.clone()
            d = c.exp()
            d.mul_(5)
            e = (d * d).sum()
            c.fill_(0)
            d.zero_()
            a.grad = None
            e.backward()
        return [seen, a.grad, type(ctx).__name__ != ""]

    agree(program)


def test_allow_mutation_with_views() -> None:
    def program(t: Any) -> Any:
        a = t.tensor([[2.0, 3.0], [4.0, 5.0]], requires_grad=True)
        with t.autograd.graph.allow_mutation_on_saved_tensors():
            b = a.clone()
            v = b.select(0, 0)
            out = (v * v).sum()
            b.copy_(t.zeros(2, 2))
            v.add_(1)
            out.backward()
        return [a.grad]

    agree(program)


def test_allow_mutation_of_leaves_under_no_grad_and_twice() -> None:
    def program(t: Any) -> Any:
        w = t.tensor([2.0], requires_grad=True)
        x = t.tensor([3.0], requires_grad=True)
        with t.autograd.graph.allow_mutation_on_saved_tensors():
            y = w * x
            with t.no_grad():
                w.mul_(10)
                w.mul_(10)
            z = w * x
            (y + z).backward()
        return [w.grad, x.grad, w]

    agree(program)


def test_allow_mutation_errors() -> None:
    def program(t: Any) -> Any:
        graph = t.autograd.graph
        a = t.tensor([2.0], requires_grad=True)
        with graph.allow_mutation_on_saved_tensors():
            y = a * a

            def nested() -> None:
                with graph.allow_mutation_on_saved_tensors():
                    pass

            first = raised(nested)
        second = raised(lambda: y.backward())
        return [first, second[0], second[1][:60]]

    agree(program)


def test_saved_fields_describe_without_values() -> None:
    x = ag_visual.tensor([2.0, 3.0], requires_grad=True)
    y = x.sin()
    (info,) = y.grad_fn.saved_fields()
    assert (info.name, info.shape, info.dtype, info.version_then, info.freed) == (
        "self",
        (2,),
        "float32",
        0,
        False,
    )
    y.sum().backward()
    assert y.grad_fn.saved_fields()[0].freed


def test_detach_in_place_of_a_saved_output() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([2.0], requires_grad=True)
        y = x.exp()
        y.detach_()
        return [y.requires_grad, y.is_leaf]

    agree(program)


def test_unsafe_preserve_version_counter_and_increment_version() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2)
        with t.autograd._unsafe_preserve_version_counter(x):
            x.add_(1)
        seen = [x._version]
        t.autograd.graph.increment_version(x)
        t.autograd.graph.increment_version([x, x])
        return [*seen, x._version]

    agree(program)
    x = ag_visual.ones(2)
    with pytest.raises(RuntimeError, match="below 0: -1"):
        ag_visual.autograd.grad_mode._unsafe_set_version_counter((x,), (-1,))


def test_the_node_keeps_what_a_non_tensor_argument_was() -> None:
    expect(
        lambda t: (t.ones(2, requires_grad=True) ** 3).grad_fn._saved_exponent,
        3,
    )


def test_hooks_carry_values_and_the_graph_is_kept_for_double_backward() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([2.0], requires_grad=True)
        with t.autograd.graph.saved_tensors_hooks(lambda v: v.detach() * 1, lambda v: v):
            a = x * x
            b = a.exp()
            c = (a * b).sum()
        same = b.grad_fn._saved_result.grad_fn is b.grad_fn
        (g,) = t.autograd.grad(c, x, create_graph=True)
        (h,) = t.autograd.grad(g, x)
        return [g, h, same]

    agree(program)


def test_pack_hooks_run_without_grad_mode() -> None:
    def program(t: Any) -> Any:
        seen: list[bool] = []
        x = t.tensor([2.0], requires_grad=True)
        with t.autograd.graph.saved_tensors_hooks(
            lambda v: (seen.append(t.is_grad_enabled()), v)[1], lambda v: v
        ):
            y = x * x
        return [seen, y.grad_fn._saved_self.is_leaf, y.grad_fn._saved_self.requires_grad]

    agree(program)


def test_lists_of_saved_tensors_are_packed_one_by_one() -> None:
    x = ag_visual.ones(2, requires_grad=True)
    with ag_visual.autograd.graph.saved_tensors_hooks(lambda v: v, lambda v: v):
        y = ag_visual.cat([x, x * 2])
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("written", ["view", "base"])
def test_hooks_see_what_an_in_place_operation_saves_before_it_writes(written: str) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([2.0, 3.0], requires_grad=True)
        y = x - 1
        v = y[None]
        with t.autograd.graph.saved_tensors_hooks(lambda s: s.clone(), lambda s: s * 1):
            if written == "view":
                v.mul_(v)
            else:
                y.mul_(v[0])
        names = [fn and fn.name() for fn, _ in v.grad_fn.next_functions]
        (v * v).sum().backward()
        return [names, y.grad_fn.name(), v, x.grad]

    agree(program)


def test_hooks_see_the_result_that_an_in_place_operation_saves() -> None:
    def program(t: Any) -> Any:
        packed = []
        x = t.tensor([2.0, 3.0], requires_grad=True)
        v = (x * 1)[None]
        with t.autograd.graph.saved_tensors_hooks(
            lambda s: (packed.append(s.clone()), s.clone())[1], lambda s: s
        ):
            v.exp_()
        names = [fn and fn.name() for fn, _ in v.grad_fn.next_functions]
        v.sum().backward()
        return [packed, names, x.grad]

    agree(program)


def test_an_in_place_operation_that_cannot_save_writes_nothing() -> None:
    def program(t: Any) -> Any:
        with t.inference_mode():
            exponent = t.ones(1) * 2
        y = t.tensor([3.0], requires_grad=True) * 1
        seen = raised(lambda: y.pow_(exponent))[0], raised(lambda: y.mul_(exponent))[0]
        return [seen, y._version, y.grad_fn.name(), y]

    agree(program)


@pytest.mark.parametrize("wanted", ["self", "one", "two"])
def test_what_several_derivatives_read_is_saved_for_any_of_them(wanted: str) -> None:
    def program(t: Any) -> Any:
        x, a, b = (t.tensor([2.0, 3.0], requires_grad=n == wanted) for n in ("self", "one", "two"))
        nodes = [x.addcdiv(a, b).grad_fn, x.addcmul(a, b).grad_fn, x.lerp(a, b).grad_fn]
        names = ["tensor1", "tensor2", "tensor1", "tensor2", "end", "self", "weight"]
        pairs = zip([nodes[0]] * 2 + [nodes[1]] * 2 + [nodes[2]] * 3, names, strict=True)
        seen = [getattr(node, f"_saved_{name}") is None for node, name in pairs]
        with t.inference_mode():
            made = t.ones(2)
        return [*seen, raised(lambda: x.addcdiv(made, made))]

    agree(program)
