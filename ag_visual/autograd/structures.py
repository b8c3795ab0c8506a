"""What the functions of `functional` share: inputs and outputs as tuples, strict mode, zeros."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ag_visual.arrays.backend import backend_for, backend_of
from ag_visual.autograd.api import grad
from ag_visual.core.node import Edge
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.op_node import OpNode
from ag_visual.dispatch.table import traced as F

Tensors = tuple[Tensor, ...]
Found = tuple[Tensor | None, ...]

# What strict mode says of derivative {i} that is None, and of one that requires no grad though
# create_graph=True asked for that. One that is None for a value of these stages is zeros elsewhere.
_NONE: Final = {
    "back": "The output of the user-provided function is independent of input {i}. This is not "
    "allowed in strict mode.",
    "back_trick": "The gradient with respect to the input is independent of entry {i} in the "
    "grad_outputs when using the double backward trick to compute forward mode gradients. This is "
    "not allowed in strict mode.",
    "double_back": "The jacobian of the user-provided function is independent of input {i}. This "
    "is not allowed in strict mode.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {i} "
    "in the grad_jacobian. This is not allowed in strict mode as it prevents from using the double "
    "backward trick to replace forward mode AD.",
}
_CONSTANT: Final = {
    "back": "jacobian",
    "back_trick": "jacobian",
    "double_back": "hessian",
    "double_back_trick": "hessian",
}


def as_tuple(value: Any, what: str, function: str) -> tuple[bool, Tensors]:
    """Whether it is a tuple, and a tuple in any case. Raises TypeError for what is not a Tensor."""
    many = isinstance(value, tuple)
    found = value if many else (value,)
    for index, each in enumerate(found):
        if not isinstance(each, Tensor):
            which = f"the value at index {index}" if many else f"the given {what}"
            raise TypeError(
                f"The {what} given to {function} must be either a Tensor or a tuple of Tensors "
                f"but {which} has type {type(each)}."
            )
    return many, found


def zeros(like: Tensor, *lead: int) -> Tensor:
    """Zeros of the shape, dtype and device of a tensor, with more dimensions in front."""
    array = like._array
    return from_array(backend_of(array).xp.zeros((*lead, *array.shape), array.dtype))


def units(tensors: Tensors) -> Iterator[tuple[slice, Tensor]]:
    """The unit vectors of several tensors together, those of each as one batch of its shape.

    With each batch the slice of it in which the ones of its own elements are.
    """
    start = 0
    whole = sum(each.numel() for each in tensors)
    for each, batch in zip(tensors, unit_rows(tensors, 0, whole), strict=True):
        own = slice(start, start + each.numel())
        start = own.stop
        yield own, batch


def unit_rows(tensors: Sequence[Tensor], start: int, stop: int) -> list[Tensor]:
    """Rows start to stop of the identity over the elements of all tensors, for each of these."""
    found, before = [], 0
    for each in tensors:
        count, xp = each.numel(), backend_for(each.device).xp
        batch = xp.eye(stop - start, count, start - before, each.dtype.np)
        found.append(from_array(batch.reshape((stop - start, *each.shape))))
        before += count
    return found


def unpacked(values: tuple[Any, ...], many: bool) -> Any:
    """The tuple, or its one value where one Tensor was given."""
    return values if many else values[0]


def prepared(tensors: Tensors, create_graph: bool) -> Tensors:
    """What the user's function gets: views where a graph should lead to the inputs, else leaves."""
    return tuple(
        F.view_as(each, each)
        if create_graph and each.requires_grad
        else each.detach().requires_grad_()
        for each in tensors
    )


def finished(tensors: Tensors, create_graph: bool) -> Tensors:
    """Results as the caller gets them."""
    return tensors if create_graph else tuple(each.detach() for each in tensors)


def gradients(
    outputs: Found,
    inputs: Tensors,
    weights: tuple[Tensor | None, ...] | None = None,
    *,
    create_graph: bool,
    retain: bool | None = None,
    batched: bool = False,
) -> Found:
    """`grad` of those outputs that require grad; None for each input where none does."""
    given = weights or (None,) * len(outputs)
    pairs = [
        (output, weight)
        for output, weight in zip(outputs, given, strict=True)
        if output is not None and output.requires_grad
    ]
    if not pairs:
        return (None,) * len(inputs)
    return grad(
        [output for output, _ in pairs],
        inputs,
        [weight for _, weight in pairs],
        retain_graph=retain,
        create_graph=create_graph,
        allow_unused=True,
        is_grads_batched=batched,
    )


def declared(output: Tensor, inputs: Tensors) -> bool:
    """Whether all derivatives of the output are those of ops, with no hook that may change one."""
    if any(each._backward_hooks for each in inputs):
        return False
    ends = {each._edge[0] for each in inputs if each._edge is not None}
    ahead: list[Edge] = [output._edge]
    seen = set(ends)
    while ahead:
        edge = ahead.pop()
        if edge is None or edge[0].leaf or edge[0] in seen:
            continue
        node = edge[0]
        if node.hooks is not None or not isinstance(node, OpNode):
            return False
        seen.add(node)
        ahead += node.next
    return True


def filled(found: Found, inputs: Tensors, strict: bool, create_graph: bool, stage: str) -> Tensors:
    """Zeros for the derivatives that are None, which strict mode refuses."""
    whole = []
    for index, (gradient, each) in enumerate(zip(found, inputs, strict=True)):
        if gradient is None:
            if strict:
                raise RuntimeError(_NONE[stage].format(i=index))
            gradient = zeros(each)
        elif strict and create_graph and not gradient.requires_grad:
            raise RuntimeError(
                f"The {_CONSTANT[stage]} of the user-provided function is independent of input "
                f"{index}. This is not allowed in strict mode when create_graph=True."
            )
        whole.append(gradient)
    return tuple(whole)


def check_vector(vector: Tensors, like: Tensors, many: bool) -> None:
    """The vector has as many tensors, of the same shapes."""
    if len(vector) != len(like):
        if many:
            raise RuntimeError(
                f"v is a tuple of invalid length: should be {len(like)} but got {len(vector)}."
            )
        raise RuntimeError("The given v should contain a single Tensor.")
    for index, (given, expected) in enumerate(zip(vector, like, strict=True)):
        if given.shape != expected.shape:
            which = f"Entry {index} in " if many else ""
            raise RuntimeError(
                f"{which}v has invalid size: should be {expected.shape} but got {given.shape}."
            )


def check_requires_grad(found: Found, kind: str, strict: bool) -> None:
    """Strict mode: what was computed depends on the inputs."""
    if not strict:
        return
    for index, each in enumerate(found):
        if each is None:
            raise RuntimeError(_NONE["back"].format(i=index))
        if not each.requires_grad:
            raise RuntimeError(_independent(kind, index))


def _independent(kind: str, index: int) -> str:
    if kind == "jacobian":
        return (
            "While computing the hessian, found that the jacobian of the user-provided function "
            f"with respect to input {index} is independent of the input. This is not allowed in "
            "strict mode. You should ensure that your function is twice differentiable and that "
            "the jacobian depends on the inputs (this would be violated by a linear function for "
            "example)."
        )
    if kind == "grad_inputs":
        return (
            f"The gradient with respect to input {index} is independent of the inputs of the "
            "user-provided function. This is not allowed in strict mode."
        )
    return (
        f"Output {index} of the user-provided function does not require gradients. The outputs "
        "must be computed in a differentiable manner from the input when running in strict mode."
    )
