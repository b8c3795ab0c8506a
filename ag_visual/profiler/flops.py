"""Floating-point operations of ops, from what they were called with.

As torch counts them: mm, addmm, bmm, baddbmm, conv1d to conv3d, add, mul. Beyond torch: mv, dot,
elementwise ops and reductions, one for each element, and matmul where no mm or bmm is inside of it.
"""

from __future__ import annotations

import ast
import functools
import math
from typing import Any

import numpy

from ag_visual.dispatch import table
from ag_visual.profiler.columns import Columns
from ag_visual.profiler.inputs import SIZES, Inputs
from ag_visual.profiler.names import name_of


def into(columns: Columns) -> None:
    """Give each span its operations, where there is a formula and its inputs are known."""
    spans = columns.spans
    known = numpy.flatnonzero(spans["inputs"] >= 0)
    keys = spans["name"][known].astype(numpy.int64) << 32 | spans["inputs"][known]
    pairs, back = numpy.unique(keys, return_inverse=True)
    counts = [
        flops(columns.names[key >> 32], columns.inputs[key & 0xFFFFFFFF]) for key in pairs.tolist()
    ]
    if counts:
        spans["flops"][known] = numpy.array(counts, numpy.int64)[back]
    if "aten::matmul" in columns.names:
        around = spans["last"] > numpy.arange(len(spans)) + 1
        spans["flops"][around & (spans["name"] == columns.names.index("aten::matmul"))] = 0


def flops(name: str, inputs: Inputs) -> int:
    """Operations of one call; 0 where they are not counted."""
    way = _ways().get(name.removeprefix("aten::"))
    if way is None:
        return 0
    try:
        return _count(way, inputs)
    except (IndexError, KeyError, TypeError, ValueError):  # called in a way that it does not know
        return 0


def moved(columns: Columns) -> Any:
    """Of each span, the bytes that its op reads and writes at least: its arguments and its result,
    each once. 0 where operations are not counted, or inputs are not known.
    """
    spans = columns.spans
    known = numpy.flatnonzero(spans["flops"] > 0)
    found = numpy.zeros(len(spans), numpy.int64)
    if len(known):
        keys = spans["name"][known].astype(numpy.int64) << 32 | spans["inputs"][known]
        pairs, back = numpy.unique(keys, return_inverse=True)
        sizes = [
            _traffic(columns.names[key >> 32], columns.inputs[key & 0xFFFFFFFF])
            for key in pairs.tolist()
        ]
        found[known] = numpy.array(sizes, numpy.int64)[back]
    return found


def _traffic(name: str, inputs: Inputs) -> int:
    pairs = zip(inputs.dims, inputs.types, strict=True)
    tensors = [(dims, SIZES[type]) for dims, type in pairs if type in SIZES]
    if not tensors:
        return 0
    try:
        written = _written(name.removeprefix("aten::"), inputs)
    except (IndexError, KeyError, TypeError, ValueError):
        return 0
    read = sum(math.prod(dims) * size for dims, size in tensors)
    return int(read + written * max(size for _, size in tensors))


@functools.cache
def _ways() -> dict[str, tuple[str, int]]:
    """How each op is counted, by its name in a profile, and its first factor."""
    ways = {}
    for key, declared in table.flops.items():
        word, _, first = declared.partition(" ")
        name = name_of(key)
        ways[f"{name}"] = way = word, int(first or 0)
        if word == "elements":
            ways[f"{name}_"] = way
    return ways


def _count(way: tuple[str, int], inputs: Inputs) -> int:
    word, first = way
    if word == "convolution":
        return _of_convolution(inputs)
    if word == "product":
        return int(2 * inputs.dims[first][-1] * _entries(inputs, first))
    return math.prod(inputs.dims[0] if inputs.types[0] != "Scalar" else inputs.dims[1])


def _written(name: str, inputs: Inputs) -> int:
    """Elements of a result; of a reduction at least one."""
    word, first = way = _ways()[name]
    if word == "reduction":
        return 1
    if word == "convolution":
        return int(_count(way, inputs) // (2 * math.prod(inputs.dims[1][1:])))
    if word == "product":
        return _entries(inputs, first)
    return int(math.prod(numpy.broadcast_shapes(*inputs.dims)))


def _entries(inputs: Inputs, first: int) -> int:
    """Elements of the product of two arguments."""
    left, right = inputs.dims[first], inputs.dims[first + 1]
    left, right = left if len(left) > 1 else (1, *left), right if len(right) > 1 else (*right, 1)
    batches = numpy.broadcast_shapes(left[:-2], right[:-2])
    return int(math.prod(batches) * left[-2] * right[-1])


def _of_convolution(inputs: Inputs) -> int:
    image, weight = inputs.dims[0], inputs.dims[1]
    rank = len(weight) - 2
    stride = _per_dim(inputs, 3, "stride", 1, rank)
    padding = _per_dim(inputs, 4, "padding", 0, rank)
    dilation = _per_dim(inputs, 5, "dilation", 1, rank)
    # (Inputs divided by groups is what the weight has.)
    sizes = [
        (image[-rank + i] + 2 * padding[i] - dilation[i] * (weight[2 + i] - 1) - 1) // stride[i] + 1
        for i in range(rank)
    ]
    batch = image[0] if len(image) == rank + 2 else 1
    return int(2 * batch * math.prod(weight) * math.prod(sizes))


def _per_dim(inputs: Inputs, at: int, name: str, default: int, rank: int) -> Any:
    text = dict(inputs.named).get(name) or (inputs.concrete[at] if at < len(inputs.dims) else "")
    value = ast.literal_eval(text) if text else default
    return (value,) * rank if isinstance(value, int) else value
