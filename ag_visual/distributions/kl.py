"""torch.distributions.kl's names: Kullback-Leibler divergences by the classes of two distributions.

The formulas stand in `divergences` and `divergences_by_moments`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.core.source import warn
from ag_visual.names import only as _only

__all__ = ["kl_divergence", "register_kl"]

_Formula = Callable[[Any, Any], Any]
_KL_REGISTRY: dict[tuple[type, type], _Formula] = {}
_KL_MEMOIZE: dict[tuple[type, type], _Formula | None] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[_Formula], _Formula]:
    """A decorator for the formula KL(p || q) of instances of two classes and their subclasses.

    >>> from ag_visual.distributions import Normal, register_kl
    >>> class Mine(Normal): ...
    >>> @register_kl(Mine, Normal)
    ... def formula(p, q):
    ...     return 0.0
    >>> from ag_visual.distributions import kl_divergence
    >>> kl_divergence(Mine(0.0, 1.0), Normal(0.0, 2.0))
    0.0
    """
    for name, given in (("p", type_p), ("q", type_q)):
        if not isinstance(given, type):
            raise TypeError(f"Expected type_{name} to be a Distribution subclass but got {given}")

    def decorator(formula: _Formula) -> _Formula:
        _KL_REGISTRY[type_p, type_q] = formula
        _KL_MEMOIZE.clear()
        return formula

    return decorator


def _formula_for(type_p: type, type_q: type) -> _Formula | None:
    """The formula of the nearest classes; a warning where two pairs are equally near."""
    distances = [
        (type_p.__mro__.index(p), type_q.__mro__.index(q), p, q)
        for p, q in _KL_REGISTRY
        if issubclass(type_p, p) and issubclass(type_q, q)
    ]
    if not distances:
        return None
    *_, left_p, left_q = min(distances, key=lambda found: found[:2])
    *_, right_p, right_q = min(distances, key=lambda found: (found[1], found[0]))
    left, right = _KL_REGISTRY[left_p, left_q], _KL_REGISTRY[right_p, right_q]
    if left is not right:
        warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({left_p.__name__}, {right_q.__name__})",
            RuntimeWarning,
        )
    return left


def kl_divergence(p: Any, q: Any) -> Any:
    """KL(p || q), the expected log(p(x) / q(x)) of x from p, in nats, for each of the batch.

    NotImplementedError where no formula is registered for the classes or their bases.
    """
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _formula_for(*pair)
    formula = _KL_MEMOIZE[pair]
    if formula is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
            f"{type(q).__name__}"
        )
    return formula(p, q)


__dir__ = _only(__all__, __name__)
