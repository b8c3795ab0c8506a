"""`grad`, `grad_and_value` and `vjp`: reverse mode of functions.

Source: https://pytorch.org/docs/2.8/func.api.html
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ag_visual.autograd import api
from ag_visual.autograd.graph import NO_SAVED_HOOKS
from ag_visual.core import modes, source
from ag_visual.core.level import Level, settle
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import traced
from ag_visual.engine.run import run_backward
from ag_visual.func.inputs import (
    Argnums,
    check_outputs,
    checked_argnums,
    chosen,
    constants,
    lifted,
    lowered,
    replaced,
    split_aux,
)
from ag_visual.utils._pytree import tree_flatten, tree_map, tree_unflatten


class Taped:
    """A call whose inputs a level has followed: its outputs, and how they lead to the inputs."""

    def __init__(self, func: Callable[..., Any], args: tuple[Any, ...], argnums: Argnums) -> None:
        _check_no_saved_hooks()
        level = self.level = Level("grad")
        given = lifted(level, chosen(args, argnums), True)
        leaves, self.spec = tree_flatten(given)
        self.edges = [leaf.gradient_edge() for leaf in leaves]
        self.inputs = leaves
        chosen_at = {argnums} if isinstance(argnums, int) else set(argnums)
        rest = tuple(a if n in chosen_at else constants(level, a) for n, a in enumerate(args))
        self.output = level.run(func, *replaced(rest, argnums, given))

    def back(self, outputs: list[Any], seeds: list[Any], retain: bool) -> Any:
        """The gradients of the inputs, zeros where none arrives, as these are nested."""
        roots, ends = [], list(seeds)
        for output, seed in zip(outputs, seeds, strict=True):
            edge = output._edge or (Tensor.gradient_edge(output) if output._rg else None)
            if edge is not None:
                roots.append((edge, seed))
                ends.append(output.value)
        found = [None] * len(self.edges)
        if roots:
            # Where nothing below has a graph, none of the gradients is recorded.
            graph = any(type(t) is not Tensor or t._rg for t in ends)
            found = run_backward(
                [edge for edge, _ in roots],
                [seed for _, seed in roots],
                retain=retain,
                create_graph=graph and modes.grad_enabled(),
                call_site=source.here(),
                inputs=self.edges,
                into_leaves=False,
            )
        values = [
            _zeros(leaf.value) if g is None else settle(g)
            for leaf, g in zip(self.inputs, found, strict=True)
        ]
        return tree_unflatten(values, self.spec)


def _zeros(value: Tensor) -> Tensor:
    value = settle(value).detach()
    zeros: Tensor = traced.zeros_of(value, tuple(value.shape))
    return zeros


def _check_no_saved_hooks() -> None:
    if modes.state.saved_hooks or modes.state.mutation is not None:
        raise RuntimeError(NO_SAVED_HOOKS)


_BOTH = "grad_and_value(f)(*args)"


def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives (gradient, value) of `func`, which returns a 0-d Tensor.

    argnums, has_aux: as in `grad`; with has_aux it gives (gradient, (value, aux)).

    >>> import ag_visual as ag
    >>> ag.func.grad_and_value(lambda x: x * x)(ag.tensor(3.))
    (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        numbers = checked_argnums(argnums, len(args))
        taped = Taped(functools.partial(func, **kwargs) if kwargs else func, args, numbers)
        output, aux = taped.output, None
        if has_aux:
            output, aux = split_aux(output, _BOTH)
        if not isinstance(output, Tensor):
            raise RuntimeError(f"{_BOTH}: Expected f(*args) to return a Tensor, got {type(output)}")
        if output.dim():
            raise RuntimeError(
                f"{_BOTH}: Expected f(*args) to return a scalar Tensor, got tensor with "
                f"{output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        value = lowered(taped.level, output)
        # (What does not depend on the inputs may be complex: nobody differentiates it.)
        seed = api._seed(value, None, 0) if output._edge or output._rg else value
        found = taped.back([output], [seed], retain=False)
        if has_aux:
            return found, (value, _outside(taped.level, aux))
        return found, value

    return wrapped


def _outside(level: Level, tree: Any) -> Any:
    """Outputs that carry nothing of the level: aux."""
    return tree_map(settle, lowered(level, tree))


def grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradient of `func`, which returns a 0-d Tensor.

    argnums: with respect to which positional argument: an int, or a tuple of them, for which the
    function gives a tuple. An argument may be a tuple, list or dict of Tensors; its gradient is
    nested likewise. has_aux: `func` returns (output, aux), and the function gives
    (gradient, aux). The function can be transformed again: `grad(grad(f))`, `vmap(grad(f))`.

    >>> import ag_visual as ag
    >>> ag.func.grad(ag.sin)(ag.tensor(0.))
    tensor(1.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapped


_VJP = "vjp(f, *primals)"


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """`func(*primals)` and a function from cotangents to the vector-Jacobian products.

    The cotangents are nested as the outputs are; the products are a tuple with one for each primal,
    of a single primal it alone. has_aux: `func` returns (output, aux): (output, function, aux).
    The function may be called often: it keeps what it needs (retain_graph=False lets go of it).

    >>> import ag_visual as ag
    >>> out, pull = ag.func.vjp(ag.sin, ag.zeros(2))
    >>> pull(ag.tensor([1., 2.]))
    (tensor([1., 2.]),)
    """
    return vjp_of(func, primals, tuple(range(len(primals))), has_aux)


def vjp_of(
    func: Callable[..., Any], primals: tuple[Any, ...], argnums: Argnums, has_aux: bool
) -> Any:
    """`vjp` with respect to some of the primals."""
    return vjp_of_taped(Taped(func, primals, argnums), has_aux)


def vjp_of_taped(taped: Taped, has_aux: bool) -> Any:
    """`vjp` of a call that a level has followed."""
    output, aux = taped.output, None
    if has_aux:
        output, aux = split_aux(output, _VJP)
    leaves, spec = tree_flatten(output)
    if not leaves or output is None:
        raise RuntimeError(
            f"{_VJP}: Expected f to be a function that has non-empty output (got output = {leaves})"
        )
    check_outputs(output, _VJP)
    for leaf in leaves:
        if leaf._array.dtype.kind not in "fcV":
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got "
                f"Tensor with dtype {leaf.dtype}"
            )
    values = [lowered(taped.level, leaf) for leaf in leaves]

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: Any = None) -> Any:
        given, given_spec = tree_flatten(cotangents)
        if given_spec != spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {given_spec}, primal output: {spec}"
            )
        seeds = [api._seed(v, g, i) for i, (v, g) in enumerate(zip(values, given, strict=True))]
        return taped.back(leaves, seeds, retain_graph)

    result = tree_unflatten(values, spec)
    return (result, pull, _outside(taped.level, aux)) if has_aux else (result, pull)


__all__ = ["grad", "grad_and_value", "vjp"]
