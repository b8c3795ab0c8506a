"""Ways to make a tensor times ways to look at it: memory, leaves and gradients are torch's.

What is seen of each pair: offset, strides, whether it is a view, a leaf, requires grad, shares
memory and the version with what it was made of, and the gradients that flow back.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tests.programs import agree, old_names, raised

MADE = {
    "of its own": lambda t: t.arange(24.0).reshape(4, 6).clone(),
    "a leaf": lambda t: t.arange(24.0).reshape(4, 6).clone().requires_grad_(),
    "computed": lambda t: t.arange(24.0, requires_grad=True).reshape(4, 6) * 2,
    "a leaf that is a view": lambda t: t.arange(24.0).view(4, 6).requires_grad_(),
    "a part of a leaf": lambda t: t.arange(36.0, requires_grad=True)[6:30].view(4, 6),
    "a part of a result": lambda t: (t.arange(36.0, requires_grad=True) * 2)[6:30].view(4, 6),
    "detached": lambda t: t.arange(36.0)[6:30].view(4, 6).detach(),
    "detached twice": lambda t: t.arange(36.0)[6:30].detach().view(4, 6).detach(),
    "data": lambda t: t.arange(36.0)[6:30].view(4, 6).data,
    "a parameter": lambda t: t.nn.Parameter(t.arange(36.0)[6:30].view(4, 6)),
    "turned": lambda t: (t.arange(24.0, requires_grad=True) * 2).reshape(6, 4).t(),
    "turned memory": lambda t: (t.arange(24.0).reshape(6, 4).t() + 0).requires_grad_(),
    "turned memory, computed": lambda t: t.arange(24.0, requires_grad=True).reshape(6, 4).t() * 2,
    "with gaps": lambda t: t.arange(48.0).view(4, 12)[:, ::2].detach().requires_grad_(),
    "unbound": lambda t: (t.arange(48.0, requires_grad=True) * 2).view(2, 4, 6).unbind()[1],
    "split": lambda t: (t.arange(48.0, requires_grad=True) * 2).view(8, 6).split(4)[1],
    "chunked": lambda t: (t.arange(48.0, requires_grad=True) * 2).view(4, 12).chunk(2, 1)[1],
    "real parts": lambda t: t.view_as_real(
        t.view_as_complex((t.arange(24.0, requires_grad=True) * 2).view(12, 2))
    ).view(4, 6),
    "real of complex": lambda t: (
        t.view_as_complex((t.arange(48.0, requires_grad=True) * 2).view(4, 6, 2)).real
    ),
    "set": lambda t: t.zeros(1).set_(t.arange(36.0), 6, (4, 6), (6, 1)),
    "given data": lambda t: _given_data(t),
    "resized": lambda t: t.arange(30.0).resize_(4, 6),
    "by no_grad": lambda t: _under(t.no_grad(), lambda: t.ones(36, requires_grad=True)[6:30]).view(
        4, 6
    ),
    "by inference": lambda t: _under(
        t.inference_mode(), lambda: t.ones(36, requires_grad=True)[6:30].view(4, 6)
    ),
    "expanded": lambda t: t.arange(6.0, requires_grad=True).expand(4, 6),
}

LOOKED = {
    "itself": lambda t, x: x,
    "alias": lambda t, x: x[:],
    "row": lambda t, x: x[1],
    "columns": lambda t, x: x[:, 2:4],
    "column in a row": lambda t, x: x[1:][0, 3:],
    "flat": lambda t, x: x.reshape(-1),
    "turned": lambda t, x: x.t(),
    "detached": lambda t, x: x[1:].detach(),
    "data": lambda t, x: x[1:].data,
    "parameter": lambda t, x: t.nn.Parameter(x[1:]),
    "strided": lambda t, x: x.as_strided((2, 2), (1, 2)),
    "strided from the start": lambda t, x: x.as_strided((2,), (1,), 0),
    "strided row": lambda t, x: x[2].as_strided((3,), (1,)),
    "strided from a detached row": lambda t, x: x[2].detach().as_strided((3,), (1,), 1),
    "strided of detached": lambda t, x: x.detach().as_strided((3,), (2,)),
    "diagonal": lambda t, x: x.diagonal(),
    "expanded": lambda t, x: x[:1].expand(3, 6),
    "windows": lambda t, x: x.unfold(1, 2, 2),
    "last of unbind": lambda t, x: x.unbind(1)[-1],
    "bytes": lambda t, x: x.detach()[1].view(t.int32),
    "complex": lambda t, x: t.view_as_complex(x.view(4, 3, 2))[1],
    "complex and back": lambda t, x: t.view_as_real(t.view_as_complex(x.view(4, 3, 2))[1:]),
    "complex, strided": lambda t, x: t.view_as_complex(x.view(4, 3, 2)).as_strided((2,), (4,), 1),
    "turned in place": lambda t, x: x.detach().t_(),
    "strided in place": lambda t, x: x.detach().as_strided_((2, 2), (1, 3)),
    "strided view in place": lambda t, x: x[:].as_strided_((2, 2), (1, 3)),
}


def _under(mode: Any, make: Any) -> Any:
    with mode:
        return make()


def _given_data(t: Any) -> Any:
    x = t.arange(8.0)[2:].requires_grad_()
    x.data = t.arange(36.0)[6:30].view(4, 6)
    return x


def strides(x: Any) -> list[int]:
    return [s for n, s in zip(x.shape, x.stride(), strict=True) if n > 1]


def look(t: Any, make: Any, see: Any) -> Any:
    """What there is to see of one pair, or what it raises."""
    found: list[Any] = []
    try:
        x = make(t)
        y = see(t, x)
        found += [y.detach(), y.storage_offset(), strides(y), y._is_view(), y.is_inference()]
        shares = y._is_view() or not y.requires_grad or y is x
        found += [y.requires_grad, y.is_leaf, shares and y.data_ptr() - x.data_ptr()]
        if y.is_inference():
            return found
        before = y._version
        _under(t.no_grad(), lambda: y.detach().add_(0))
        found += [y._version - before]
        root = _root(x) if x.requires_grad else y
        if y.requires_grad:
            z = t.view_as_real(y) if y.is_complex() else y
            weights = t.arange(1.0, z.numel() + 1).view(z.shape)
            found += t.autograd.grad((z * z * weights).sum(), root, allow_unused=True)
    except RuntimeError as error:
        found.append(_words(error))
    return found


def write(t: Any, make: Any, see: Any) -> Any:
    """The values and gradients after a write through the view, or what it raises."""
    found: list[Any] = []
    try:
        x = make(t)
        w = t.tensor(2.0, requires_grad=True)
        y = see(t, x)
        y.mul_(w)
        found += [x.detach(), y.detach(), y.requires_grad, y._is_view(), x.is_leaf, y.is_leaf]
    except RuntimeError as error:
        return [*found, _words(error)]
    total = ((x * x).sum() + (y * y).abs().sum()).abs()
    # Where a base does not reach as far as what was written, each engine has words of its own.
    roots = [leaf for leaf in (_root(x), w) if leaf.requires_grad]
    kind = raised(lambda: t.autograd.grad(total, w, retain_graph=True))[0]
    return [*found, kind or t.autograd.grad(total, roots, allow_unused=True)]


def _words(error: RuntimeError) -> str:
    return old_names(str(error))[:60]


def _root(x: Any) -> Any:
    """What the gradients of x are asked of: the tensor itself where it is one, else its leaf."""
    node = None if x.is_leaf else x.grad_fn
    while node is not None and node.next_functions:
        node = next((n for n, _ in node.next_functions if n is not None), None)
    return x if node is None else getattr(node, "variable", x)


STRIDED = "strided view in place"
COMPLEX = ("complex", "complex and back", "complex, strided")
VIEWED = ("a leaf that is a view", "given data")
INSIDE = ("detached", "detached twice", "data", "set")
# How much is compared where torch 2.13 itself fails when it makes a view's history again ...
APART = {(looked, made): 6 for looked in COMPLEX for made in VIEWED}
APART.update({(looked, made): 6 for looked in COMPLEX[:2] for made in INSIDE})
APART.update({(STRIDED, made): 6 for made in ("real parts", "real of complex")})
# ... where an inference tensor, once detached, may be changed in place, and its bytes are none, but
# its .data is one ...
APART.update({(looked, "by inference"): 4 for looked in ("bytes", "data")})
APART.update({(looked, "by inference"): 0 for looked in ("turned in place", "strided in place")})
# ... and where a complex view is written before its base's first element: refused in a backward.
APART[("complex, strided", "a part of a result")] = 6


def compare(observe: Any, made: str, looked: str) -> None:
    def program(t: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen = observe(t, MADE[made], LOOKED[looked])
        return seen[: APART.get((looked, made))]

    try:
        agree(program)
    except AssertionError as error:
        raise AssertionError(f"{looked} of {made}: {error}") from None


@pytest.mark.parametrize("made", MADE)
def test_each_look_at_a_tensor_is_torchs(made: str) -> None:
    for looked in LOOKED:
        compare(look, made, looked)


# A write to memory that repeats itself depends on the order; of inference tensors one is enough;
# numbers are not written into bytes.
@pytest.mark.parametrize("made", [m for m in MADE if m not in ("expanded", "by inference")])
def test_each_write_through_a_look_is_torchs(made: str) -> None:
    for looked in LOOKED:
        if looked != "bytes":
            compare(write, made, looked)
