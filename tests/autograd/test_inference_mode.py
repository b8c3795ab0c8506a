"""inference_mode: its tensors, what may be done with them outside, and views of normal ones."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import ag_visual
from tests.programs import agree, expect, old_names, raised


def test_tensors_made_inside_and_views_of_normal_ones() -> None:
    def program(t: Any) -> Any:
        a = t.ones(2, 2, requires_grad=True)
        n = t.ones(2, 2)
        with t.inference_mode():
            b = a * 2
            made = t.ones(3)
            v = n.view(4)
            w = made.view(3, 1)
            leaf = t.ones(1, requires_grad=True)
            inside = [t.is_grad_enabled(), t.is_inference_mode_enabled()]
        return [
            inside,
            [x.is_inference() for x in (a, b, made, v, w, leaf, b.detach(), b.view(4))],
            [x.requires_grad for x in (b, made, v, leaf)],
            [v._is_view(), w._is_view(), v._base is n],
            [t.is_inference(b), t.is_inference_mode_enabled(), t.is_grad_enabled()],
            b.clone().is_inference(),
            (b + n).is_inference(),
        ]

    agree(program)


def test_no_version_counter() -> None:
    def program(t: Any) -> Any:
        with t.inference_mode():
            x = t.ones(2)
            x.add_(1)
        return raised(lambda: x._version)

    agree(program)


def test_writes_of_inference_tensors_outside() -> None:
    def program(t: Any) -> Any:
        with t.inference_mode():
            x = t.ones(2)
            x.mul_(3)
        kind, text = raised(lambda: x.add_(1))
        y = x.clone()
        y.add_(1)
        return [kind, text[:70], y - x]

    agree(program)


def test_inference_tensors_cannot_be_saved_for_backward() -> None:
    def program(t: Any) -> Any:
        with t.inference_mode():
            x = t.ones(2)
        w = t.ones(2, requires_grad=True)
        kind, text = raised(lambda: x * w)
        y = w + x
        y.sum().backward()
        z = x * 2

        class Mul(t.autograd.Function):  # type: ignore[name-defined, misc]
            @staticmethod
            def forward(ctx: Any, a: Any, b: Any) -> Any:
                ctx.save_for_backward(a)
                return a * b

        second = raised(lambda: Mul.apply(x, w))
        return [kind, text[:47], w.grad, z.is_inference(), second[0], second[1][:47]]

    agree(program)


def test_requires_grad_outside() -> None:
    def program(t: Any) -> Any:
        with t.inference_mode():
            x = t.ones(2)
        kind, text = raised(lambda: x.requires_grad_())
        x.requires_grad_(False)
        return [kind, text[:84]]

    agree(program)


def test_normal_tensors_may_be_written_inside_and_bump_their_version() -> None:
    def program(t: Any) -> Any:
        a = t.ones(2, requires_grad=True)
        b = a * 2
        c = (b * b).sum()
        with t.inference_mode():
            b.add_(1)
        kind, text = raised(lambda: c.backward())
        return [b._version, kind, text[:60], b.requires_grad]

    agree(program)


def test_views_made_inside_and_written_outside() -> None:
    def program(t: Any) -> Any:
        a = t.ones(2, 2, requires_grad=True) * 1
        with t.inference_mode():
            v = a.view(4)
        one = raised(lambda: v.mul_(2))
        u = v.view(4)
        two = raised(lambda: u.mul_(2))
        a.mul_(2)
        three = raised(lambda: v.grad_fn)
        return [[kind, old_names(text)[:200]] for kind, text in (one, two, three)]

    agree(program)


def test_inference_mode_false_goes_back_to_normal() -> None:
    def program(t: Any) -> Any:
        a = t.ones(2, requires_grad=True)
        with t.inference_mode():
            with t.inference_mode(False):
                b = a * 2
                inside = [t.is_inference_mode_enabled(), t.is_grad_enabled()]
            c = a * 2
        with t.inference_mode(mode=False):
            d = a * 3
        with t.no_grad(), t.inference_mode(False):
            e = a * 3
        return [
            inside,
            [x.is_inference() for x in (b, c, d, e)],
            [x.requires_grad for x in (b, c, d, e)],
        ]

    agree(program)


def test_enable_grad_inside_records_nothing() -> None:
    def program(t: Any) -> Any:
        a = t.ones(2, requires_grad=True)
        with t.inference_mode(), t.enable_grad():
            b = a * 2
            mode = t.is_grad_enabled()
        return [b.is_inference(), b.grad_fn is None, mode]

    agree(program)


def test_decorators_generators_and_errors() -> None:
    def program(t: Any) -> Any:
        @t.inference_mode()
        def one(x: Any) -> Any:
            return x * 2

        @t.inference_mode
        def two(x: Any) -> Any:
            return x * 2

        @t.inference_mode()
        def three(x: Any) -> Any:
            yield x * 2
            yield t.is_inference_mode_enabled()

        @t.inference_mode(False)
        def four(x: Any) -> Any:
            return x * 2

        a = t.ones(1, requires_grad=True)
        seen = [one(a).is_inference(), two(a).is_inference(), four(a).is_inference()]
        values = []
        for value in three(a):
            values.append(value)
            seen += [t.is_inference_mode_enabled()]
        try:
            with t.inference_mode():
                raise ValueError
        except ValueError:
            seen += [t.is_inference_mode_enabled(), t.is_grad_enabled()]
        return [*seen, values[1]]

    agree(program)


def test_it_is_thread_local() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        with t.inference_mode():
            thread = threading.Thread(
                target=lambda: seen.append(
                    [t.is_inference_mode_enabled(), t.ones(1).is_inference()]
                )
            )
            thread.start()
            thread.join()
        return seen

    agree(program, [[False, False]])


def test_the_fast_path_is_back_afterwards() -> None:
    from ag_visual.core import modes

    with ag_visual.inference_mode():
        assert modes.special
    assert modes.special == 0


def test_deepcopy_pickle_and_type() -> None:
    import copy
    import pickle

    with ag_visual.inference_mode():
        x = ag_visual.ones(2)
    assert isinstance(x, ag_visual.Tensor)
    assert type(x).__name__ == "Tensor"
    assert not copy.deepcopy(x).is_inference()
    assert not pickle.loads(pickle.dumps(x)).is_inference()


def test_set_multithreading_enabled() -> None:
    def program(t: Any) -> Any:
        seen = []
        x = t.ones(2, requires_grad=True)
        with t.autograd.set_multithreading_enabled(False):
            (x * 2).sum().backward()
            seen.append(x.grad)
        t.autograd.set_multithreading_enabled(True)
        return seen

    agree(program, [[2.0, 2.0]])


def test_error_texts_of_2_8() -> None:
    def program(t: Any) -> Any:
        a = t.ones(2) * 1
        with t.inference_mode():
            v = a.view(2)
        w = t.ones(2, requires_grad=True)
        return raised(lambda: v.mul_(w))[1].split("\n")[0]

    expect(
        program,
        "A view was created in inference mode and is being modified inplace in normal mode. Given "
        "that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
        "code by moving both the view and the inplace either both inside the inference_mode block "
        "(if you don't want the inplace to be tracked) or both outside (if you want the inplace to "
        "be tracked).",
    )


@pytest.mark.filterwarnings("ignore:Using backward")
def test_gradients_that_were_accumulated_inside_are_not_added_to_outside() -> None:
    """What backward makes inside is an inference tensor as any other."""

    def program(t: Any) -> Any:
        def both(first: bool, second: bool) -> Any:
            a = t.ones(2, requires_grad=True)
            with t.inference_mode(first):
                a.backward(t.ones(2))
            with t.inference_mode(second):
                kind, text = raised(lambda: a.backward(t.ones(2)))
            return [kind, text[:77], a.grad.is_inference()]

        a = t.ones(2, requires_grad=True)
        with t.inference_mode():
            a.backward(t.ones(2))
        a.backward(t.ones(2), create_graph=True)  # out of place
        return [both(True, False), both(False, True), both(True, True), a.grad]

    agree(program)
