"""From two Jacobians that differ to the error: torch's first words, then which entries, and where.

Text for people; `picture` draws the same for notebooks.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy

from ag_visual.arrays.quiet import silent
from ag_visual.autograd.gradcheck.error import GradcheckError
from ag_visual.autograd.gradcheck.mismatch import Mismatch, details, matrices, number
from ag_visual.autograd.gradcheck.numerical import one_sided, values
from ag_visual.autograd.gradcheck.problem import Numbers, Problem, close, numbers
from ag_visual.autograd.gradcheck.second import Backward
from ag_visual.core import source
from ag_visual.core.diagnosis import variable_names
from ag_visual.core.tensor import Tensor, from_array


@silent
def mismatch(
    problem: Problem,
    index: tuple[int, int],
    jacobians: tuple[Numbers, Numbers],
    *,
    mode: str = "backward",
    part: str = "",
    projected: tuple[Any, Any] | None = None,
) -> GradcheckError:
    """The error for an (output, input) whose numerical and analytical Jacobian differ.

    projected: the two numbers that fast mode compared.
    """
    if not problem.explain:
        return GradcheckError("Jacobian mismatch")
    found = _facts(problem, index, jacobians, mode, part)
    lines = [_first_line(found)]
    numerical, analytical = projected or (found.numerical, found.analytical)
    lines += [f"numerical:{numerical}", f"analytical:{analytical}", ""]
    if projected is not None:
        lines += _slow(found)
    lines += details(found)
    return GradcheckError(
        "\n".join(lines), _fields(found, problem.outputs[index[0]].grad_fn), found
    )


def _facts(
    problem: Problem,
    index: tuple[int, int],
    jacobians: tuple[Numbers, Numbers],
    mode: str,
    part: str,
) -> Mismatch:
    output, input = problem.outputs[index[0]], problem.inputs[index[1]]
    node = output.grad_fn
    position, argument = problem.positions[index[0]], problem.checked[index[1]]
    name = _variable(input)
    func = problem.func
    named, result = f"argument {argument} of the function", f"result {position} of the function"
    if isinstance(func, Backward):
        named, result = func.argument(argument), func.result(position)
    if name:
        named += f", `{name}`"
    return Mismatch(
        numerical=from_array(numpy.ascontiguousarray(jacobians[0])),
        analytical=from_array(numpy.ascontiguousarray(jacobians[1])),
        output_index=index[0],
        input_index=index[1],
        mode=mode,
        part=part,
        atol=problem.atol,
        rtol=problem.rtol,
        output_shape=tuple(output.shape),
        input_shape=tuple(input.shape),
        output_name=f"{result}, {_kind(output)}",
        input_name=f"{named}, {_kind(input)}",
        node_name="" if node is None else node.name(),
        site=source.UNKNOWN if node is None else source.resolve_call_site(node.call_site),
        hint=_hint(problem, index, jacobians),
    )


def _kind(tensor: Tensor) -> str:
    return f"{list(tensor.shape)} of {tensor.dtype}"


def _variable(tensor: Tensor) -> str | None:
    """What the program calls a tensor."""
    for scope in variable_names.scopes_of(sys._getframe(1)):
        for name, value in variable_names.tensors_in(scope):
            if value is tensor:
                return name
    return None


def _first_line(found: Mismatch) -> str:
    """torch's words."""
    side = "outputs" if found.mode == "backward" else "inputs"
    part = f"While considering the {found.part} part of complex {side} only, " if found.part else ""
    by = "computed with forward mode mismatch" if found.mode == "forward" else "mismatch"
    return (
        f"{part}Jacobian {by} for output {found.output_index} with respect to input "
        f"{found.input_index},"
    )


def _slow(found: Mismatch) -> list[str]:
    """What fast mode adds: both Jacobians in full, and whether they would have passed."""
    numerical, analytical = matrices(found)
    right = close(analytical, numerical, found.atol, found.rtol)
    lines = [
        "These numbers are the Jacobians times random vectors (fast mode). In full:",
        f"numerical:{found.numerical}",
        f"analytical:{found.analytical}",
        "",
        f"The max per-element difference (slow mode) is: {_largest(analytical - numerical)}.",
    ]
    if right.all():
        lines.append(
            "Fast gradcheck failed but element-wise differences are small. This means that the "
            "test might've passed in slow_mode! Call it with fast_mode=False."
        )
    return [*lines, ""]


def _largest(difference: Numbers) -> float:
    return float(numpy.abs(difference).max()) if difference.size else 0.0


# What a wrong Jacobian looks like -----------------------------------------------------------------


def _hint(problem: Problem, index: tuple[int, int], jacobians: tuple[Numbers, Numbers]) -> str:
    try:
        return _guess(problem, index, jacobians)
    except Exception:  # of the function, which the guess calls again
        return ""


def _guess(problem: Problem, index: tuple[int, int], jacobians: tuple[Numbers, Numbers]) -> str:
    input, (numerical, analytical) = problem.inputs[index[1]], jacobians
    if _unsteady(problem):
        return "the function gives other results for the same inputs: does it draw random numbers?"
    if not numpy.isfinite(numerical).all():
        return "the function is not finite near this input: choose another point"
    if not numpy.isfinite(analytical).all():
        return "the derivative is not finite at this input"
    if not analytical.any():
        return (
            "no gradient arrives at this input: was it detached (detach, data, item, no_grad), or "
            "did a backward return None?"
        )
    shaped = _shaped(numerical, analytical)
    if shaped:
        return shaped
    if any(_is_narrow(each) for each in (input, *problem.outputs)):
        return (
            f"rounding: differences of {problem.eps:g} are too small for the precision of these "
            "tensors; make the inputs torch.float64"
        )
    if _jumps(problem, index, jacobians):
        return "a non-smooth point: the derivatives from left and right differ at this input"
    return ""


def _is_narrow(tensor: Tensor) -> bool:
    """Whether numbers have fewer digits than those of float64."""
    return tensor.dtype.itemsize < (16 if tensor.dtype.is_complex else 8)


def _unsteady(problem: Problem) -> bool:
    """Whether the function gives other numbers when it is called again."""
    again = values(problem)
    return any(
        not numpy.array_equal(now, numbers(first), equal_nan=True)
        for now, first in zip(again, problem.outputs, strict=True)
    )


def _shaped(numerical: Numbers, analytical: Numbers) -> str:
    """Whether the wrong Jacobian is the right one times a number, conjugated or transposed."""
    length = float(numpy.vdot(numerical, numerical).real)
    if not length:
        return "there is a gradient, but the output does not depend on this input"
    ratio = numpy.vdot(numerical, analytical) / length
    if _same(analytical, ratio * numerical):
        times = number(ratio.real if abs(ratio.imag) < 1e-4 * abs(ratio) else ratio)
        return f"the gradient is {times} times what it should be"
    flipped = numerical.conj()  # with the other sign where the imaginary part was checked
    if numpy.iscomplexobj(numerical) and any(_same(analytical, k * flipped) for k in (1, -1)):
        return (
            "the gradient is the conjugate of what it should be: a conj() is missing, or too many"
        )
    if numerical.shape[0] == numerical.shape[1] and _same(analytical, numerical.T):
        return "the Jacobian is transposed: the gradient is multiplied from the wrong side"
    return ""


def _same(a: Numbers, b: Numbers) -> bool:
    scale = float(numpy.abs(b).max())
    return bool(numpy.abs(a - b).max() <= 1e-4 * scale)


def _jumps(problem: Problem, index: tuple[int, int], jacobians: tuple[Numbers, Numbers]) -> bool:
    """Whether the worst entry's derivatives from the right and from the left differ."""
    difference = numpy.abs(jacobians[1] - jacobians[0])
    row, column = numpy.unravel_index(int(difference.argmax()), difference.shape)
    right, left = one_sided(problem, index[1], int(row))[index[0]]
    steps = abs(right[column] - left[column])
    return bool(steps > 0.1 * difference[row, column])


def _fields(found: Mismatch, node: Any) -> dict[str, Any]:
    """For the Inspector: which node, and its line."""
    return {
        "kind": "gradcheck",
        "node_name": found.node_name,
        "node_seq": None if node is None else node.seq,
        "saved_name": "",
        "tensor": {"name": None, "shape": found.output_shape, "dtype": ""},
        "saved": None,
        "writes": [],
        "more_writes": 0,
        "where": found.site,
        "repair": {"text": found.hint, "code": None} if found.hint else None,
    }
