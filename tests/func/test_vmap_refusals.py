"""What vmap refuses, in torch's words: inputs that do not fit, values of a slice, dynamic shapes,
writes into what has no batch.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import ag_visual as ag

from ..oracle import torch
from ..programs import agree_in_words, raised, told

Program = Callable[[Any], Any]


def mapped(
    function: Callable[[Any, Any], Any], *shapes: tuple[int, ...], **options: Any
) -> Program:
    """A program that maps `function(t, x, ...)` over ones, and tells the error."""

    def program(t: Any) -> Any:
        given = [t.ones(shape) for shape in shapes or ((2, 3),)]
        return told(lambda: t.vmap(lambda *xs: function(t, *xs), **options)(*given))

    return program


ARGUMENTS: dict[str, Program] = {
    "no inputs": lambda t: told(lambda: t.vmap(t.sin)()),
    "too many dims": lambda t: told(lambda: t.vmap(t.sin, in_dims=(0, 0))(t.ones(2))),
    "a text": lambda t: told(lambda: t.vmap(t.sin, in_dims="a")(t.ones(2))),
    "a fraction": lambda t: told(lambda: t.vmap(t.sin, in_dims=(0.5,))(t.ones(2))),
    "another tree": lambda t: told(
        lambda: t.vmap(lambda x: x, in_dims=({"a": 0},))({"b": t.ones(2)})
    ),
    "a list": lambda t: told(lambda: t.vmap(lambda a: a, in_dims=[0])(t.ones(2))),
    "nothing to map": lambda t: told(lambda: t.vmap(t.sin, in_dims=(None,))(t.ones(2))),
    "out of range": lambda t: told(lambda: t.vmap(t.sin, in_dims=2)(t.ones(2))),
    "of no dimensions": lambda t: told(lambda: t.vmap(t.sin)(t.tensor(1.0))),
    "no tensor": lambda t: told(lambda: t.vmap(lambda x, y: x)(t.ones(2), 3)),
    "sizes": lambda t: told(lambda: t.vmap(t.add)(t.ones(2), t.ones(3))),
    "int returned": mapped(lambda t, x: 3),
    "list returned": mapped(lambda t, x: [x, 1.0]),
    "out_dims": mapped(lambda t, x: x, out_dims=(0, 0)),
    "out_dims text": mapped(lambda t, x: x, out_dims="a"),
    "out_dims range": mapped(lambda t, x: x, out_dims=3),
    "batched for None": mapped(lambda t, x: x, out_dims=None),
    "chunk 0": lambda t: told(lambda: t.vmap(t.sin, chunk_size=0)(t.ones(2))),
    "randomness": lambda t: told(lambda: t.vmap(t.sin, randomness="x")(t.ones(2))),
    "chunks of nothing": lambda t: told(lambda: t.vmap(t.sin, chunk_size=2)(t.zeros(0, 3))),
}
VALUES: dict[str, Program] = {
    "item": mapped(lambda t, x: x.item(), (2,)),
    "float": mapped(lambda t, x: float(x), (2,)),
    "int": mapped(lambda t, x: int(x), (2,)),
    "format": mapped(lambda t, x: f"{x:.1f}", (2,)),
    "range": mapped(lambda t, x: range(x.long()), (2,)),
    "if": mapped(lambda t, x: x if x > 0 else -x, (2,)),
    "while": mapped(lambda t, x: any(x > 0), (2, 3)),
    "is_nonzero": mapped(lambda t, x: x.is_nonzero(), (2,)),
    "if in grad": lambda t: told(
        lambda: t.vmap(t.func.grad(lambda x: x if x > 0 else -x))(t.ones(2))
    ),
    "item in grad": lambda t: told(lambda: t.vmap(t.func.grad(lambda x: x * x.item()))(t.ones(2))),
    "tolist": mapped(lambda t, x: x.tolist()),
    "numpy": mapped(lambda t, x: x.numpy()),
    "array": mapped(lambda t, x: x.__array__()),
    "dlpack": mapped(lambda t, x: x.__dlpack__()),
    "data_ptr": mapped(lambda t, x: x.data_ptr()),
    "data": mapped(lambda t, x: x.data),
    "data =": mapped(lambda t, x: setattr(x, "data", t.ones(3))),
    "deepcopy": mapped(lambda t, x: copy.deepcopy(x)),
    "pickle": mapped(lambda t, x: pickle.dumps(x)),
    "tensor": mapped(lambda t, x: t.tensor([x, x]), (2,)),
    "full": mapped(lambda t, x: t.full((2,), x), (2,)),
    "equal": mapped(lambda t, x: t.equal(x, x)),
    "allclose": mapped(lambda t, x: t.allclose(x, x)),
    "slice": mapped(lambda t, x: t.zeros(3)[: x.long()], (2,)),
    "arange": mapped(lambda t, x: t.arange(x), (2,)),
    "nonzero": mapped(lambda t, x: t.nonzero(x)),
    "where": mapped(lambda t, x: t.where(x > 0)),
    "mask": mapped(lambda t, x: x[x > 0]),
    "mask of another": mapped(lambda t, x: t.ones(3)[x > 0]),
    "write at a mask": mapped(lambda t, x: x.clone().__setitem__(x > 0, 1.0)),
    "masked_select": mapped(lambda t, x: t.masked_select(x, x > 0)),
    "unique": mapped(lambda t, x: t.unique(x)),
    "unique_consecutive": mapped(lambda t, x: t.unique_consecutive(x)),
    "one_hot": mapped(lambda t, x: t.nn.functional.one_hot(x.long())),
    "histogramdd": mapped(lambda t, x: t.histogramdd(x, [2])),
    "in": mapped(lambda t, x: 1.0 in x),
    "view": mapped(lambda t, x: x.T.view(-1), (2, 3, 3)),
    "view, batch in the middle": lambda t: told(
        lambda: t.vmap(lambda x: x.view(-1), 1)(t.ones(2, 3, 3))
    ),
    "memory": mapped(lambda t, x: x.untyped_storage()),
    "iter": mapped(lambda t, x: iter(x), (2,)),
    "len": mapped(lambda t, x: len(x), (2,)),
    "sum(1)": mapped(lambda t, x: x.sum(1)),
    "hook": mapped(lambda t, x: x.register_hook(print)),
    "retain_grad": mapped(lambda t, x: x.retain_grad()),
    "requires_grad_": mapped(lambda t, x: x.requires_grad_()),
    "backward": lambda t: told(
        lambda: t.vmap(lambda x: x.sum().backward())(t.ones(2, 3, requires_grad=True))
    ),
    "batch_norm": lambda t: told(lambda: t.vmap(t.nn.BatchNorm1d(3))(t.ones(2, 4, 3))),
}
WRITES: dict[str, Callable[[Any, Any, Any], Any]] = {
    **{
        name: lambda z, x, i, name=name: getattr(z, name)(x)
        for name in [
            "add_",
            "sub_",
            "mul_",
            "div_",
            "pow_",
            "atan2_",
            "copy_",
            "eq_",
            "fmod_",
            "hypot_",
            "clamp_",
        ]
    },
    "addcmul_": lambda z, x, i: z.addcmul_(x, x),
    "lerp_": lambda z, x, i: z.lerp_(x, 0.5),
    "masked_fill_": lambda z, x, i: z.masked_fill_(x > 0, 1.0),
    "index_put_": lambda z, x, i: z.index_put_((i,), x),
    "z[i] = x": lambda z, x, i: z.__setitem__(i, x),
    "z[0] = x": lambda z, x, i: z.__setitem__(0, x[0]),
    "scatter_": lambda z, x, i: z.scatter_(0, i, x),
    "scatter_add_": lambda z, x, i: z.scatter_add_(0, i, x),
    "index_add_": lambda z, x, i: z.index_add_(0, i, x),
    "index_copy_": lambda z, x, i: z.index_copy_(0, i, x),
    "index_fill_": lambda z, x, i: z.index_fill_(0, i, 1.0),
    "put_": lambda z, x, i: z.put_(i, x),
    "addmv_": lambda z, x, i: z.addmv_(x.new_ones(3, 3), x),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_that_do_not_fit(name: str) -> None:
    agree_in_words(ARGUMENTS[name])
    assert ARGUMENTS[name](ag)["error"]


@pytest.mark.parametrize("name", VALUES)
def test_a_slice_has_no_values(name: str) -> None:
    agree_in_words(VALUES[name])
    assert VALUES[name](ag)["error"]


def clause(text: str) -> str:
    return text.partition("(")[0] if text.startswith("vmap") else text[:30]


@pytest.mark.parametrize("name", WRITES)
def test_slices_cannot_be_written_into_one_tensor(name: str) -> None:
    def seen(t: Any) -> tuple[str, str]:
        x, i = t.ones(2, 3), t.tensor([[0, 1, 2]] * 2)
        kind, text = raised(lambda: t.vmap(lambda x, i: WRITES[name](t.zeros(3), x, i))(x, i))
        return kind, clause(text)

    assert seen(ag)[0] == "RuntimeError"
    if torch.__version__:
        assert seen(ag) == seen(torch)


@pytest.mark.parametrize("name", ["add", "sin", "cumsum"])
def test_out_is_refused(name: str) -> None:
    given: tuple[Any, ...] = {"add": (1,), "sin": (), "cumsum": (0,)}[name]
    program = mapped(lambda t, x, out: getattr(t, name)(x, *given, out=out), (2, 3), (2, 3))
    agree_in_words(program)
    assert "Batching rule not implemented" in program(ag)["text"]


def test_a_slice_that_escaped_says_so() -> None:
    def program(t: Any) -> Any:
        kept: list[Any] = []
        t.vmap(lambda x: kept.append(x) or x)(t.ones(2, 3))
        return [
            told(lambda: kept[0] + 1),
            told(lambda: t.vmap(lambda x: x * kept[0])(t.ones(2, 3))),
        ]

    found = program(ag)
    assert all("may have escaped" in each["text"] for each in found)
    agree_in_words(lambda t: program(t)[0])
