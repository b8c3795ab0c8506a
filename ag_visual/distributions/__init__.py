"""torch.distributions: probability distributions, transforms of them, and their divergences.

Layer 5: imported when first asked for.
"""

from ag_visual import absent as _absent
from ag_visual.distributions import (
    constraints as constraints,
    divergences as divergences,
    divergences_by_moments as divergences_by_moments,
    transforms as transforms,
)
from ag_visual.distributions.categorical import (
    Categorical as Categorical,
    Multinomial as Multinomial,
    OneHotCategorical as OneHotCategorical,
    OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough,
)
from ag_visual.distributions.combined import (
    Independent as Independent,
    MixtureSameFamily as MixtureSameFamily,
    TransformedDistribution as TransformedDistribution,
)
from ag_visual.distributions.constraint_registry import (
    biject_to as biject_to,
    transform_to as transform_to,
)
from ag_visual.distributions.counts import (
    Bernoulli as Bernoulli,
    Binomial as Binomial,
    ContinuousBernoulli as ContinuousBernoulli,
    Geometric as Geometric,
    NegativeBinomial as NegativeBinomial,
    Poisson as Poisson,
)
from ag_visual.distributions.distribution import (
    Distribution as Distribution,
)
from ag_visual.distributions.exp_family import (
    ExponentialFamily as ExponentialFamily,
)
from ag_visual.distributions.gaussian import (
    LowRankMultivariateNormal as LowRankMultivariateNormal,
    MultivariateNormal as MultivariateNormal,
)
from ag_visual.distributions.kl import (
    kl_divergence as kl_divergence,
    register_kl as register_kl,
)
from ag_visual.distributions.matrices import (
    LKJCholesky as LKJCholesky,
    Wishart as Wishart,
)
from ag_visual.distributions.positive import (
    Chi2 as Chi2,
    Exponential as Exponential,
    FisherSnedecor as FisherSnedecor,
    Gamma as Gamma,
    GeneralizedPareto as GeneralizedPareto,
    VonMises as VonMises,
)
from ag_visual.distributions.real_line import (
    Cauchy as Cauchy,
    Laplace as Laplace,
    Normal as Normal,
    StudentT as StudentT,
    Uniform as Uniform,
)
from ag_visual.distributions.relaxed import (
    RelaxedBernoulli as RelaxedBernoulli,
    RelaxedOneHotCategorical as RelaxedOneHotCategorical,
)
from ag_visual.distributions.simplex import (
    Beta as Beta,
    Dirichlet as Dirichlet,
)
from ag_visual.distributions.transformed import (
    Gumbel as Gumbel,
    HalfCauchy as HalfCauchy,
    HalfNormal as HalfNormal,
    InverseGamma as InverseGamma,
    Kumaraswamy as Kumaraswamy,
    LogisticNormal as LogisticNormal,
    LogNormal as LogNormal,
    Pareto as Pareto,
    Weibull as Weibull,
)
from ag_visual.distributions.transforms import (
    AbsTransform as AbsTransform,
    AffineTransform as AffineTransform,
    CatTransform as CatTransform,
    ComposeTransform as ComposeTransform,
    CorrCholeskyTransform as CorrCholeskyTransform,
    CumulativeDistributionTransform as CumulativeDistributionTransform,
    ExpTransform as ExpTransform,
    IndependentTransform as IndependentTransform,
    LowerCholeskyTransform as LowerCholeskyTransform,
    PositiveDefiniteTransform as PositiveDefiniteTransform,
    PowerTransform as PowerTransform,
    ReshapeTransform as ReshapeTransform,
    SigmoidTransform as SigmoidTransform,
    SoftmaxTransform as SoftmaxTransform,
    SoftplusTransform as SoftplusTransform,
    StackTransform as StackTransform,
    StickBreakingTransform as StickBreakingTransform,
    TanhTransform as TanhTransform,
    Transform as Transform,
    identity_transform as identity_transform,
)
from ag_visual.names import only as _only

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transform_to",
]
__dir__ = _only(
    [*__all__, "constraint_registry", "constraints", "kl", "transforms", "utils"], __name__
)
__getattr__ = _absent.asked(__name__, "distributions")
