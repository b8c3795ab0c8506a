"""`jacrev`, `jacfwd` and `hessian`: whole Jacobians of functions.

Source: https://pytorch.org/docs/2.8/func.api.html
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ag_visual.autograd.structures import unit_rows
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import traced
from ag_visual.events import instrument, jacobians
from ag_visual.func.forward import jvp
from ag_visual.func.inputs import Argnums, checked_argnums, chosen, replaced
from ag_visual.func.reverse import Taped, vjp_of_taped
from ag_visual.func.vmap import Mapped, vmap
from ag_visual.utils._pytree import TreeSpec, tree_flatten, tree_unflatten


def _check_real(what: str, leaves: list[Any]) -> None:
    for index, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor) and leaf.is_complex():
            raise RuntimeError(
                f"{what}: Expected all inputs to be real but received complex tensor at flattened "
                f"input idx: {index}"
            )


def _in_chunks(
    rows: Callable[[list[Tensor]], list[Tensor]], leaves: list[Any], chunk_size: int | None
) -> list[Tensor]:
    """What `rows` makes of all unit vectors, so many at once."""
    total = sum(_sizes(leaves))
    step = total if chunk_size is None or not total else min(chunk_size, total)
    if step == total:
        return rows(unit_rows(leaves, 0, total))
    parts = [
        rows(unit_rows(leaves, start, min(start + step, total))) for start in range(0, total, step)
    ]
    return [traced.cat(list(column), 0) for column in zip(*parts, strict=True)]


def _sizes(leaves: list[Any]) -> list[int]:
    return [leaf.numel() for leaf in leaves]


def _parts(column: Tensor, sizes: list[int]) -> Any:
    """The rows of each size."""
    return (column,) if len(sizes) == 1 else column.split(sizes, dim=0)  # type: ignore[arg-type]


def _shaped(block: Tensor, shape: tuple[int, ...]) -> Tensor:
    return block if block.shape == shape else block.reshape(shape)


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `func`, by reverse mode: a row at a time, all at once.

    argnums: as in `grad`. The Jacobian is nested as the outputs of `func` are, and in each of these
    as the inputs: a Tensor of shape `(*output.shape, *input.shape)`. has_aux: `func` returns
    (output, aux), the function (Jacobian, aux). chunk_size: how many rows at once (default: all).
    Inputs must be real. Cheaper than `jacfwd` where outputs have fewer elements than inputs.

    >>> import ag_visual as ag
    >>> ag.func.jacrev(ag.sin)(ag.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        numbers = checked_argnums(argnums, len(args))
        called = functools.partial(func, **kwargs) if kwargs else func
        taped = Taped(called, args, numbers)
        found = vjp_of_taped(taped, has_aux)
        output, pull = found[:2]
        inputs, in_spec = tree_flatten(chosen(args, numbers))
        _check_real("jacrev", inputs)
        outputs, out_spec = tree_flatten(output)

        def rows(units: list[Tensor]) -> list[Tensor]:
            def row(*cotangents: Tensor) -> Any:
                return tuple(tree_flatten(pull(tree_unflatten(cotangents, out_spec)))[0])

            return list(Mapped(row, 0, 0, "error", {}).in_chunks(tuple(units), None))

        columns = _in_chunks(rows, outputs, chunk_size)
        sizes = _sizes(outputs)
        split = [_parts(column, sizes) for column in columns]
        blocks = [
            [_shaped(split[i][o], (*out.shape, *x.shape)) for i, x in enumerate(inputs)]
            for o, out in enumerate(outputs)
        ]
        if instrument.jacobian is not None:
            made = tree_flatten(taped.output[0] if has_aux else taped.output)[0]
            ends = [edge and edge[0].seq for edge in taped.edges]
            _emit(
                "jacrev", func, args, numbers, ([jacobians.seq_of(x) for x in made], ends), blocks
            )
        result = _nested(blocks, out_spec, in_spec)
        return (result, found[2]) if has_aux else result

    return wrapped


def _emit(
    kind: str,
    func: Callable[..., Any],
    args: tuple[Any, ...],
    numbers: Argnums,
    seqs: tuple[list[int | None], list[int | None]],
    blocks: list[list[Tensor]],
) -> None:
    """Tell an observer of a Jacobian. seqs: of the nodes of its outputs, and of its inputs."""
    places = (numbers,) if isinstance(numbers, int) else numbers
    sizes = [tree_flatten(args[at])[1].num_leaves for at in places]
    inputs = tree_flatten(chosen(args, numbers))[0]
    ends = zip(jacobians.names_of(func, places, sizes), inputs, seqs[1], strict=True)
    columns = [jacobians.End(name, tuple(x.shape), seq) for name, x, seq in ends]
    jacobians.emit(kind, func, columns, seqs[0], blocks)


def _nested(blocks: list[list[Tensor]], out_spec: TreeSpec, in_spec: TreeSpec) -> Any:
    return tree_unflatten([tree_unflatten(row, in_spec) for row in blocks], out_spec)


def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """A function that gives the Jacobian of `func`, by forward mode: a column at a time.

    As `jacrev`, and cheaper than it where inputs have fewer elements than outputs. randomness: of
    the `vmap` over the columns.

    >>> import ag_visual as ag
    >>> ag.func.jacfwd(lambda x: ag.stack([x, x * x]))(ag.tensor(3.))
    tensor([1., 6.])
    """
    return _by_columns("jacfwd", func, argnums, has_aux, randomness)


def _by_columns(
    kind: str, func: Callable[..., Any], argnums: Argnums, has_aux: bool, randomness: str
) -> Callable[..., Any]:
    """`jacfwd`. kind: what observers are told that it is."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        numbers = checked_argnums(argnums, len(args))
        selected = chosen(args, numbers)
        inputs, in_spec = tree_flatten(selected)
        _check_real("jacfwd", inputs)
        kept: list[Any] = []

        def partial_call(*chosen_inputs: Any) -> Any:
            tree = tree_unflatten(chosen_inputs, in_spec)
            return func(*replaced(args, numbers, tree), **kwargs)

        def column(*tangents: Tensor) -> Any:
            found = jvp(partial_call, tuple(inputs), tangents, has_aux=has_aux)
            kept[:] = [tree_flatten(found[0])]
            moved = tuple(tree_flatten(found[1])[0])
            return (moved, found[2]) if has_aux else moved

        outs = (0, None) if has_aux else 0
        found = vmap(column, randomness=randomness, out_dims=outs)(
            *unit_rows(inputs, 0, sum(_sizes(inputs)))
        )
        columns, aux = found if has_aux else (found, None)
        outputs, out_spec = kept[0]
        sizes = _sizes(inputs)
        blocks = []
        for out, whole in zip(outputs, columns, strict=True):
            blocks.append(
                [
                    _shaped(part.movedim(0, -1), (*out.shape, *x.shape))
                    for part, x in zip(_parts(whole, sizes), inputs, strict=True)
                ]
            )
        if instrument.jacobian is not None:
            seqs: list[int | None] = [None] * len(outputs)
            _emit(kind, func, args, numbers, (seqs, [jacobians.seq_of(x) for x in inputs]), blocks)
        result = _nested(blocks, out_spec, in_spec)
        return (result, aux) if has_aux else result

    return wrapped


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that gives the Hessian of `func`: `jacfwd(jacrev(func))`, forward over reverse.

    >>> import ag_visual as ag
    >>> ag.func.hessian(lambda x: (x ** 3).sum())(ag.tensor([1., 2.]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return _by_columns("hessian", jacrev(func, argnums), argnums, False, "error")


__all__ = ["hessian", "jacfwd", "jacrev"]
