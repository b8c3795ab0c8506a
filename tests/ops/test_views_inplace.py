"""In-place writes through views, whatever the op and the view: gradients as torch's."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.core.node import Replaced
from tests.programs import agree, raised

from .side_by_side import compare

# Every kind of view, written by every kind of in-place op.
PLACES = (
    "y[0]",
    "y[:, 1]",
    "y[..., ::2]",
    "y[0, 1:]",
    "y.transpose(0, 2)",
    "y.permute(2, 0, 1)",
    "y.view(6, 4)",
    "y.view(-1)[3:9]",
    "y.flatten()",
    "y.unsqueeze(1)",
    "y[:1].squeeze(0)",
    "y.diagonal(0, 1, 2)",
    "y.narrow(2, 1, 2)",
    "y.unfold(2, 2, 2)",
    "y.as_strided((2, 3), (12, 4), 1)",
    "y.select(1, 0).t()",
    "y.movedim(0, 2)[1]",
    "y.unflatten(2, (2, 2))[..., 0]",
    "y.expand(2, 3, 4)",
    "y[...]",
    "y.mT[0]",
)
WRITES = (
    "p.mul_(x.flatten()[2])",
    "p.pow_(2)",
    "p.exp_()",
    "p.add_(x.flatten()[0])",
    "p.copy_(x.flatten()[1] * 2)",
    "p.zero_()",
    "p.fill_(o)",
    "p.sigmoid_()",
    "p[0] = x[0, 0, 0]",
    "p[..., 0] *= 3.0",
    "p.div_(2 + x.flatten()[3])",
)


@pytest.mark.oracle
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("place", PLACES)
def test_written_views_have_torchs_gradients(place: str, write: str) -> None:
    # The base and the view itself are looked at; the view's grad_fn has been regenerated.
    compare(f"p = {place}; {write}; q = y * 1; y = [q, p * x.flatten()[2]]", look=False)


@pytest.mark.oracle
@pytest.mark.parametrize("place", PLACES)
def test_written_bases_have_torchs_graph(place: str) -> None:
    compare(f"p = {place}; p.mul_(2.0)")
    compare(f"p = {place}; y.mul_(2.0); y = p")


@pytest.mark.oracle
@pytest.mark.parametrize(
    "write", ["p.mul_(1 + 2j)", "p.mul_(z[0])", "p.copy_(z[0] * 1j)", "p.exp_()"]
)
def test_complex_views_written_in_place(write: str) -> None:
    compare(f"y = z * 1; p = y[0]; {write}; y = [y * 1, p * 1]", look=False)


@pytest.mark.oracle
def test_the_parts_of_complex_tensors_can_be_written() -> None:
    compare("y = z * 1; y.real.mul_(3.0); y.imag.copy_(m); y = y * 1", look=False)
    compare("y = z * 1; t.view_as_real(y)[..., 0] += m; y = y * y", look=False)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "change",
    [
        "t_()",
        "transpose_(0, 1)",
        "unsqueeze_(0)",
        "unsqueeze_(-1)",
        "squeeze_()",
        "swapaxes_(0, 1)",
    ],
)
def test_a_view_may_change_its_own_geometry(change: str) -> None:
    compare(f"p = y[0]; p.{change}; y = p", look=True)
    compare(f"p = y[0]; p.{change}; y = [p * 2, y * 3]", look=False)
    compare(f"p = y[0]; p.{change}; p.mul_(3.0); y = [p * 2, y * y]", look=False)


@pytest.mark.oracle
def test_geometry_in_place_counts_as_a_write_and_is_refused_on_leaves() -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, 3)
        x.t_()
        leaf = t.ones(2, 3, requires_grad=True)
        seen = [x._version, list(x.shape), raised(lambda: leaf.t_())[0]]
        with t.no_grad():
            leaf.t_()
        return [*seen, list(leaf.shape), leaf.is_leaf, leaf._version]

    agree(program, [1, [3, 2], "RuntimeError", [3, 2], True, 1])


def test_a_view_of_a_base_that_turned_itself_afterwards_is_an_error_not_a_wrong_gradient() -> None:
    x = ag.arange(4.0).reshape(2, 2).requires_grad_()
    y = x * 1
    row = y[0]
    y.t_()
    y.mul_(ag.tensor([[1.0, 2.0], [3.0, 4.0]]))
    with pytest.raises(RuntimeError, match=r"changed its own geometry in place"):
        row.sum().backward()


@pytest.mark.oracle
@pytest.mark.parametrize(
    "parts", ["y.unbind(0)", "y.split(1)", "y.chunk(2)", "y.split_with_sizes([1, 1])", "list(y)"]
)
@pytest.mark.parametrize(
    "write", ["mul_(2.0)", "squeeze_()", "zero_()", "t_()", "view(-1).add_(1)"]
)
def test_parts_of_a_tensor_must_not_be_written(parts: str, write: str) -> None:
    def program(t: Any) -> Any:
        y = t.ones(2, 3, requires_grad=True) * 1
        part = eval(parts, {"y": y, "list": list})[0]
        if write == "t_()" and part.dim() != 2:
            part = part.unsqueeze(0)
        kind, text = raised(lambda: eval(f"p.{write}", {"p": part}))
        return [kind, "is a view and is being modified inplace" in text]

    agree(program, ["RuntimeError", True])


@pytest.mark.oracle
def test_numbers_written_by_index_stop_the_gradient() -> None:
    def program(t: Any) -> Any:
        x = t.ones(3, 3, requires_grad=True)
        y = x * 2
        y[0] = 7.0
        y[:, 1] = t.tensor([1.0, 2.0, 3.0])
        y[t.tensor([2]), t.tensor([2])] = 5.0
        (y * y).sum().backward()
        return [y, x.grad]

    agree(program)


@pytest.mark.oracle
def test_a_tensor_filled_row_by_row_collects_all_gradients() -> None:
    def program(t: Any) -> Any:
        w = t.tensor([1.0, 2.0, 3.0], requires_grad=True)
        out = t.zeros(4, 3)
        for i in range(4):
            out[i] = w * i
        out[1:3, 0] += w[2]
        out[out > 5] = w.sum()
        (out * out).sum().backward()
        return [out, w.grad, out.requires_grad, out.grad_fn.name()]

    agree(program)


@pytest.mark.oracle
def test_expanded_memory_must_not_be_written() -> None:
    def program(t: Any) -> Any:
        wide = t.ones(1).expand(3)
        fine = t.ones(3).expand(1, 3)
        fine.add_(1)
        kind, text = raised(lambda: wide.add_(1))
        return [fine, kind, "single memory location" in text]

    agree(program)


@pytest.mark.oracle
def test_a_written_copy_of_an_index_leaves_the_source_alone() -> None:
    def program(t: Any) -> Any:
        x = t.zeros(3)
        x[t.tensor([0, 1])].add_(5.0)
        x[x == 0].mul_(2.0)
        return [x, x._version]

    agree(program, [[0.0, 0.0, 0.0], 0])


def test_replayed_steps_give_the_view_again() -> None:
    """A view is its base and its steps: replaying these on a copy of the base gives its values."""
    for place in PLACES:
        y = ag.arange(24.0).reshape(2, 3, 4).clone()
        view = eval(place, {"y": y})
        array = y._array.copy()
        for op, args, _ in view._view.steps():
            array = op.view_array(numpy, array, args)
        assert array.tolist() == view.tolist(), place
        assert numpy.shares_memory(view._array, y._array), place


def test_a_product_with_a_vector_leaves_the_engine_its_fast_paths(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its `squeeze_` replaces no data: gradients of what was before it fit what is there now."""
    monkeypatch.setattr(Replaced, "ever", False)
    x = ag.ones(3, requires_grad=True)
    y = x @ ag.ones((3, 2))
    assert (y.grad_fn.name(), y._version) == ("SqueezeBackward4", 1)
    y.sum().backward()
    y.unsqueeze_(0).t_()
    assert x.grad.tolist() == [2, 2, 2]
    assert not Replaced.ever
