"""Normal distributions of vectors: by a full covariance, and by a low rank plus a diagonal."""

from __future__ import annotations

import math
from typing import Any

from ag_visual import linalg
from ag_visual.distributions import constraints
from ag_visual.distributions._namespace import F
from ag_visual.distributions.distribution import Distribution
from ag_visual.distributions.utils import lazy_property, standard_normal
from ag_visual.sizes import Size

MATRICES = ("covariance_matrix", "precision_matrix", "scale_tril")


def by_columns(factor: Any, vectors: Any) -> Any:
    """L^-1 v of a batch of lower triangles and vectors with more dimensions in front.

    Vectors that share a triangle are the columns of one system, so that it is factored once.
    """
    more = vectors.dim() - 1 - (factor.dim() - 2)
    if more <= 0:
        return linalg.solve_triangular(factor, vectors.unsqueeze(-1), upper=False).squeeze(-1)
    front = vectors.shape[:more]
    columns = vectors.reshape((-1, *vectors.shape[more:])).movedim(0, -1)
    solved = linalg.solve_triangular(factor, columns, upper=False).movedim(-1, 0)
    return solved.reshape((*front, *solved.shape[1:]))


def squared_length(factor: Any, vectors: Any) -> Any:
    """v^T (L L^T)^-1 v: the squared Mahalanobis distance."""
    return by_columns(factor, vectors).pow(2).sum(-1)


def log_diagonal(factor: Any) -> Any:
    """The sum of the logarithms of a triangle's diagonal: half the log of det(L L^T)."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def times(matrix: Any, vectors: Any) -> Any:
    """M v, batched."""
    return F.matmul(matrix, vectors.unsqueeze(-1)).squeeze(-1)


def tril_of_precision(precision: Any) -> Any:
    """The lower L with L L^T = P^-1: the Cholesky factor of P, read from its last row, inverted."""
    flipped = linalg.cholesky(F.flip(precision, (-2, -1)))
    upper = F.flip(flipped, (-2, -1)).mT
    unit = F.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return linalg.solve_triangular(upper, unit, upper=False)


class OfMatrix(Distribution):
    """Holds one of three forms of a positive definite matrix, and gives the other ones.

    `_unbroadcasted_scale_tril` is its Cholesky factor, with the batch that the matrix came with.
    """

    _unbroadcasted_scale_tril: Any

    def _triangle(self, **given: Any) -> Any:
        [(name, value)] = [(n, v) for n, v in given.items() if v is not None]
        if name == "scale_tril":
            return value
        if name == "covariance_matrix":
            return linalg.cholesky(value)
        return tril_of_precision(value)

    @property
    def _square(self) -> Size:
        """The shape of the matrix, with the batch."""
        n = self._event_shape[-1]
        return Size((*self._batch_shape, n, n))

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower triangle L with L L^T = the covariance (the scale) matrix."""
        return self._unbroadcasted_scale_tril.expand(self._square)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """L L^T."""
        factor = self._unbroadcasted_scale_tril
        return F.matmul(factor, factor.mT).expand(self._square)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance (the scale) matrix."""
        return F.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._square)

    def _held(self, batch_shape: Any) -> dict[str, Any]:
        """The forms that were computed or given, for another batch."""
        n = self._event_shape[-1]
        shape = (*batch_shape, n, n)
        return {m: self.__dict__[m].expand(shape) for m in MATRICES if m in self.__dict__}


class MultivariateNormal(OfMatrix):
    """The normal distribution of vectors with a mean and a covariance, its inverse or its factor.

    exp(-(x - loc)^T S^-1 (x - loc) / 2) / sqrt(det(2 pi S)).
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        values = (covariance_matrix, precision_matrix, scale_tril)
        given = dict(zip(MATRICES, values, strict=True))
        if sum(v is not None for v in values) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        [(name, matrix)] = [(n, v) for n, v in given.items() if v is not None]
        if matrix.dim() < 2:
            called = f"{name} matrix" if name == "scale_tril" else name
            called = name if name == "precision_matrix" else called
            raise ValueError(
                f"{called} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = F.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand((*batch, -1, -1)))
        self.loc = loc.expand((*batch, -1))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = self._triangle(**given)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(MultivariateNormal, _instance)
        return self._expanded(
            new,
            batch_shape,
            loc=self.loc.expand((*batch_shape, *self.event_shape)),
            _unbroadcasted_scale_tril=self._unbroadcasted_scale_tril,
            **self._held(batch_shape),
        )

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._extended_shape())

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + times(self._unbroadcasted_scale_tril, drawn)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        factor = self._unbroadcasted_scale_tril
        distance = squared_length(factor, value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + distance) - log_diagonal(factor)

    def entropy(self) -> Any:
        half = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        entropy = half + log_diagonal(self._unbroadcasted_scale_tril)
        return entropy.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors with the covariance W W^T + diag(d), W of a few columns.

    Densities cost O(n rank^2): C = I + W^T diag(1 / d) W is factored in place of the covariance,
    by the Woodbury identity and the matrix determinant lemma.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        try:
            batch = F.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as problem:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, "
                f"cov_diag {cov_diag.shape}"
            ) from problem
        self.loc = loc.expand((*batch, *event))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch, *event))
        self._capacitance_tril = self._capacitance(cov_factor, cov_diag)
        super().__init__(batch, event, validate_args=validate_args)

    @staticmethod
    def _capacitance(factor: Any, diagonal: Any) -> Any:
        """The Cholesky factor of I + W^T diag(1 / d) W."""
        inner = F.matmul(factor.mT / diagonal.unsqueeze(-2), factor)
        unit = F.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
        return linalg.cholesky(unit + inner)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(LowRankMultivariateNormal, _instance)
        kept = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")
        matrices = ("cov_factor", *MATRICES)
        held = {n: self.__dict__[n] for n in kept}
        for name in ("loc", "cov_diag"):
            held[name] = self.__dict__[name].expand((*batch_shape, *self.event_shape))
        for name in matrices:
            if name in self.__dict__:
                value = self.__dict__[name]
                held[name] = value.expand((*batch_shape, *value.shape[-2:]))
        return self._expanded(new, batch_shape, **held)

    @property
    def _square(self) -> Size:
        n = self._event_shape[0]
        return Size((*self._batch_shape, n, n))

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        """The diagonal of the covariance."""
        squares = self._unbroadcasted_cov_factor.pow(2).sum(-1)
        return (squares + self._unbroadcasted_cov_diag).expand(self._extended_shape())

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        # D^(1/2) (I + D^(-1/2) W W^T D^(-1/2)) D^(1/2): well conditioned inside.
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        n = self._event_shape[0]
        unit = F.eye(n, dtype=scaled.dtype, device=scaled.device)
        inner = linalg.cholesky(unit + F.matmul(scaled, scaled.mT))
        return (root * inner).expand(self._square)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """W W^T + diag(d)."""
        factor = self._unbroadcasted_cov_factor
        covariance = F.matmul(factor, factor.mT) + self._unbroadcasted_cov_diag.diag_embed()
        return covariance.expand(self._square)

    @lazy_property
    def precision_matrix(self) -> Any:
        """1 / d - W' C^-1 W'^T with W' = W / d."""
        diagonal = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.mT / diagonal.unsqueeze(-2)
        part = linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        precision = diagonal.reciprocal().diag_embed() - F.matmul(part.mT, part)
        return precision.expand(self._square)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        rank = self.cov_factor.shape[-1]
        within = standard_normal((*shape[:-1], rank), self.loc)
        apart = standard_normal(shape, self.loc)
        moved = times(self._unbroadcasted_cov_factor, within)
        return self.loc + moved + self._unbroadcasted_cov_diag.sqrt() * apart

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = self._distance(value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self._log_det() + distance)

    def _distance(self, vectors: Any) -> Any:
        """v^T S^-1 v = v^T v / d - |C^(-1/2) W^T v / d|^2."""
        diagonal = self._unbroadcasted_cov_diag
        scaled = vectors / diagonal
        within = times(self._unbroadcasted_cov_factor.mT, scaled)
        return (vectors * scaled).sum(-1) - squared_length(self._capacitance_tril, within)

    def _log_det(self) -> Any:
        """log det S = log det C + the sum of log d."""
        return 2 * log_diagonal(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def entropy(self) -> Any:
        constant = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (0.5 * (constant + self._log_det())).expand(self._batch_shape)
