"""`vmap`: a function of one example made one of a batch.

Source: https://pytorch.org/docs/2.8/generated/torch.func.vmap.html
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ag_visual.core.level import Batched, Level, settle, wrap
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import traced
from ag_visual.ops.tensor.generator import get_rng_state, set_rng_state
from ag_visual.utils._pytree import (
    TreeSpec,
    broadcast_prefix,
    tree_flatten,
    tree_unflatten,
)

Dims = int | tuple[Any, ...] | None
RANDOMNESS = ("error", "different", "same")


def vmap(
    func: Callable[..., Any],
    in_dims: Dims = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """`func` mapped over a dimension of its inputs, as if called for each slice of them.

    in_dims: which dimension of each input is mapped over, None: that input is the same for all; an
    int for all of them, or a tuple with one for each, nested as the inputs are. Keyword arguments
    are the same for all. out_dims: where the new dimension appears in the outputs.
    randomness: whether random ops are an 'error', draw 'different' numbers for each slice or the
    'same' for all. chunk_size: how many slices are computed at once (default: all).

    `func` must return Tensors, in tuples, lists or dicts. Inside it a tensor has the shape of one
    slice and no values of its own: `.item()`, `if` and ops whose result's shape depends on values
    raise RuntimeError. ValueError where the inputs don't fit in_dims, or the outputs out_dims.

    >>> import ag_visual as ag
    >>> rows = ag.tensor([[1., 2.], [3., 4.]])
    >>> ag.vmap(ag.dot)(rows, rows)
    tensor([ 5., 25.])
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. "
            f"Got {randomness}"
        )
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        call = Mapped(func, in_dims, out_dims, randomness, kwargs)
        return call.in_chunks(args, chunk_size)

    return wrapped


def name_of(func: Callable[..., Any]) -> str:
    """What messages call a function."""
    return getattr(func, "__name__", repr(func))


def _is_dim(value: Any) -> bool:
    return value is None or not isinstance(value, (tuple, list, dict))


class Mapped:
    """One call of a mapped function."""

    def __init__(
        self,
        func: Callable[..., Any],
        in_dims: Any,
        out_dims: Any,
        randomness: str,
        kwargs: dict[str, Any],
    ) -> None:
        self.func = func
        self.in_dims = in_dims
        self.out_dims = out_dims
        self.randomness = randomness
        self.kwargs = kwargs

    @property
    def name(self) -> str:
        return name_of(self.func)

    def in_chunks(self, args: tuple[Any, ...], chunk_size: int | None) -> Any:
        leaves, spec, dims = self._inputs(args)
        size = self._size(leaves, dims)
        if chunk_size is None or chunk_size >= size > 0:
            outputs, out_spec, outs = self._run(leaves, dims, spec, size)
            return tree_unflatten(map(self._placed, outputs, outs), out_spec)
        if not size:
            raise AssertionError(
                "arg_spec must not be None: a batch of size 0 cannot be computed in chunks"
            )
        chunks = []
        begin = get_rng_state() if self.randomness == "same" else None
        for start in range(0, size, chunk_size):
            if begin is not None:
                set_rng_state(begin)  # each chunk draws the same numbers
            count = min(chunk_size, size - start)
            part = [
                x if d is None else x.narrow(d, start, count)
                for x, d in zip(leaves, dims, strict=True)
            ]
            chunks.append(self._run(part, dims, spec, count))
        _, out_spec, outs = chunks[0]
        columns = zip(*[c[0] for c in chunks], strict=True)
        found = []
        for column, dim in zip(columns, outs, strict=True):
            whole = column[0] if dim is None else traced.cat(list(column), 0)
            found.append(self._placed(whole, dim))
        return tree_unflatten(found, out_spec)

    def _inputs(self, args: tuple[Any, ...]) -> tuple[list[Any], TreeSpec, list[Any]]:
        """The leaves of the positional arguments and their dimensions."""
        in_dims = self.in_dims
        if not isinstance(in_dims, (int, tuple)):
            raise ValueError(
                f"{self._where()}expected `in_dims` to be int or a (potentially nested) tuple "
                "matching the structure of inputs, got: "
                f"{type(in_dims)}."
            )
        if not args:
            raise ValueError(
                f"vmap({self.name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or "
                "you are trying to vmap over a function with no inputs. The latter is unsupported."
            )
        leaves, spec = tree_flatten(args)
        dims = broadcast_prefix(in_dims, spec, _is_dim)
        if dims is None:
            raise ValueError(
                f"{self._where()}in_dims is not compatible with the structure of `inputs`. in_dims "
                f"has structure {tree_flatten(in_dims)[1]} but inputs has structure {spec}."
            )
        found = []
        for x, dim in zip(leaves, dims, strict=True):
            if dim is None:
                found.append(None)
                continue
            if not isinstance(dim, int):
                raise ValueError(
                    f"{self._where()}Got in_dim={dim} for an input but in_dim must be either an "
                    "integer dimension or None."
                )
            if not isinstance(x, Tensor):
                raise ValueError(
                    f"{self._where()}Got in_dim={dim} for an input but the input is of type "
                    f"{type(x)}. We cannot vmap over non-Tensor arguments, please use None as the "
                    "respective in_dim"
                )
            rank = x._array.ndim
            if not -rank <= dim < rank:
                raise ValueError(
                    f"{self._where()}Got in_dim={dim} for some input, but that input is a Tensor "
                    f"of dimensionality {rank} so expected in_dim to satisfy -{rank} <= in_dim "
                    f"< {rank}."
                )
            found.append(dim + rank if dim < 0 else dim)
        return leaves, spec, found

    def _where(self) -> str:
        return f"vmap({self.name}, in_dims={self.in_dims}, ...)(<inputs>): "

    @staticmethod
    def _size(leaves: list[Any], dims: list[Any]) -> int:
        sizes = [x._array.shape[d] for x, d in zip(leaves, dims, strict=True) if d is not None]
        if not sizes:
            raise ValueError("vmap: Expected at least one Tensor to vmap over")
        if sizes.count(sizes[0]) != len(sizes):
            raise ValueError(
                "vmap: Expected all tensors to have the same size in the mapped dimension, got "
                f"sizes {sizes} for the mapped dimension"
            )
        return int(sizes[0])

    def _run(
        self, leaves: list[Any], dims: list[Any], spec: TreeSpec, size: int
    ) -> tuple[list[Any], TreeSpec, list[Any]]:
        """One call: the output of every leaf with the batch in front, and where it is to be."""
        level = Level("vmap", size, self.randomness)
        given = [
            x if d is None else wrap(Batched, level, x.movedim(d, 0) if d else settle(x))
            for x, d in zip(leaves, dims, strict=True)
        ]
        result = level.run(self.func, *tree_unflatten(given, spec), **self.kwargs)
        outputs, out_spec = tree_flatten(result)
        outs = self._outs(out_spec)
        found = [self._out(x, d, level) for x, d in zip(outputs, outs, strict=True)]
        return found, out_spec, outs

    def _outs(self, spec: TreeSpec) -> list[Any]:
        """The out_dim of every leaf of the output."""
        out_dims = self.out_dims
        if type(out_dims) is int:
            return [out_dims] * spec.num_leaves
        leaves = tree_flatten(out_dims, lambda x: x is None)[0]
        if not all(d is None or (isinstance(d, int) and not isinstance(d, bool)) for d in leaves):
            raise ValueError(
                f"vmap({self.name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or "
                "a python collection of ints representing where in the outputs the vmapped "
                "dimension should appear."
            )
        found = broadcast_prefix(out_dims, spec, _is_dim)
        if found is None and isinstance(out_dims, tuple) and len(out_dims) == 1 and spec.is_leaf():
            found = list(out_dims)
        if found is None:
            raise ValueError(
                f"vmap({self.name}, ..., out_dims={out_dims})(<inputs>): out_dims is not "
                f"compatible with the structure of `outputs`. out_dims has structure "
                f"{tree_flatten(out_dims)[1]} but outputs has structure {spec}."
            )
        return found

    def _out(self, x: Any, dim: int | None, level: Level) -> Any:
        """An output: with the batch in front where it is to have one."""
        if dim is None:
            if isinstance(x, Batched) and x.level is level:
                raise ValueError(
                    f"vmap({self.name}, ...): `{self.name}` can not return a BatchedTensor when "
                    "out_dim is None"
                )
            return x
        if not isinstance(x, Tensor):
            raise ValueError(
                f"vmap({self.name}, ...): `{self.name}` must only return Tensors, got type "
                f"{type(x)}. Did you mean to set out_dims= to None for output?"
            )
        return level.whole(x)

    @staticmethod
    def _placed(x: Any, dim: int | None) -> Any:
        """An output with the batch where out_dims wants it."""
        return x.movedim(0, dim) if dim else x


__all__ = ["vmap"]
