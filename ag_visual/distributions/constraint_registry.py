"""torch.distributions.constraint_registry's names: for a set, a transform from all of R^n onto it.

`biject_to(constraint)` gives a bijection, whose Jacobian has a meaning for densities;
`transform_to(constraint)` one that is good for optimisation, not always invertible.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from ag_visual.distributions import constraints, transforms
from ag_visual.names import only as _only

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """From classes of constraints to functions that make a transform for one of them."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Callable[[Any], Any] | None = None) -> Any:
        """Set the function for a class of constraints (or of one); without it, a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform for a constraint; NotImplementedError where none is registered."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*kinds: Any) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Register a function for classes of constraints in both registries."""

    def registered(factory: Callable[[Any], Any]) -> Callable[[Any], Any]:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return registered


@_both(constraints.real)
def _to_real(constraint: Any) -> Any:
    return transforms.identity_transform


@_both(constraints.positive, constraints.nonnegative)
def _to_above(constraint: Any) -> Any:
    shifted = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shifted])


@_both(constraints.less_than)
def _to_below(constraint: Any) -> Any:
    shifted = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shifted])


@_both(constraints.interval, constraints.half_open_interval)
def _to_interval(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, Number) and isinstance(high, Number) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    scaled = transforms.AffineTransform(low, high - low)
    return transforms.ComposeTransform([transforms.SigmoidTransform(), scaled])


@_both(constraints.corr_cholesky)
def _to_corr_cholesky(constraint: Any) -> Any:
    return transforms.CorrCholeskyTransform()


biject_to.register(constraints.simplex, lambda _: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda _: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda _: transforms.LowerCholeskyTransform())
for _kind in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_kind, lambda _: transforms.PositiveDefiniteTransform())


def _of_parts(registry: ConstraintRegistry) -> None:
    """Register what is made of the transforms of other constraints."""

    def independent(constraint: Any) -> Any:
        inner = registry(constraint.base_constraint)
        return transforms.IndependentTransform(inner, constraint.reinterpreted_batch_ndims)

    def cat(constraint: Any) -> Any:
        parts = [registry(each) for each in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    def stack(constraint: Any) -> Any:
        return transforms.StackTransform(
            [registry(each) for each in constraint.cseq], constraint.dim
        )

    registry.register(constraints.independent, independent)
    registry.register(constraints.cat, cat)
    registry.register(constraints.stack, stack)


_of_parts(biject_to)
_of_parts(transform_to)
__dir__ = _only(__all__, __name__)
