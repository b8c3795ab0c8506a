"""Functions that torch never meant to be public and keeps for those who use them all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.autograd.gradcheck import analytical, numerical
from ag_visual.autograd.gradcheck.problem import (
    Numbers,
    Problem,
    as_tuple,
    is_differentiable,
)
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor, from_array


def _deprecated(name: str) -> None:
    warn(
        f"`{name}` was part of PyTorch's private API and not meant to be exposed. We are "
        "deprecating it and it will be removed in a future version of PyTorch. If you have a "
        "specific use for this or feature request for this to be a stable API, please file us an "
        "issue at https://github.com/pytorch/pytorch/issues/new",
        FutureWarning,
    )


def _check_grad_out(name: str, grad_out: float) -> None:
    if grad_out != 1.0:
        raise ValueError(
            f"Expected grad_out to be 1.0. {name} no longer supports values of grad_out != 1.0."
        )


def get_numerical_jacobian(
    fn: Callable[..., Any],
    inputs: Any,
    target: Any = None,
    eps: float = 1e-3,
    grad_out: float = 1.0,
) -> tuple[Tensor, ...]:
    """The Jacobians of `fn(inputs)` by central differences, a matrix for each tensor of `target`.

    fn takes one argument: `inputs` as it is given. target: the tensors that are changed, those of
    `inputs` that require grad unless told. A row for each element of the input, a column for each
    of the output. Deprecated, as in torch.
    """
    _deprecated("get_numerical_jacobian")
    _check_grad_out("get_numerical_jacobian", grad_out)
    wanted = as_tuple(inputs if target is None else target)
    tensors = tuple(each for each in wanted if target is not None or is_differentiable(each))

    def called(*_: Any) -> Any:
        return fn(inputs)

    return tuple(
        _of_first_output(called, tensors, index, as_tuple(called()), eps)[0]
        for index in range(len(tensors))
    )


def _of_first_output(
    fn: Callable[..., Any],
    tensors: tuple[Any, ...],
    index: int,
    outputs: tuple[Any, ...],
    eps: float,
) -> tuple[Tensor, ...]:
    count = tuple(range(len(outputs)))
    places = tuple(range(len(tensors)))
    problem = Problem(fn, tensors, places, outputs, count, eps, 0.0, 0.0)
    rows = numerical.jacobians(problem, index)
    if tensors[index].dtype.is_complex:
        for row, output in zip(rows, outputs, strict=True):
            assert not output.dtype.is_complex, "Expected ds_dx to be real-valued, not complex"
            assert not numpy.iscomplexobj(row)
        imaginary = numerical.jacobians(problem, index, 1j)
        rows = [row + 1j * other for row, other in zip(rows, imaginary, strict=True)]
    return tuple(map(_matrix, rows))


def _matrix(rows: Numbers) -> Tensor:
    return from_array(numpy.ascontiguousarray(rows))


def get_numerical_jacobian_wrt_specific_input(
    fn: Callable[..., Any],
    input_idx: int,
    inputs: Any,
    outputs: Any,
    eps: float,
    input: Tensor | None = None,
    is_forward_ad: bool = False,
) -> tuple[Tensor, ...]:
    """The Jacobian of each output of `fn(*inputs)` by one of its inputs, by central differences.

    outputs: what fn gives at the inputs. input: the tensor that is changed, `inputs[input_idx]`
    unless told.
    """
    given = as_tuple(inputs)
    target = given[input_idx] if input is None else input

    def called(*_: Any) -> Any:
        return fn(*given)

    return _of_first_output(called, (target,), 0, as_tuple(outputs), eps)


def get_analytical_jacobian(
    inputs: Any, output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Tensor, ...], bool, bool, bool]:
    """The Jacobians of a real `output` by each input that requires grad, by backward.

    Also whether two runs agree within nondet_tol, and whether the gradients have the sizes and the
    dtypes of the inputs. Deprecated, as in torch.
    """
    _check_grad_out("get_analytical_jacobian", grad_out)
    if output.dtype.is_complex:
        raise ValueError(
            "Expected output to be non-complex. get_analytical_jacobian no longer supports "
            "functions that return complex outputs."
        )
    _deprecated("get_analytical_jacobian")
    tensors = tuple(each for each in as_tuple(inputs) if is_differentiable(each))
    rows, same = analytical.jacobians(output, tensors)
    again, _ = analytical.jacobians(output, tensors)
    return (
        tuple(map(_matrix, rows)),
        not analytical.differ(rows, again, nondet_tol),
        True,
        same,
    )
