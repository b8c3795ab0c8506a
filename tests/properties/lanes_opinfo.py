"""torch's own samples under the public `vmap`: a mapped call is the stack of the calls on slices.

What the table's samples leave out: functions that are made of others. `python -m
tests.properties.lanes_opinfo [name ...]` runs all of them. No torch is run: both sides are this
package's.
"""

from __future__ import annotations

import argparse
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy

import ag_visual as ag
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.utils._pytree import tree_flatten, tree_unflatten

from ..oracle import torch
from . import opinfo
from .lanes import place_of
from .test_golden import rows

SIZE = 3
REFUSED = ("dynamic shape", "data-dependent control flow", ".item()", "randomness error mode")
REFUSED += ("Batching rule not implemented", "isn't supported yet", "many tensors to allclose")
REFUSED += ("boolean mask", "differently shaped", "in-place is not", "is not possible because")
REFUSED += ("data pointer", "Can't detach views", "Batch norm got a batched", "explicit positive")
"""Of what a slice without values is refused."""


def _varied(x: Tensor, number: int) -> Tensor:
    """Another slice: integers (indices) in another order, other numbers scaled."""
    array = x.numpy(force=True)
    if array.dtype.kind in "iub":
        return from_array(numpy.roll(array, number))
    return from_array(numpy.array(array * (1 + number / 16), dtype=array.dtype))


def _chosen(leaves: list[Any], key: str) -> list[int | None]:
    """A dimension for some of the tensors."""
    random = numpy.random.default_rng(zlib.crc32(key.encode()))
    tensors = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
    dims: list[int | None] = [None] * len(leaves)
    for i in tensors:
        if random.random() < 0.7:
            # What reads memory by strides takes slices as they lie: in front they are row-major.
            dims[i] = 0 if random.random() < 0.5 or "as_strided" in key else -1
    if tensors and not any(d is not None for d in dims):
        dims[tensors[0]] = 0
    return dims


def _outputs(result: Any) -> list[Tensor]:
    return opinfo.leaves_of(result, Tensor)


def checked(function: Callable[..., Any], sample: Any, key: str) -> None:
    """One sample: AssertionError, or what the package raises, where a slice does not."""
    given = opinfo.translated((sample.input, sample.args, sample.kwargs), {})
    leaves, spec = tree_flatten(given)
    leaves = [x.detach() if isinstance(x, Tensor) else x for x in leaves]
    dims = _chosen(leaves, key)
    if not any(d is not None for d in dims):
        return
    slices = [
        [x if d is None else _varied(x, i) for x, d in zip(leaves, dims, strict=True)]
        for i in range(SIZE)
    ]

    def run(values: list[Any]) -> list[Tensor]:
        input, args, kwargs = tree_unflatten(values, spec)
        return _outputs(function(input, *args, **kwargs))

    try:
        expected = [run([_fresh(x) for x in each]) for each in slices]
    except Exception:
        return
    if not expected[0] or any(
        [tuple(a.shape) for a in each] != [tuple(a.shape) for a in expected[0]] for each in expected
    ):
        return
    stacked = [
        leaves[i] if d is None else ag.stack([each[i] for each in slices], d)
        for i, d in enumerate(dims)
    ]
    mapped = [i for i, d in enumerate(dims) if d is not None]

    def one(*lanes: Tensor) -> Any:
        values = [_fresh(x) if isinstance(x, Tensor) else x for x in leaves]
        for i, x in zip(mapped, lanes, strict=True):
            values[i] = x
        return tuple(run(values))

    try:
        found = ag.vmap(one, in_dims=tuple(dims[i] for i in mapped))(*[stacked[i] for i in mapped])
    except RuntimeError as error:
        if any(text in str(error) for text in REFUSED):
            return
        raise
    assert len(found) == len(expected[0])
    for i, out in enumerate(found):
        want = numpy.stack([opinfo.array_of(each[i]) for each in expected])
        got = opinfo.array_of(out)
        if "empty" in key:  # whatever was in memory
            got, want = numpy.zeros_like(got), numpy.zeros_like(want)
        told = opinfo.difference([got], [want])
        assert not told, f"{told} {dims}"


def _fresh(x: Any) -> Any:
    return x.clone() if isinstance(x, Tensor) else x


def names() -> list[str]:
    """All names of the list that torch has samples of."""
    return list(rows("ops.tsv"))


def failures(name: str, most: int | None = None) -> Iterator[str]:
    for info in opinfo.infos(name):
        dtype = torch.float64 if torch.float64 in info.supported_dtypes("cpu") else torch.int64
        function = opinfo.ours_of(info)
        if function is None or dtype not in info.supported_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        for number, sample in enumerate(islice(info.sample_inputs("cpu", dtype), most)):
            try:
                with warnings.catch_warnings(), numpy.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    checked(function, sample, f"{name} {number}")
            except Exception as error:
                told = str(error).strip().splitlines() or [""]
                kind = type(error).__name__
                yield f"{name} #{number}: {kind}: {told[0]} ({place_of(error)})"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help="names (default: all)")
    parser.add_argument("--most", type=int, default=None, help="samples of each variant")
    options = parser.parse_args(arguments)
    count = 0
    for name in options.names or names():
        for line in failures(name, options.most):
            count += 1
            print(line, flush=True)
    print(f"{count} do not hold")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
