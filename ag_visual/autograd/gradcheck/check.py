"""`gradcheck` and `gradgradcheck`: their arguments, and the order in which things are checked.

Source: https://pytorch.org/docs/2.8/generated/torch.autograd.gradcheck.gradcheck.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual import dtypes
from ag_visual.autograd.gradcheck import backward_checks, compared, forward_checks
from ag_visual.autograd.gradcheck.error import GradcheckError
from ag_visual.autograd.gradcheck.fast import Vectors
from ag_visual.autograd.gradcheck.problem import (
    Problem,
    as_tuple,
    differentiable,
    is_differentiable,
)
from ag_visual.autograd.gradcheck.second import Backward, drawn
from ag_visual.autograd.gradcheck.sparse import check_dense, of_dense
from ag_visual.core import source
from ag_visual.core.diagnosis.errors import report
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare derivatives by autograd with central differences (f(x + eps) - f(x - eps)) / (2 eps).

    func: takes `inputs` and returns a Tensor or several. inputs: a Tensor or several; those that
    require grad are checked, best in torch.float64 or torch.complex128. Entries a of a Jacobian
    agree with the numerical n where |a - n| <= atol + rtol |n|. Of complex outputs the imaginary
    and the real part are checked, each as a function to real numbers. nondet_tol: how much two runs
    of the same backward may differ. check_undefined_grad: gradients that are undefined count as
    zeros. check_grad_dtypes: gradients have the dtype of their inputs. check_batched_grad and
    check_batched_forward_grad: batches of gradients and tangents, through vmap. check_forward_ad:
    forward mode, too; check_backward_ad=False: that alone. fast_mode: compare the Jacobians times
    random vectors, in two calls of `func` for each input. masked: of sparse tensors, look at the
    specified elements alone.

    Returns True. What is wrong is a GradcheckError with both Jacobians, or False with
    raise_exception=False; other errors are raised in any case. Inputs are changed while it runs
    and are afterwards as before.

    >>> import ag_visual as ag
    >>> x = ag.tensor([0.5, 2.0], dtype=ag.float64, requires_grad=True)
    >>> ag.autograd.gradcheck(ag.sin, x)
    True
    >>> ag.autograd.gradcheck(lambda x: x * x.detach(), x, raise_exception=False)
    False
    """
    assert check_forward_ad or check_backward_ad, (
        "Expected at least one of check_forward_ad or check_backward_ad to be True"
    )
    assert not (check_batched_grad and not check_backward_ad), (
        "Setting check_batched_grad=True requires check_backward_ad to be True"
    )
    assert not (check_batched_forward_grad and not check_forward_ad), (
        "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
    )
    try:
        func, inputs = of_dense(func, as_tuple(inputs), bool(masked))
        problem = _posed(func, inputs, eps, atol, rtol, nondet_tol, check_grad_dtypes)
        problem.explain = raise_exception
        if not problem.outputs:
            return True
        fast = Vectors(problem) if fast_mode else None
        columns = compared.backward(problem, fast) if check_backward_ad else None
        if check_forward_ad:
            compared.forward_mode(problem, fast, columns)
            if check_undefined_grad:
                forward_checks.undefined(problem)
        if check_batched_forward_grad:
            forward_checks.batched(problem)
        if check_backward_ad:
            if check_batched_grad:
                backward_checks.batched(problem)
            backward_checks.multiplied(problem)
            if check_undefined_grad:
                backward_checks.undefined(problem)
    except GradcheckError as error:
        if raise_exception:
            error.fields.setdefault("kind", "gradcheck")
            error.fields.setdefault("where", source.resolve_call_site(source.here()))
            report(error)
            raise
        return False
    return True


def _posed(
    func: Callable[..., Any],
    inputs: Any,
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
    check_grad_dtypes: bool,
) -> Problem:
    """The problem: checked inputs, and the outputs of the first call, if any requires grad."""
    given = as_tuple(inputs)
    checked = tuple(number for number, each in enumerate(given) if is_differentiable(each))
    for number in checked:
        _check_input(number, given[number])
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )
    returned = func(*given)
    every = as_tuple(returned)
    outputs = differentiable(returned)
    check_dense(outputs)
    positions = tuple(number for number, each in enumerate(every) if each.requires_grad)
    problem = Problem(
        func, given, checked, outputs, positions, eps, atol, rtol, nondet_tol, check_grad_dtypes
    )
    if not outputs:
        problem.outputs, problem.positions = every, tuple(range(len(every)))
        compared.constant(problem)
        problem.outputs = ()
    return problem


def _check_input(number: int, tensor: Tensor) -> None:
    if tensor.dtype not in (dtypes.float64, dtypes.complex128):
        warn(
            f"Input #{number} requires gradient and is not a double precision floating point or "
            "complex. This check will likely fail if all the inputs are not of double precision "
            "floating point or complex. "
        )
    sizes = zip(tensor.stride(), tensor.shape, strict=True)
    if not all(stride > 0 or size <= 1 for stride, size in sizes):
        raise RuntimeError(
            f"The {number}th input has a dimension with stride 0. gradcheck only supports inputs "
            "that are non-overlapping to be able to compute the numerical gradients correctly. You "
            "should call .contiguous on the input before passing it to gradcheck."
        )


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """`gradcheck` of the backward: compare second derivatives with differences of first ones.

    grad_outputs: the gradients of the outputs that the backward starts with; drawn from -1 to 1
    where they are not given, and with gen_non_contig_grad_outputs not contiguous. They are inputs
    of what is checked, too. check_rev_over_rev: by a backward through the backward;
    check_fwd_over_rev: by forward mode. All else is as in `gradcheck`.

    >>> import ag_visual as ag
    >>> x = ag.tensor([0.5, 2.0], dtype=ag.float64, requires_grad=True)
    >>> ag.autograd.gradgradcheck(ag.sin, x)
    True
    """
    assert check_fwd_over_rev or check_rev_over_rev, (
        "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
    )
    assert not (check_undefined_grad and not check_rev_over_rev), (
        "Setting check_undefined_grad=True requires check_rev_over_rev to be True"
    )
    assert not (check_batched_grad and not check_rev_over_rev), (
        "Setting check_batched_grad=True requires check_rev_over_rev to be True"
    )
    given = as_tuple(inputs)
    if grad_outputs is None:
        outputs = differentiable(func(*given))
        check_dense(outputs)
        seeds = tuple(drawn(output, not gen_non_contig_grad_outputs) for output in outputs)
    else:
        seeds = as_tuple(grad_outputs)
    if not seeds:
        raise TypeError(
            "gradgradcheck() is missing an output that requires grad: nothing that the function "
            "returns does, so there is no backward to check"
        )
    return gradcheck(
        Backward(func, given),
        given + seeds,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )
