"""A module called with other tensors in the places of its parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.names import only as _only
from ag_visual.nn.module import Module

Tensors = Mapping[str, Any]
_ABSENT = object()


def call_with(
    module: Module,
    dicts: Tensors | Sequence[Tensors],
    args: Any,
    kwargs: dict[str, Any] | None,
    *,
    tie_weights: bool,
    strict: bool,
) -> Any:
    """`func.functional_call`, which documents it."""
    tensors = _joined(dicts)
    given = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, tensors, tie_weights, strict):
        return module(*given, **(kwargs or {}))


def functional_call(
    module: Module,
    parameters_and_buffers: Tensors,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """The older name of `func.functional_call`; warns."""
    warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be "
        "removed in a future version of PyTorch. Please use `torch.func.functional_call` instead "
        "which is a drop-in replacement.",
        FutureWarning,
    )
    return call_with(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def _joined(dicts: Any) -> dict[str, Any]:
    if isinstance(dicts, Mapping):
        return dict(dicts)
    if not isinstance(dicts, list | tuple):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(dicts)}"
        )
    if not all(isinstance(d, Mapping) for d in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    names = [name for each in dicts for name in each]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"{twice} appeared in multiple dictionaries; behavior of functional call is ambiguous"
        )
    return {name: value for each in dicts for name, value in each.items()}


def _tied(known: dict[str, Any], tensors: dict[str, Any]) -> dict[str, Any]:
    """The tensors, under all names of what they replace."""
    replaced: dict[int, Any] = {}
    for name, value in tensors.items():
        if name in known and replaced.setdefault(id(known[name]), value) is not value:
            names = sorted(n for n, t in known.items() if t is known[name])
            raise ValueError(
                f"functional_call got multiple values for keys {names}, which are tied. Consider "
                "using tie_weights=False"
            )
    others = {name: replaced[id(t)] for name, t in known.items() if id(t) in replaced}
    return {**others, **tensors}


def _check_names(module: Module, known: dict[str, Any], tensors: dict[str, Any]) -> None:
    """Both lists of names that do not fit, as torch prints them."""
    lists = (
        ("Unexpected", sorted(set(tensors) - set(known))),
        ("Missing", sorted(set(known) - set(tensors))),
    )
    messages = [f"{what} key(s): {', '.join(map(repr, names))}." for what, names in lists if names]
    if messages:
        text = "\n\t".join([f"Error(s) in reparametrizing for {type(module).__name__}:", *messages])
        raise RuntimeError(text)


def _place(module: Module, name: str, value: Any) -> tuple[dict[str, Any], str]:
    """Where a module holds what a name is of: a dict, and the key in it."""
    if not (value is None or isinstance(value, Tensor)):
        raise TypeError(f"{value!r} is not an instance of torch.Tensor (for {name!r})")
    path, _, last = name.rpartition(".")
    if not last:
        raise KeyError(f'tensor name can\'t be empty string "" (in {name!r})')
    owner: Any = module
    for part in path.split(".") if path else ():
        if not hasattr(owner, part):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{part}` (for {name!r})")
        owner = getattr(owner, part)
        if not isinstance(owner, Module):
            raise TypeError(f"submodule `{part}`: {owner} is not an instance of torch.nn.Module")
    # A buffer's place, and that of a parameter, hold any tensor while the call lasts.
    for table in (owner._parameters, owner._buffers):
        if last in table:
            return table, last
    held = getattr(owner, last, None)
    if not (held is None or isinstance(held, Tensor)):
        raise TypeError(f"attribute `{last}`: {held!r} is not an instance of torch.Tensor")
    return owner.__dict__, last


@contextmanager
def _replaced(
    module: Module, tensors: dict[str, Any], tie_weights: bool, strict: bool
) -> Iterator[None]:
    known: dict[str, Any] = dict(module.named_parameters(remove_duplicate=False))
    known.update(module.named_buffers(remove_duplicate=False))
    if tie_weights:
        tensors = _tied(known, tensors)
    if strict:
        _check_names(module, known, tensors)
    places = [(*_place(module, name, value), value) for name, value in tensors.items()]
    before = [(table, last, table.get(last, _ABSENT)) for table, last, _ in places]
    try:
        for table, last, value in places:
            table[last] = value
        yield
    finally:
        for table, last, value in before:
            if value is _ABSENT:
                table.pop(last, None)
            else:
                table[last] = value


__all__ = ["functional_call"]
__dir__ = _only(__all__, __name__)
