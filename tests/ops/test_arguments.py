"""Arguments that are not tensors: every form that torch takes is taken, every other one refused.

Each form is given to each method and function, most of which it does not fit; torch says which.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import ag_visual
from tests.oracle import torch
from tests.programs import agree, close, plain

NAMES = """
sum mean nanmean prod amax amin any all std var std_mean var_mean logsumexp argmax argmin max min
median nanmedian mode aminmax count_nonzero cumsum cumprod logcumsumexp cummax cummin softmax
log_softmax sort argsort topk kthvalue squeeze squeeze_ unsqueeze unsqueeze_ flip permute tile
expand repeat view reshape movedim moveaxis transpose transpose_ swapaxes swapdims roll rot90
broadcast_to sum_to_size unbind flatten chunk narrow select diagonal tril triu unfold new_zeros
new_ones new_full expand_copy
"""
FORMS = """
0 | 0, 1 | 0, 1, 2 | (0, 1) | [0, 1] | 0, True | (0, 1), True | (0, 1), 1 | 0, 0 | 0, 1.0 | 0.5
True | None | 'a' | dim=0 | dim=(0, 1) | axis=0 | axis=(0, 1) | dim=0, keepdim=1 | dim=0.0
dim=0, keepdim=True | dim=0, keepdim=None | t.tensor(0) | t.tensor([0, 1]) | np.int64(0)
np.bool_(True) | np.array([0, 1]) | 5 | -4 | (0, 0) | (0, 5) | 2, 0, 1 | (2, 0, 1) | -1 | (-1, 4)
4, -1, 3 | [2, [3]] | (2, 3), (3,) | ((2, 3),) | 3, (2, 3) | size=(2, 12) | shape=(2, 12)
dims=(0, 1, 2) | dims=0 | repeats=(1, 1, 1) | bogus=1 | 0, bogus=1 | 2.0, 3 | 'a', 'b' | x | 1j
slice(0, 1) | t.Size([2, 12]) | t.float32 | dtype=t.float64 | 0, dtype=t.float64 | 0, 1, 2, 3
*x.shape | x.shape | dtype=3 | (0, True) | (True, 0) | 0, t.tensor(1) | t.tensor(1.)
"""
CASES = [form.strip() for line in FORMS.strip().splitlines() for form in line.split("|")]
if hasattr(numpy.bool_, "__index__"):  # an older NumPy: an index, and so for torch
    CASES.remove("np.bool_(True)")
TOLD = re.compile(r"\w+\(\): argument '(\w+)'(?: \(position \d\))? must be ((?:tuple of )?\S+)")


def _calls(name: str) -> Iterator[str]:
    for form in ("", *CASES):
        yield f"x.{name}({form})"
        yield f"t.{name}(x{', ' if form else ''}{form})"


def _outcome(t: Any, call: str) -> tuple[str, Any]:
    x = t.arange(24.0, dtype=t.float64).reshape(2, 3, 4) / 7
    try:
        return "", plain(eval(call, {"t": t, "x": x, "np": numpy}))
    except Exception as error:
        return type(error).__name__, str(error)


def _alike(seen: str, answer: str) -> bool:
    """Whether two texts want the same of an argument; which wrong one is told first is open."""
    ours, theirs = TOLD.match(seen), TOLD.match(answer)
    return not ours or not theirs or ours[1] != theirs[1] or ours[2] == theirs[2]


@pytest.mark.parametrize("name", NAMES.split())
def test_forms_of_arguments_are_those_of_torch(name: str) -> None:
    wrong = []
    for call in _calls(name):
        if not hasattr(torch if call[0] == "t" else torch.Tensor, name):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (kind, seen), (expected, answer) = (_outcome(t, call) for t in (ag_visual, torch))
        if kind != expected:
            wrong.append(f"{call}: {kind or 'fine'} where torch: {expected or 'fine'}; {seen}")
        elif not kind:
            close(seen, answer, call)
        elif not _alike(seen, answer):
            wrong.append(f"{call}: {seen!r} where torch: {answer!r}")
    assert not wrong, "\n".join(wrong)


OLD: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda t, x, y: x.add(2, y),
    "add_": lambda t, x, y: x.add_(-0.5, y),
    "function": lambda t, x, y: t.add(x, 2, y),
    "number": lambda t, x, y: x.add(2, 3),
    "sub": lambda t, x, y: x.sub_(2, y),
    "addcmul": lambda t, x, y: x.addcmul_(2, y, y),
    "addcdiv": lambda t, x, y: x.addcdiv_(2, x, y),
    "addmm beta": lambda t, x, y: x.addmm(2, y, y),
    "addmm both": lambda t, x, y: t.addmm(2, x, 3, y, y),
    "addmv": lambda t, x, y: t.addmv(2, x[0], y, x[1]),
    "addr": lambda t, x, y: t.addr(2, x, 3, y[0], y[1]),
}


@pytest.mark.parametrize("name", OLD)
def test_factors_before_the_tensors_still_work(name: str) -> None:
    def run(t: Any) -> Any:
        x, y = (t.tensor([[1.0, 2.0], [3.0, 4.0]]) + i for i in range(2))
        return plain(OLD[name](t, x, y))

    with pytest.warns(UserWarning, match="This overload of .* is deprecated"):
        seen = run(ag_visual)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        close(seen, run(torch))


def test_a_factor_after_the_tensors_is_refused() -> None:
    x = ag_visual.ones(2)
    with pytest.raises(
        TypeError, match="takes 2 positional arguments but 3 were given; name alpha"
    ):
        x.add(x, 2)


def test_the_old_order_keeps_its_gradient_and_its_line() -> None:
    x, y = (ag_visual.ones(2, requires_grad=True) for _ in range(2))
    with pytest.warns(UserWarning) as seen:
        x.add(3, y).sum().backward()
    assert seen[0].filename == __file__
    assert y.grad.tolist() == [3.0, 3.0]


def test_what_old_programs_call_on_tensors() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([[1.0, 2.0], [3.0, 4.0]])
        made = [x.new([1, 2]), x.double().new((3, 4)), x.new(x), x.new()]
        shapes = [tuple(x.new(2, 3).shape), tuple(x.new(x.size()).shape), tuple(x.new(2).shape)]
        y = x.clone().apply_(lambda v: v * v)
        z = x.clone().map_(x[0], lambda a, b: a - b)
        kinds = [str(each.dtype) for each in made]
        return [made, shapes, kinds, y, z, y.is_shared(), y.share_memory_() is y]

    agree(program)
