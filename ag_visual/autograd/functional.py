"""torch.autograd.functional: Jacobians, Hessians, and their products with vectors, of functions.

`structures` has what all of them do with inputs, outputs and vectors.

Source: https://pytorch.org/docs/2.8/autograd.html#functional-higher-level-api
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from ag_visual.autograd.forward_jacobian import forward_jacobian, transforms
from ag_visual.autograd.grad_mode import enable_grad
from ag_visual.autograd.structures import (
    as_tuple,
    check_requires_grad,
    check_vector,
    declared,
    filled,
    finished,
    gradients,
    prepared,
    units,
    unpacked,
    zeros,
)
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import traced as F
from ag_visual.events import instrument, jacobians
from ag_visual.names import only as _only

Function = Callable[..., Any]

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
__dir__ = _only(__all__, __name__)

_OUTPUTS: Final = "outputs of the user-provided function"
_SCALAR_OUTPUT: Final = (
    "The vector v can only be None if the user-provided function returns a single Tensor with a "
    "single element."
)
_SCALAR_INPUT: Final = (
    "The vector v can only be None if the input to the user-provided function is a single Tensor "
    "with a single element."
)


class _Call:
    """A call of a user's function: what it is given and gives, as tuples."""

    __slots__ = (
        "create_graph",
        "many_inputs",
        "many_outputs",
        "name",
        "outputs",
        "points",
        "strict",
    )

    def __init__(self, name: str, inputs: Any, create_graph: bool, strict: bool) -> None:
        self.name = name
        self.create_graph = create_graph
        self.strict = strict
        self.many_inputs, points = as_tuple(inputs, "inputs", name)
        self.points = prepared(points, create_graph)

    def run(self, func: Function, *, single: bool = False) -> None:
        """Call the function. single: it has to return one element."""
        self.many_outputs, self.outputs = as_tuple(func(*self.points), _OUTPUTS, self.name)
        check_requires_grad(self.outputs, "outputs", self.strict)
        if single:
            _check_single(self.outputs, self.many_outputs, self.name)

    def product(self, found: Any, stage: str, *, like_outputs: bool = False) -> tuple[Any, Any]:
        """The outputs and a product, zeros where it is None, as the caller gets both."""
        like = self.outputs if like_outputs else self.points
        whole = filled(found, like, self.strict, self.create_graph, stage)
        many = self.many_outputs if like_outputs else self.many_inputs
        outputs = unpacked(finished(self.outputs, self.create_graph), self.many_outputs)
        return outputs, unpacked(finished(whole, self.create_graph), many)


def vjp(
    func: Function,
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The outputs of `func`, and v^T J: a vector times its Jacobian at `inputs`, by one backward.

    inputs: a Tensor or a tuple of Tensors, which need not require grad; v: of the shapes of the
    outputs, and may be left out where there is one output with one element. create_graph: the
    results can be differentiated. strict: RuntimeError where an output does not depend on an input,
    instead of zeros.

    >>> import ag_visual as ag
    >>> x = ag.tensor([1.0, 2.0])
    >>> ag.autograd.functional.vjp(lambda x: x**2, x, ag.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        call = _Call("vjp", inputs, create_graph, strict)
        call.run(func)
        vector = _vector(v, call.outputs, call.many_outputs, "vjp", _SCALAR_OUTPUT)
    found = gradients(call.outputs, call.points, vector, create_graph=create_graph)
    return call.product(found, "back")


def jvp(
    func: Function,
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The outputs of `func`, and J v: its Jacobian at `inputs` times a vector.

    Backward runs twice: v^T J is linear in v, and its derivative is the product that is wanted.
    v: of the shapes of the inputs, and may be left out where there is one input with one element.
    All else is as in `vjp`.

    >>> import ag_visual as ag
    >>> x = ag.tensor([1.0, 2.0])
    >>> ag.autograd.functional.jvp(lambda x: x**2, x, ag.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        call = _Call("jvp", inputs, create_graph, strict)
        vector = _vector(v, call.points, call.many_inputs, "jvp", _SCALAR_INPUT)
        call.run(func)
        weights = _weights(call.outputs)
        first = gradients(call.outputs, call.points, weights, create_graph=True)
        check_requires_grad(first, "grad_inputs", strict)
    found = gradients(first, weights, vector, create_graph=create_graph)
    return call.product(found, "back_trick", like_outputs=True)


def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of `func` at `inputs`: of each output by each input, of shape out + in.

    One Tensor for a Tensor and a Tensor, a tuple where one side is a tuple, a tuple of tuples
    [output][input] where both are. create_graph and strict are as in `vjp`. vectorize: all rows in
    one batched backward. strategy="forward-mode" (with vectorize=True): by columns, which is
    cheaper where there are more outputs than inputs.

    >>> import ag_visual as ag
    >>> ag.autograd.functional.jacobian(lambda x: x**2, ag.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    return _jacobian("jacobian", func, inputs, create_graph, strict, vectorize, strategy)


def _jacobian(
    kind: str,
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """`jacobian`. kind: what observers are told that it is; empty: nothing."""
    assert strategy in ("forward-mode", "reverse-mode"), (
        'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function '
        'has more outputs than inputs, "forward-mode" tends to be more performant. Otherwise, '
        'prefer to use "reverse-mode".'
    )
    if strategy == "forward-mode":
        return _by_columns(kind, func, inputs, create_graph, strict, vectorize)
    with enable_grad():
        call = _Call("jacobian", inputs, create_graph, strict)
        call.run(func)
        points, outputs = call.points, call.outputs
        if vectorize and strict:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not "
                "supported together. Please either set `strict=False` or `vectorize=False`."
            )
        if vectorize:
            found = _in_one_batch(outputs, points, create_graph)
        else:
            found = tuple(
                _rows(number, output, points, create_graph, strict)
                for number, output in enumerate(outputs)
            )
    if kind and instrument.jacobian is not None:
        _emit(kind, func, points, [jacobians.seq_of(output) for output in outputs], found)
    done = tuple(unpacked(finished(row, create_graph), call.many_inputs) for row in found)
    return unpacked(done, call.many_outputs)


def _emit(
    kind: str, func: Function, points: Any, seqs: list[int | None], blocks: Sequence[Any]
) -> None:
    """Tell an observer of a Jacobian."""
    names = jacobians.names_of(func, range(len(points)), [1] * len(points))
    columns = [
        jacobians.End(name, tuple(x.shape), jacobians.seq_of(x))
        for name, x in zip(names, points, strict=True)
    ]
    jacobians.emit(kind, func, columns, seqs, blocks)


def _rows(
    number: int, output: Tensor, points: tuple[Tensor, ...], create_graph: bool, strict: bool
) -> tuple[Tensor, ...]:
    """The Jacobians of one output by each input: one backward for each of its elements."""
    if output.dtype.is_complex and output.requires_grad and output._array.size:
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {output.dtype}"
        )
    rows: list[list[Tensor]] = [[] for _ in points]
    for place in range(output._array.size):
        weight = zeros(output)
        weight._array.reshape(-1)[place] = 1
        found = gradients((output,), points, (weight,), create_graph=create_graph, retain=True)
        for index, (gradient, point) in enumerate(zip(found, points, strict=True)):
            if gradient is None:
                if strict:
                    raise RuntimeError(
                        f"Output {number} of the user-provided function is independent of input "
                        f"{index}. This is not allowed in strict mode."
                    )
                gradient = zeros(point)
            elif strict and create_graph and not gradient.requires_grad:
                raise RuntimeError(
                    "The jacobian of the user-provided function is independent of input "
                    f"{index}. This is not allowed in strict mode when create_graph=True."
                )
            rows[index].append(gradient)
    return tuple(
        F.reshape(F.stack(row), (*output.shape, *point.shape))
        for row, point in zip(rows, points, strict=True)
    )


def _in_one_batch(
    outputs: tuple[Tensor, ...], points: tuple[Tensor, ...], create_graph: bool
) -> tuple[tuple[Tensor, ...], ...]:
    """All Jacobians by one backward of a batch: a unit vector for each element of each output."""
    if not outputs:
        return ()
    slices, weights = zip(*units(outputs), strict=True)
    found = gradients(outputs, points, weights, create_graph=create_graph, batched=True)
    count = slices[-1].stop
    whole = [
        zeros(point, count) if gradient is None else gradient
        for gradient, point in zip(found, points, strict=True)
    ]
    return tuple(
        tuple(
            _block(each, own, (*output.shape, *point.shape))
            for each, point in zip(whole, points, strict=True)
        )
        for own, output in zip(slices, outputs, strict=True)
    )


def _block(rows: Tensor, own: slice, shape: tuple[int, ...]) -> Tensor:
    """The rows of one output in the shape of a Jacobian; a graph tells of both steps."""
    array = rows._array
    if rows._rg or own.stop - own.start != len(array):
        rows = F.reshape(rows[own], shape)
    elif array.shape != shape:
        rows = F.reshape(rows, shape)
    return rows


def _by_columns(
    kind: str, func: Function, inputs: Any, create_graph: bool, strict: bool, vectorize: bool
) -> Any:
    if create_graph:
        raise NotImplementedError(
            'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` '
            "are not supported together (yet). Please either set `create_graph=False` or "
            '`strategy="reverse-mode"`.'
        )
    if strict:
        raise RuntimeError(
            'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are '
            "not supported together (yet). Please either set `strict=False` or "
            '`strategy="reverse-mode"`.'
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is"
            "only implemented for `vectorize=True`."  # torch's own text lacks the space
        )
    many_inputs, points = as_tuple(inputs, "inputs", "jacobian")
    many_outputs = False

    def called(*duals: Tensor) -> tuple[Tensor, ...]:
        nonlocal many_outputs
        many_outputs, outputs = as_tuple(func(*duals), _OUTPUTS, "jacobian")
        return outputs

    found = forward_jacobian(called, points)
    if kind and instrument.jacobian is not None:
        _emit(kind, func, points, [None] * len(found), found)
    return unpacked(tuple(unpacked(row, many_inputs) for row in found), many_outputs)


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of `func`, which returns one element, by each pair of inputs.

    A Tensor of shape in + in for a Tensor, a tuple of tuples for a tuple. The Jacobian of the
    gradient: vectorize and outer_jacobian_strategy are `vectorize` and `strategy` of that
    `jacobian`, create_graph and strict are as in `vjp`.

    >>> import ag_visual as ag
    >>> ag.autograd.functional.hessian(lambda x: (x**3).sum(), ag.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    many_inputs, points = as_tuple(inputs, "inputs", "hessian")
    assert outer_jacobian_strategy in ("forward-mode", "reverse-mode"), (
        'Expected strategy to be either "forward-mode" or "reverse-mode".'
    )

    def single(*given: Tensor) -> Any:
        found = func(*given)
        many, outputs = as_tuple(found, _OUTPUTS, "hessian")
        check_requires_grad(outputs, "outputs", strict)
        _check_single(outputs, many, "hessian")
        return F.squeeze(outputs[0])

    @functools.wraps(func)  # observers are told its names
    def gradient(*given: Tensor) -> Any:
        if outer_jacobian_strategy == "forward-mode":
            return transforms().grad(single, tuple(range(len(given))))(*given)
        found = _jacobian("", single, given, create_graph=True)
        check_requires_grad(found, "jacobian", strict)
        return found

    found = _jacobian(
        "hessian",
        gradient,
        points,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )
    return found if many_inputs else found[0][0]


def vhp(
    func: Function,
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The output of `func`, which has one element, and v^T H: a vector times its Hessian.

    Two backwards: the gradient, and the gradient of its product with v. v: of the shapes of the
    inputs, and may be left out where there is one input with one element. create_graph and strict
    are as in `vjp`.

    >>> import ag_visual as ag
    >>> x = ag.tensor([1.0, 2.0])
    >>> ag.autograd.functional.vhp(lambda x: (x**3).sum(), x, ag.tensor([1.0, 10.0]))
    (tensor(9.), tensor([  6., 120.]))
    """
    with enable_grad():
        call = _Call("vhp", inputs, create_graph, strict)
        vector = _vector(v, call.points, call.many_inputs, "vhp", _SCALAR_INPUT)
        call.run(func, single=True)
        first = gradients(call.outputs, call.points, create_graph=True)
        check_requires_grad(first, "jacobian", strict)
    found = gradients(first, call.points, vector, create_graph=create_graph)
    return call.product(found, "double_back")


def hvp(
    func: Function,
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The output of `func`, which has one element, and H v: its Hessian times a vector.

    Two backwards, as in `vhp`, where all derivatives are those of ops: the Hessian is symmetric
    then. Three where a custom Function or a hook takes part, whose gradients may be those of no
    function, and where `strict` is asked for.

    >>> import ag_visual as ag
    >>> x = ag.tensor([1.0, 2.0])
    >>> ag.autograd.functional.hvp(lambda x: (x**3).sum(), x, ag.tensor([1.0, 10.0]))
    (tensor(9.), tensor([  6., 120.]))
    """
    with enable_grad():
        call = _Call("hvp", inputs, create_graph, strict)
        vector = _vector(v, call.points, call.many_inputs, "hvp", _SCALAR_INPUT)
        call.run(func, single=True)
        first = gradients(call.outputs, call.points, create_graph=True)
        check_requires_grad(first, "jacobian", strict)
        symmetric = not strict and declared(call.outputs[0], call.points)
        if not symmetric:
            weights = _weights(call.points)
            second = gradients(first, call.points, weights, create_graph=True)
    if symmetric:
        found = gradients(first, call.points, vector, create_graph=create_graph)
    else:
        found = gradients(second, weights, vector, create_graph=create_graph)
    return call.product(found, "double_back_trick")


def _vector(
    v: Any,
    like: tuple[Tensor, ...],
    many: bool,
    name: str,
    needed: str,
) -> tuple[Tensor, ...] | None:
    """The vector of a product, checked; None (a one) where it may be left out."""
    if v is None:
        if len(like) != 1 or like[0]._array.size != 1:
            raise RuntimeError(needed)
        return None
    _, vector = as_tuple(v, "v", name)
    check_vector(vector, like, many)
    return vector


def _weights(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Zeros to differentiate by: a product that is linear in them has its factor as derivative."""
    return tuple(zeros(each).requires_grad_() for each in tensors)


def _check_single(outputs: tuple[Tensor, ...], many: bool, name: str) -> None:
    if many:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0]._array.size != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element"
        )
