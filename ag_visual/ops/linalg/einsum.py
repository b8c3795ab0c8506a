"""einsum: sums of products, written in subscripts."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Sequence
from typing import Any

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import composite
from ag_visual.errors import type_name

_WITHOUT_ELLIPSIS = re.compile("[a-zA-Z, ]*(->[a-zA-Z ]*)?")


def _check_equation(equation: str) -> None:
    """RuntimeError unless there are letters, commas, one arrow, one ellipsis for each term."""
    if _WITHOUT_ELLIPSIS.fullmatch(equation):
        return
    arrow = equation.find("->")
    left = len(equation) if arrow < 0 else arrow
    operand, at, dots = 0, 0, False
    while at < len(equation):
        what = f"operand {operand}" if at < left else "output"
        step = 1
        if at == arrow:
            step, dots = 2, False
        elif equation[at] == ".":
            if dots:
                but = "but" if at > left else "for which"
                raise RuntimeError(
                    f"einsum(): found '.' for {what} {but} an ellipsis (...) was already found: "
                    f"{equation!r}"
                )
            if not equation.startswith("...", at):
                raise RuntimeError(
                    f"einsum(): found '.' for {what} that is not part of any ellipsis (...): "
                    f"{equation!r}"
                )
            step, dots = 3, True
        elif equation[at] == "," and at < left:
            operand, dots = operand + 1, False
        elif equation[at] not in string.ascii_letters + " ":
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {at} in the equation string, "
                f"subscripts must be in [a-zA-Z]: {equation!r}"
            )
        at += step


_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def _letters(subscripts) -> str:
    """The part of an equation that a list of numbers and `...` stands for: [0, 27] is "Ab"."""
    if not isinstance(subscripts, (list, tuple)):
        raise TypeError(
            "einsum(): expected a list of subscripts after each operand, but got "
            f"{type(subscripts).__name__}"
        )
    for x in subscripts:
        if x is not Ellipsis and not isinstance(x, int):
            raise TypeError(
                f"einsum(): a subscript must be int or Ellipsis, not {type(x).__name__}"
            )
        if x is not Ellipsis and not 0 <= x < len(_LETTERS):
            raise ValueError(
                "einsum(): subscript in subscript list is not within the valid range "
                f"[0, {len(_LETTERS)}): {x}"
            )
    return "".join("..." if x is Ellipsis else _LETTERS[x] for x in subscripts)


def _equation_of(args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The equation and the operands of `einsum(x, [0, 1], y, [1, 2], [0, 2])`."""
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    pairs = len(args) // 2 * 2
    equation = ",".join(map(_letters, args[1:pairs:2]))
    if len(args) > pairs:
        equation += f"->{_letters(args[-1])}"
    return equation, args[0:pairs:2]


def _subscripts(equation: str, ndims: list[int]) -> tuple[list[list[str]], list[str]]:
    """The labels of each operand and of the result; an ellipsis becomes labels of its own."""
    _check_equation(equation)
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        amount = "more" if len(terms) < len(ndims) else "fewer"
        raise RuntimeError(
            f"einsum(): {amount} operands were provided than specified in the equation: "
            f"{len(ndims)} for {equation!r}"
        )
    longest = 0
    for i, (term, ndim) in enumerate(zip(terms, ndims, strict=True)):
        named = len(term.replace("...", ""))
        if named > ndim or ("..." not in term and named != ndim):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) does not match the "
                f"number of dimensions ({ndim}) for operand {i}"
                f"{'' if '...' in term else ' and no ellipsis was given'}"
            )
        longest = max(longest, ndim - named if "..." in term else 0)
    extra = [f"...{i}" for i in range(longest)]

    def labels(term: str, ndim: int) -> list[str]:
        before, dots, after = term.partition("...")
        rest = extra[len(extra) - (ndim - len(before) - len(after)) :] if dots else []
        return [*before, *rest, *after]

    found = [labels(term, ndim) for term, ndim in zip(terms, ndims, strict=True)]
    if arrow:
        letters = right.replace("...", "")
        for x in letters:
            if letters.count(x) > 1:
                raise RuntimeError(
                    f"einsum(): output subscript {x} appears more than once in the output: "
                    f"{right!r}"
                )
        named = len(letters)
        return found, labels(right, named + longest if "..." in right else named)
    seen = [label for term in found for label in term]
    return found, [*extra, *sorted({x for x in seen if seen.count(x) == 1 and x not in extra})]


def _check_sizes(terms: list[list[str]], operands: Sequence[Any]) -> None:
    """One label, one size (or 1)."""
    seen: dict[str, int] = {}
    for i, (labels, x) in enumerate(zip(terms, operands, strict=True)):
        for label, size in zip(labels, x.shape, strict=True):
            known = seen.get(label, 1)
            if size != known and size != 1 and known != 1:
                raise RuntimeError(
                    f"einsum(): subscript {label} has size {size} for operand {i} which does not "
                    f"broadcast with previously seen size {known}"
                )
            seen[label] = size if known == 1 else known


def _diagonals(F, x, labels: list[str]) -> tuple[Any, list[str]]:
    """Labels that repeat within one operand, as diagonals."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = F.movedim(F.diagonal(x, 0, i, j), -1, i)
            labels = labels[:j] + labels[j + 1 :]
    return x, labels


def _aligned(F, x, labels: list[str], order: list[str]):
    """An operand with one dimension for each label of `order`, of size 1 where it has none."""
    missing = [label for label in order if label not in labels]
    for _ in missing:
        x = F.unsqueeze(x, x.ndim)
    labels = labels + missing
    return F.permute(x, tuple(labels.index(label) for label in order))


def _sum_of_products(F, left, right, summed: list[int]):
    """Two aligned operands multiplied and summed over dimensions that both have: one bmm."""
    # Where nothing is summed torch multiplies, which promotes; a batched product does not.
    if not summed:
        return F.mul(left, right)
    both: list[int] = []
    ours: list[int] = []
    theirs: list[int] = []
    for i, (m, n) in enumerate(zip(left.shape, right.shape, strict=True)):
        if i not in summed:
            (both if m != 1 != n else ours if m != 1 else theirs).append(i)
    if ours and theirs and theirs[-1] < ours[0]:
        # The result is wanted the other way round: no need to transpose it.
        left, right, ours, theirs = right, left, theirs, ours

    def arranged(x, *groups: list[int]):
        rest = theirs if groups[1] is ours else ours
        x = F.permute(x, tuple(i for group in (*groups, rest) for i in group))
        count = len(x.shape) - len(rest)
        sizes = iter(tuple(x.shape)[:count])
        return F.reshape(x, tuple(math.prod(next(sizes) for _ in group) for group in groups))

    product = F.bmm(arranged(left, both, ours, summed), arranged(right, both, summed, theirs))
    order = both + ours + summed + theirs
    shape = [left.shape[i] for i in both + ours] + [1] * len(summed)
    shape += [right.shape[i] for i in theirs]
    places = tuple(order.index(i) for i in range(len(order)))
    return F.permute(F.view_size(product, tuple(shape)), places)


@composite("einsum", method=False, autocast="cuda lower")
def _einsum(F, equation: str, *operands):
    """Products of operands, summed over the labels that the result does not name.

    `einsum("bij,bjk->bik", x, y)` is a batch of matrix products; so is the form with numbers,
    `einsum(x, [0, 1, 2], y, [0, 2, 3], [0, 1, 3])`.
    """
    if not isinstance(equation, str):
        if not hasattr(equation, "ndim"):
            raise TypeError(
                "einsum(): argument 'equation' (position 1) must be str, not "
                f"{type(equation).__name__}"
            )
        equation, operands = _equation_of((equation, *operands))
    if not operands:
        _equation_of(())
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    for i, x in enumerate(operands):
        if not isinstance(x, Tensor) and F.traced:
            raise TypeError(
                f"einsum(): expected Tensor as element {i} in argument 1, but got {type_name(x)}"
            )
    terms, output = _subscripts(equation, [x.ndim for x in operands])
    for label in output:
        if not any(label in term for term in terms):
            raise RuntimeError(
                f"einsum(): output subscript {label} does not appear in the equation for any "
                f"input operand: {equation}"
            )
    _check_sizes(terms, operands)
    names = {label for term in terms for label in term}
    order = [*output, *sorted(names - set(output))]
    pairs = (_diagonals(F, x, labels) for x, labels in zip(operands, terms, strict=True))
    aligned = [_aligned(F, x, labels, order) for x, labels in pairs]
    inner = range(len(output), len(order))
    if len(aligned) == 1:
        return F.sum(aligned[0], tuple(inner)) if inner else aligned[0]
    # How many operands still have a dimension that is to be summed.
    left = [sum(x.shape[i] != 1 for x in aligned) for i in range(len(order))]
    result = aligned[0]
    for x in aligned[1:]:
        summed: list[int] = []
        alone: tuple[list[int], list[int]] = ([], [])
        for i in inner:
            if result.shape[i] != 1 != x.shape[i]:
                left[i] -= 1
                if left[i] == 1:
                    summed.append(i)
                    left[i] = 0
            elif left[i] == 1 and (result.shape[i] != 1 or x.shape[i] != 1):
                alone[result.shape[i] == 1].append(i)
                left[i] = 0
        result = F.sum(result, tuple(alone[0]), True) if alone[0] else result
        x = F.sum(x, tuple(alone[1]), True) if alone[1] else x
        result = _sum_of_products(F, result, x, summed)
    return F.view_size(result, tuple(result.shape)[: len(output)]) if inner else result


@composite("bilinear", method=False, spaces="torch nn.functional", autocast="cpu keep, cuda widest")
def _bilinear(F, input1, input2, weight, bias=None):
    """y_k = x1^T W_k x2 + b_k over the last dimensions."""
    result = F.einsum("...i,kij,...j->...k", input1, weight, input2)
    return result if bias is None else F.add(result, bias)
