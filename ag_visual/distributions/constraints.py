"""torch.distributions.constraints' names: sets of values, and whether a tensor lies in one.

A constraint's `check` gives a bool tensor without the `event_dim` last dimensions of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ag_visual import linalg
from ag_visual.distributions._namespace import F
from ag_visual.dtypes import bool as bool_, finfo
from ag_visual.names import only as _only

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set of values. `event_dim` last dimensions of a tensor are one value of it."""

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Any:
        """Whether each value lies in the set: a bool tensor without the event's dimensions."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__.lstrip('_')}()"


class _Dependent(Constraint):
    """A set that depends on other values, of which at most these two things are known."""

    def __init__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        return self._known("is_discrete")

    @property
    def event_dim(self) -> int:
        return self._known("event_dim")

    def _known(self, name: str) -> Any:
        value = getattr(self, f"_{name}")
        if value is NotImplemented:
            raise NotImplementedError(f".{name} cannot be determined statically")
        return value

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        """The same with what is known of it: `dependent(event_dim=1)`."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Any) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Any) -> bool:
    """Whether a set depends on other values."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property of a distribution that gives its support: of the class, a dependent set."""

    def __init__(
        self,
        fn: Callable[[Any], Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[[Any], Any]) -> _DependentProperty:
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def _all_of_last(inside: Any, count: int) -> Any:
    return inside.flatten(-count).all(-1) if count else inside


class _IndependentConstraint(Constraint):
    """Values of which `reinterpreted_batch_ndims` dimensions more all lie in a set."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        inside = self.base_constraint.check(value)
        if inside.dim() < self.reinterpreted_batch_ndims:
            expected = self.base_constraint.event_dim + self.reinterpreted_batch_ndims
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.dim()}")
        return _all_of_last(inside, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        inner = f"{self.base_constraint!r}, {self.reinterpreted_batch_ndims}"
        return f"{type(self).__name__.lstrip('_')}({inner})"


class MixtureSameFamilyConstraint(Constraint):
    """Values that lie in the set of every component of a mixture."""

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"Expected a Constraint, got {type(base_constraint).__name__}")
        self.base_constraint = base_constraint
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim

    def check(self, value: Any) -> Any:
        event = self.event_dim
        inside = self.base_constraint.check(value.unsqueeze(-1 - event))
        if value.dim() < event:
            raise ValueError(f"Expected value.dim() >= {event} but got {value.dim()}")
        return inside.all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Bounded(Constraint):
    """A set of numbers between bounds, which its repr names."""

    def __init__(self, **bounds: Any) -> None:
        self.__dict__.update(bounds)
        self._bounds = tuple(bounds)
        super().__init__()

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={getattr(self, name)}" for name in self._bounds)
        return f"{type(self).__name__.lstrip('_')}({bounds})"


class _Below(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        super().__init__(upper_bound=upper_bound)


class _Above(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound=lower_bound)


class _Between(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(lower_bound=lower_bound, upper_bound=upper_bound)


class _IntegerInterval(_Between):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Above):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    def check(self, value: Any) -> Any:
        return value == value


class _GreaterThan(_Above):
    def check(self, value: Any) -> Any:
        return self.lower_bound < value


class _GreaterThanEq(_Above):
    def check(self, value: Any) -> Any:
        return self.lower_bound <= value


class _LessThan(_Below):
    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class _Interval(_Between):
    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Any:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        return _all_of_last(value.tril() == value, 2)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Any) -> Any:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """Lower triangles whose diagonals are positive and whose rows have length 1."""

    def check(self, value: Any) -> Any:
        tolerance = finfo(value.dtype).eps * value.shape[-1] * 10
        lengths = linalg.norm(value.detach(), dim=-1)
        return super().check(value) & ((lengths - 1).abs() <= tolerance).all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Any:
        square = value.shape[-2] == value.shape[-1]
        return F.full(value.shape[:-2], square, dtype=bool_, device=value.device)


class _Symmetric(_Square):
    def check(self, value: Any) -> Any:
        square = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return square
        return _all_of_last(F.isclose(value, value.mT, atol=1e-6), 2)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        eigenvalues = linalg.eigvalsh(value)
        rounding = finfo(value.dtype).eps * value.shape[-1] * eigenvalues[..., -1:].abs()
        return symmetric & (eigenvalues >= -rounding).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Any:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        return symmetric & (linalg.cholesky_ex(value).info == 0)


class _Parts(Constraint):
    """Sets for the parts of a tensor along a dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        if not all(isinstance(each, Constraint) for each in cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.cseq = list(cseq)
        self.dim = dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        return any(each.is_discrete for each in self.cseq)

    @property
    def event_dim(self) -> int:
        most = max(each.event_dim for each in self.cseq)
        return most + 1 if self.dim + most < 0 else most


class _Cat(_Parts):
    """Sets for parts of given lengths that are joined along a dimension."""

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"{len(self.lengths)} lengths for {len(self.cseq)} constraints")

    @property
    def event_dim(self) -> int:
        return max(each.event_dim for each in self.cseq)

    def check(self, value: Any) -> Any:
        parts = value.split(self.lengths, self.dim)
        pairs = zip(self.cseq, parts, strict=True)
        return F.cat([each.check(part) for each, part in pairs], self.dim)


class _Stack(_Parts):
    """Sets for the slices of a dimension."""

    def check(self, value: Any) -> Any:
        pairs = zip(self.cseq, value.unbind(self.dim), strict=True)
        return F.stack([each.check(part) for each, part in pairs], self.dim)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
__dir__ = _only(__all__, __name__)
