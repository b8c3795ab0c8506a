"""`out=`: the same values as without it, into tensors of every kind; errors write nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch import out_argument
from ag_visual.dispatch.record import KEEP, Op
from ag_visual.dispatch.table import functions

from ..oracle import opinfos, torch
from . import opinfo
from .cases import Call, calls, every, for_all, host, run
from .checks import strided

pytestmark = pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")


def given(make: Callable[[Tensor], Tensor], plain: list[Tensor]) -> Any:
    made = tuple(make(each) for each in plain)
    return made if len(made) > 1 else made[0]


def like(change: Callable[[Any], Any]) -> Callable[[Tensor], Tensor]:
    """A tensor of another value made from a result's array."""
    return lambda tensor: from_array(change(numpy.ones_like(tensor._array)))


def wider(array: Any) -> Any:
    """A dtype that every result of its kind can be cast to."""
    kinds = {"b": numpy.int16, "i": numpy.float64, "u": numpy.float64, "f": numpy.complex128}
    return array.astype(kinds.get(array.dtype.kind, array.dtype))


OUTS = {
    "right-sized": like(lambda a: a),
    "empty": like(lambda a: numpy.empty((0,), a.dtype)),
    "wrong-sized": like(lambda a: numpy.ones((3, 7), a.dtype)),
    "another dtype": like(wider),
    "noncontiguous": like(strided),
    "a view": lambda tensor: ag.stack([tensor, tensor])[1],
}


def casts(op: Op) -> bool:
    """Whether torch casts a result into out, instead of refusing an out of another dtype."""
    words = out_argument.words_of(op.name, op.out)
    return "casts" in words if op.policy == KEEP else "exact" not in words


def check(call: Call, kind: str) -> None:
    op = call.op
    values, _ = call.tensors(grad=False)
    plain = run(op, values)
    out = given(OUTS[kind], plain)
    targets = list(out) if isinstance(out, tuple) else [out]
    versions = [target._version for target in targets]
    ag.manual_seed(11)
    positional = [values[p] for p in op.params if p not in op.keyword]
    named = {p: values[p] for p in op.keyword}
    same = all(t.dtype is p.dtype for t, p in zip(targets, plain, strict=True))
    if not same and not casts(op):
        with pytest.raises(RuntimeError, match=r"Expected out tensor to have dtype .*, but got"):
            op.call(*positional, **named, out=out)
        assert [target._version for target in targets] == versions
        return
    answer = op.call(*positional, **named, out=out)
    assert all(a is b for a, b in zip(listed(answer), targets, strict=True))
    for target, expected, version in zip(targets, plain, versions, strict=True):
        numpy.testing.assert_array_equal(host(target), host(expected).astype(target.dtype.np))
        assert target._version == version + 1
        assert not target.requires_grad


def listed(answer: Any) -> list[Any]:
    return list(answer) if isinstance(answer, tuple) else [answer]


@every(lambda op: op.out and not op.multi)
def test_out_gets_what_is_returned_without(op: Op) -> None:
    for call in calls(op):
        for_all(OUTS, partial(check, call))


@every(lambda op: op.out and op.rules and not op.multi)
def test_out_is_refused_where_a_gradient_is_wanted(op: Op) -> None:
    call = calls(op)[0]
    values, leaves = call.tensors()
    with ag.no_grad():
        plain = run(op, values)
    out = given(like(lambda a: a), plain)
    if leaves and plain[op.differentiable[0]].dtype.category > 1:
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            run(op, values, lambda *args, **named: op.call(*args, **named, out=out))
    assert all(target._version == 0 for target in listed(out))


def three() -> Tensor:
    return ag.tensor([1.0, 2.0, 3.0])


def test_a_resize_is_warned_of_unless_it_was_empty() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ag.exp(three(), out=ag.empty(0))
    with pytest.warns(UserWarning, match=r"resized since it had shape \[2\].*shape \[3\]") as seen:
        ag.exp(three(), out=ag.empty(2))
    assert seen[0].filename == __file__


@pytest.mark.parametrize(
    ("call", "error", "phrase"),
    [
        (lambda: ag.add(three(), 1, out=3), TypeError, "argument 'out' must be Tensor, not int"),
        (
            lambda: ag.topk(three(), 2, out=ag.empty(2)),
            TypeError,
            "must be tuple of Tensors, not Tensor",
        ),
        (
            lambda: ag.topk(three(), 2, out=(ag.empty(2),)),
            TypeError,
            "expected tuple of 2 elements but got 1",
        ),
        (
            lambda: ag.add(three(), 1, out=ag.empty(3, dtype=ag.int64)),
            RuntimeError,
            "result type Float can't be cast to the desired output type Long",
        ),
        (
            lambda: ag.add(three(), 1, out=ag.empty(1).expand(3)),
            RuntimeError,
            "more than one element of the written-to tensor refers to a single memory location",
        ),
        (
            lambda: ag.add(three(), 1, out=ag.empty(3, requires_grad=True)),
            RuntimeError,
            "functions with out=... arguments don't support automatic differentiation",
        ),
        (
            lambda: ag.add(three(), 1, out=ag.empty(4)[2:]),
            RuntimeError,
            "Trying to resize storage that is not resizable",
        ),
        (
            lambda: ag.zeros(3, dtype=ag.float32, out=ag.empty(3, dtype=ag.int64)),
            RuntimeError,
            "dtype Float does not match dtype of out parameter",
        ),
    ],
)
def test_bad_outs(call: Callable[[], Any], error: type[Exception], phrase: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert phrase in str(caught.value)


def test_an_elementwise_op_refuses_an_out_that_overlaps_in_part() -> None:
    x = ag.arange(4.0)
    with pytest.raises(RuntimeError, match="some elements of the input tensor"):
        ag.add(x[:3], 1, out=x[1:])
    ag.add(x[:3], 1, out=x[:3])
    assert x.tolist() == [1.0, 2.0, 3.0, 3.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda t, x: t.lerp(x[:-1], x[:-1], 0.5, out=x[1:]),
        lambda t, x: t.take(x, t.tensor([3, 2, 1, 0]), out=x),
        lambda t, x: t.gather(x, 0, t.tensor([3, 2, 1, 0]), out=x),
        lambda t, x: t.index_select(x, 0, t.tensor([3, 2, 1, 0]), out=x),
        lambda t, x: t.masked_select(x, x > -1, out=x),
        lambda t, x: t.cat([x[:2], x[2:]], out=x),
        lambda t, x: t.kthvalue(x.view(2, 2), 1, out=(x[:2], t.empty(2, dtype=t.int64))),
    ],
)
@pytest.mark.oracle
def test_an_out_on_the_memory_of_an_argument_is_refused_where_torch_refuses_it(call: Any) -> None:
    lines = []
    for t in (ag, torch):
        with pytest.raises(RuntimeError) as caught:
            call(t, t.arange(4.0))
        lines.append(str(caught.value).splitlines()[0])
    assert lines[0].startswith(lines[1].partition(".")[0][:40])


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_torch_casts_into_out_where_we_do() -> None:
    """One call of each function with an out that is wider than its result."""
    wider = {torch.float32: torch.float64, torch.int64: torch.float64, torch.bool: torch.int64}
    wider[torch.complex64] = torch.complex128
    found, asked = [], 0
    for info in opinfos():
        kinds = [kind for kind in wider if kind in info.supported_dtypes("cpu")]
        ours = opinfo.ours_of(info)
        if not info.supports_out or not kinds or ours is None:
            continue
        torch.manual_seed(0)
        for sample in islice(info.sample_inputs("cpu", kinds[0]), 1):
            given = (sample.input, sample.args, sample.kwargs)
            plain = info.op(given[0], *given[1], **given[2])
            several = isinstance(plain, (tuple, list))
            results = list(plain) if several else [plain]
            if not all(isinstance(each, torch.Tensor) for each in results):
                continue
            answers = []
            for t, function in ((torch, info.op), (ag, ours)):
                outs = [torch.empty_like(each) for each in results]
                outs[0] = outs[0].to(wider.get(outs[0].dtype, outs[0].dtype))
                mine = opinfo.translated((given, outs), {}) if t is ag else (given, outs)
                (first, args, named), into_ = mine
                try:
                    function(first, *args, **named, out=tuple(into_) if several else into_[0])
                    answers.append("fine")
                except Exception as error:
                    answers.append(type(error).__name__)
            asked += 1
            if answers[0] != answers[1]:
                found.append((info.name, *answers))
    assert asked > 250
    assert not found


def test_under_no_grad_a_leaf_may_be_written_and_a_saved_tensor_is_blamed() -> None:
    x = ag.ones(3, requires_grad=True)
    y = x.exp()
    with ag.no_grad():
        ag.add(x, 1, out=x)
        ag.add(y, 1, out=y)
    with pytest.raises(RuntimeError, match=r"add\(out=\)"):
        y.sum().backward()


def test_functions_that_make_tensors() -> None:
    whole = ag.empty(0, dtype=ag.int64)
    assert ag.arange(3, out=whole) is whole
    assert whole.tolist() == [0, 1, 2]
    for name, args in (
        ("zeros", (2, 3)),
        ("ones", (2, 3)),
        ("full", ((2, 3), 1.5)),
        ("linspace", (0, 1, 5)),
        ("logspace", (0, 1, 5)),
        ("eye", (3,)),
        ("rand", (2, 3)),
        ("randn", (2, 3)),
        ("randperm", (5,)),
        ("normal", (0.0, 1.0, (3,))),
    ):
        out = ag.empty(0, dtype=ag.float64)
        ag.manual_seed(3)
        made = getattr(ag, name)(*args, out=out)
        ag.manual_seed(3)
        assert made is out
        assert ag.equal(made, getattr(ag, name)(*args, dtype=ag.float64))
    for name, args in (("normal", (ag.ones(3), 1.0)), ("multinomial", (ag.ones(3), 2))):
        ag.manual_seed(3)
        plain = getattr(ag, name)(*args)
        ag.manual_seed(3)
        assert ag.equal(getattr(ag, name)(*args, out=ag.empty_like(plain)), plain)


def test_composites_take_out() -> None:
    x = ag.arange(6.0).reshape(2, 3)
    values, indices = ag.empty(0), ag.empty(0, dtype=ag.int64)
    found = functions["max"](x, 1, out=(values, indices))
    assert found.values is values
    assert (values.tolist(), indices.tolist()) == ([2.0, 5.0], [2, 2])
    total = ag.empty(0)
    assert ag.sum(x, 0, out=total) is total
    assert total.tolist() == [3.0, 5.0, 7.0]
