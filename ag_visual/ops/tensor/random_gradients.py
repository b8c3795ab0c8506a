"""Draws that move with their parameters: gamma and Dirichlet samples with implicit gradients.

torch has these under private names; `distributions` draws with them.
"""

from __future__ import annotations

import functools

import numpy

from ag_visual import dtypes
from ag_visual.arrays import backend as backends
from ag_visual.arrays.kernels.implicit import beta_slope, gamma_slope
from ag_visual.dispatch import vmap
from ag_visual.dispatch.families import not_differentiable
from ag_visual.dispatch.record import Sample
from ag_visual.dispatch.table import op
from ag_visual.ops.tensor.generator import source_of
from ag_visual.ops.tensor.random import _floating

_draw = functools.partial(op, holomorphic=False, method=False, real_only=True, oracle=False)
_no_second = "Draw without create_graph=True: samples are differentiable once."


def _source(xp, generator):
    return source_of(backends.of_namespace(xp), generator)


def _gamma(xp, self, generator=None):
    drawn = _source(xp, generator).standard_gamma(self).astype(self.dtype)
    return xp.maximum(drawn, xp.asarray(dtypes.finfo(dtypes.of_array(self)).tiny, dtype=self.dtype))


def _rates(self, generator):
    _floating("gamma_cpu", self)
    return (generator,)


def _gamma_moves(xp, self, output):
    return gamma_slope(xp, self, output).astype(self.dtype)


_draw(
    "_standard_gamma",
    _gamma,
    vjp={"self": lambda F, g, self, result: g * F._standard_gamma_grad(self, result)},
    jvp={"self": lambda F, t_self, self, result: t_self * F._standard_gamma_grad(self, result)},
    normalize=_rates,
    batch=vmap.random(vmap.elementwise),
    node="StandardGammaBackward0",
    samples=lambda make: [Sample((make((3, 4), low=0.3, high=5.0),), smooth=False)],
    doc="Samples of Gamma(self, 1), elementwise, whose gradients are the implicit ones.",
)
_draw(
    "_standard_gamma_grad",
    _gamma_moves,
    vjp=dict.fromkeys(("self", "output"), not_differentiable("_standard_gamma_grad", _no_second)),
    jvp=None,
    inputs=("self", "output"),
    batch=vmap.elementwise,
    node="StandardGammaGradBackward0",
    samples=lambda make: [
        Sample((make((3, 4), low=0.3, high=5.0), make((4,), low=0.1, high=4.0)), smooth=False)
    ],
    doc="How far a sample of Gamma(self, 1) moves with self, elementwise: dx/da.",
)


def _dirichlet(xp, self, generator=None):
    """Normalised gamma samples: exp of log Gamma(a + 1) + log(U) / a, which cannot underflow."""
    source = _source(xp, generator)
    a = self.astype(numpy.float64)
    uniform = 1 - source.rand(a.shape, numpy.dtype(numpy.float64))
    logs = xp.log(source.standard_gamma(a + 1)) + xp.log(uniform) / a
    drawn = xp.exp(logs - logs.max(axis=-1, keepdims=True)) if a.size else logs
    drawn = drawn / drawn.sum(axis=-1, keepdims=True)
    limits = dtypes.finfo(dtypes.of_array(self))
    return xp.clip(drawn, limits.tiny, 1 - limits.eps / 2).astype(self.dtype)


def _dirichlet_back(F, g, self, result):
    """The component i moves by D_i (1 - x_i), each other one j by -D_i x_j."""
    moves = F._dirichlet_grad(result, self, F.expand(F.sum(self, -1, True), tuple(self.shape)))
    return moves * (g - F.sum(g * result, -1, True))


def _dirichlet_ahead(F, t_self, self, result):
    total = F.expand(F.sum(self, -1, True), tuple(self.shape))
    moves = F._dirichlet_grad(result, self, total) * t_self
    return moves - result * F.sum(moves, -1, True)


_draw(
    "_sample_dirichlet",
    _dirichlet,
    vjp={"self": _dirichlet_back},
    jvp={"self": _dirichlet_ahead},
    normalize=_rates,
    batch=vmap.random(vmap.leading()),
    node="SampleDirichletBackward0",
    samples=lambda make: [Sample((make((3, 4), low=0.3, high=5.0),), smooth=False)],
    doc="Samples of Dirichlet(self), whose last dimension sums to 1, with implicit gradients.",
)
_draw(
    "_dirichlet_grad",
    lambda xp, x, alpha, total: beta_slope(xp, x, alpha, total).astype(x.dtype),
    vjp=dict.fromkeys(("x", "alpha", "total"), not_differentiable("_dirichlet_grad", _no_second)),
    jvp=None,
    inputs=("x", "alpha", "total"),
    batch=vmap.elementwise,
    node="DirichletGradBackward0",
    samples=lambda make: [
        Sample(
            (
                make((3, 4), low=0.1, high=0.9),
                make((3, 4), low=0.3, high=2.0),
                make((3, 4), low=2.5, high=5.0),
            ),
            smooth=False,
        )
    ],
    doc="dx/da / (1 - x) of a component x of a Dirichlet sample, by its own concentration alpha.",
)
