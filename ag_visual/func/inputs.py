"""What function transforms have in common: which inputs are differentiated, aux outputs."""

from __future__ import annotations

from typing import Any

from ag_visual.core.level import Level, Wrapper, lift, settle
from ag_visual.core.tensor import Tensor
from ag_visual.errors import type_name
from ag_visual.utils._pytree import tree_flatten, tree_map

Argnums = int | tuple[int, ...]


def checked_argnums(argnums: Any, count: int) -> Argnums:
    """argnums as numbers of positional inputs, negative ones counted from the end."""
    if isinstance(argnums, int):
        return _argnum(argnums, count)
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    found = tuple(_argnum(n, count) for n in argnums)
    if len(set(found)) < len(found):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return found


def _argnum(argnum: Any, count: int) -> int:
    if not isinstance(argnum, int):
        raise RuntimeError(f"argnum must be int, got: {type(argnum)}")
    if not -count <= argnum < count:
        raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")
    return argnum % count


def chosen(args: tuple[Any, ...], argnums: Argnums) -> Any:
    """The inputs that argnums names: one, or a tuple."""
    return args[argnums] if isinstance(argnums, int) else tuple(args[n] for n in argnums)


def replaced(args: tuple[Any, ...], argnums: Argnums, values: Any) -> list[Any]:
    """The inputs with others in the places that argnums names."""
    result = list(args)
    if isinstance(argnums, int):
        result[argnums] = values
    else:
        for n, value in zip(argnums, values, strict=True):
            result[n] = value
    return result


def lifted(level: Level, tree: Any, needs_grad: bool) -> Any:
    """A tree of inputs as leaves of a level."""

    def one(x: Any) -> Tensor:
        if not isinstance(x, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
        if needs_grad and x._array.dtype.kind not in "fcV":
            raise RuntimeError(
                "only Tensors of floating point dtype can require gradients (and complex ones), "
                f"but an input is {x.dtype}"
            )
        leaf = lift(level, settle(x))
        leaf._rg = needs_grad
        return leaf

    return tree_map(one, tree)


def constants(level: Level, tree: Any) -> Any:
    """Other inputs as constants of a level."""
    return tree_map(lambda x: lift(level, settle(x)) if isinstance(x, Tensor) else x, tree)


def lowered(level: Level, tree: Any) -> Any:
    """Outputs without a level that is closed."""

    def one(x: Any) -> Any:
        return x.value if isinstance(x, Wrapper) and x.level is level else x

    return tree_map(one, tree)


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """What a tensor of a transform holds, to look at: of a vmap all slices, the batch in front.

    recurse: through the transforms around it, too. Any other tensor as it is. TypeError for what is
    no tensor. What is computed of it inside of the transform is constant there.

    >>> import ag_visual as ag
    >>> def f(x):
    ...     print(ag.func.debug_unwrap(x))
    ...     return x
    >>> _ = ag.vmap(f)(ag.ones(2))
    tensor([1., 1.])
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"debug_unwrap(): argument 'tensor' must be Tensor, not {type_name(tensor)}"
        )
    while isinstance(tensor, Wrapper):
        tensor = tensor.value
        if not recurse:
            break
    return tensor


def split_aux(output: Any, what: str) -> tuple[Any, Any]:
    """(output, aux) of a function that returns both."""
    if not (isinstance(output, tuple) and len(output) == 2):
        raise RuntimeError(
            f"{what}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    for leaf in tree_flatten(output[1])[0]:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(leaf)}")
    return output


def check_outputs(output: Any, what: str) -> list[Any]:
    """The tensors of an output that must consist of them."""
    leaves, _ = tree_flatten(output)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"{what}: expected f(*primals) to return only tensors, got unsupported type "
                f"{type(leaf)}"
            )
    return leaves
