"""torch's module paths: where programs look for a thing, and the one place where it is here.

Layer 0: names the modules above as strings, and imports one when a name of its path is first asked
for. `install` makes the paths modules, so that `import a.b.c`, `from a.b import c` and pickles find
them; nothing is copied, and each name `is` what stands in its home.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from ag_visual import absent

PACKAGE: Final = __name__.partition(".")[0]

# path: {home: names}. "" is the package itself; names "a.*" are those of the home in paths below a.
_TABLE: Final[dict[str, dict[str, str]]] = {
    "_C": {
        "": "Generator Size device dtype",
        "bindings": "TensorBase _TensorMeta _are_functorch_transforms_active "
        "_disabled_torch_function_impl _get_default_device _get_tracing_state "
        "_is_tracing _log_api_usage_once",
    },
    "_C._autograd": {"profiler": "DeviceType kineto_available"},
    "_C._nn": {"bindings": "_parse_to"},
    "_C._profiler": {"profiler": "ProfilerActivity _ExperimentalConfig"},
    "_dynamo": {"compiler": "allow_in_graph assume_constant_result disable is_compiling reset"},
    "_dynamo.config": {},
    "_inductor": {},
    "_inductor.config": {},
    "_jit_internal": {"jit": "_overload _overload_method export ignore is_scripting unused"},
    "_lobpcg": {"": "lobpcg"},
    "_lowrank": {"": "pca_lowrank svd_lowrank"},
    "_tensor": {"": "Tensor"},
    "_tensor_str": {
        "core.printing": "PRINT_OPTS _tensor_str",
        "": "get_printoptions printoptions set_printoptions",
    },
    "cpu.amp": {"amp.older_cpu": "GradScaler autocast"},
    "cpu.amp.autocast_mode": {"amp.older_cpu": "autocast"},
    "cpu.amp.grad_scaler": {"amp.older_cpu": "GradScaler"},
    "cuda.amp": {
        "amp.older_cuda": "GradScaler amp_definitely_not_available autocast custom_bwd custom_fwd"
    },
    "cuda.amp.autocast_mode": {"amp.older_cuda": "_cast autocast custom_bwd custom_fwd"},
    "cuda.amp.common": {"amp.older_cuda": "amp_definitely_not_available"},
    "cuda.amp.grad_scaler": {"amp.older_cuda": "GradScaler"},
    "cuda.nvtx": {"profiler.nvtx": "mark range range_end range_pop range_push range_start"},
    "distributed.fsdp": {},
    "distributed.optim": {},
    "distributed.rpc": {},
    "distributed.tensor": {},
    "distributed._composable": {},
    "distributed._composable.fsdp": {},
    "distributed._tensor": {},
    "distributed._tensor.experimental": {},
    "distributions.bernoulli": {"distributions": "Bernoulli constraints ExponentialFamily"},
    "distributions.beta": {"distributions": "Beta constraints Dirichlet ExponentialFamily"},
    "distributions.binomial": {"distributions": "Binomial constraints Distribution"},
    "distributions.cauchy": {"distributions": "Cauchy constraints Distribution"},
    "distributions.chi2": {"distributions": "Chi2 constraints Gamma"},
    "distributions.continuous_bernoulli": {
        "distributions": "ContinuousBernoulli constraints ExponentialFamily"
    },
    "distributions.dirichlet": {"distributions": "Dirichlet constraints ExponentialFamily"},
    "distributions.exponential": {"distributions": "Exponential constraints ExponentialFamily"},
    "distributions.fishersnedecor": {
        "distributions": "FisherSnedecor constraints Distribution Gamma"
    },
    "distributions.gamma": {"distributions": "Gamma constraints ExponentialFamily"},
    "distributions.generalized_pareto": {
        "distributions": "GeneralizedPareto constraints Distribution"
    },
    "distributions.geometric": {"distributions": "Geometric constraints Distribution"},
    "distributions.gumbel": {
        "distributions": "Gumbel AffineTransform constraints "
        "ExpTransform TransformedDistribution Uniform"
    },
    "distributions.half_cauchy": {
        "distributions": "HalfCauchy AbsTransform Cauchy constraints TransformedDistribution"
    },
    "distributions.half_normal": {
        "distributions": "HalfNormal AbsTransform constraints Normal TransformedDistribution"
    },
    "distributions.independent": {"distributions": "Independent constraints Distribution"},
    "distributions.inverse_gamma": {
        "distributions": "InverseGamma constraints Gamma PowerTransform TransformedDistribution"
    },
    "distributions.kumaraswamy": {
        "distributions": "Kumaraswamy AffineTransform constraints "
        "PowerTransform TransformedDistribution Uniform"
    },
    "distributions.laplace": {"distributions": "Laplace constraints Distribution"},
    "distributions.lkj_cholesky": {"distributions": "LKJCholesky Beta constraints Distribution"},
    "distributions.log_normal": {
        "distributions": "LogNormal constraints ExpTransform Normal TransformedDistribution"
    },
    "distributions.logistic_normal": {
        "distributions": "LogisticNormal constraints Independent "
        "Normal StickBreakingTransform TransformedDistribution"
    },
    "distributions.lowrank_multivariate_normal": {
        "distributions": "LowRankMultivariateNormal constraints Distribution"
    },
    "distributions.mixture_same_family": {
        "distributions": "MixtureSameFamily Categorical constraints Distribution"
    },
    "distributions.multinomial": {
        "distributions": "Multinomial Binomial Categorical constraints Distribution"
    },
    "distributions.multivariate_normal": {
        "distributions": "MultivariateNormal constraints Distribution"
    },
    "distributions.negative_binomial": {
        "distributions": "NegativeBinomial constraints Distribution Gamma"
    },
    "distributions.normal": {"distributions": "Normal constraints ExponentialFamily"},
    "distributions.one_hot_categorical": {
        "distributions": "OneHotCategorical OneHotCategoricalStraightThrough"
    },
    "distributions.pareto": {
        "distributions": "Pareto AffineTransform constraints "
        "Exponential ExpTransform TransformedDistribution"
    },
    "distributions.poisson": {"distributions": "Poisson constraints ExponentialFamily"},
    "distributions.relaxed_bernoulli": {
        "distributions": "RelaxedBernoulli",
        "distributions.relaxed": "LogitRelaxedBernoulli",
    },
    "distributions.relaxed_categorical": {
        "distributions": "RelaxedOneHotCategorical",
        "distributions.relaxed": "ExpRelaxedCategorical",
    },
    "distributions.studentT": {"distributions": "StudentT Chi2 constraints Distribution"},
    "distributions.transformed_distribution": {
        "distributions": "TransformedDistribution ComposeTransform constraints "
        "Distribution Independent Transform"
    },
    "distributions.uniform": {"distributions": "Uniform constraints Distribution"},
    "distributions.von_mises": {"distributions": "VonMises constraints Distribution"},
    "distributions.weibull": {
        "distributions": "Weibull AffineTransform constraints "
        "Exponential PowerTransform TransformedDistribution"
    },
    "distributions.wishart": {"distributions": "Wishart constraints ExponentialFamily"},
    "export": {},
    "functional": {
        "": "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors "
        "cartesian_prod cdist chain_matmul einsum istft lu meshgrid norm pca_lowrank split stft "
        "svd_lowrank tensordot unique unique_consecutive unravel_index"
    },
    "fx.experimental": {},
    "fx.experimental.proxy_tensor": {"_subclasses.fake_tensor": "get_proxy_mode"},
    "fx.graph": {},
    "fx.graph_module": {},
    "fx.interpreter": {},
    "fx.node": {},
    "fx.proxy": {},
    "nn.modules": {"nn": "nn.modules.*"},
    "nn.modules.adaptive": {"nn": "AdaptiveLogSoftmaxWithLoss"},
    "nn.modules.activation": {
        "nn": "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid "
        "LogSoftmax Mish MultiheadAttention PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax "
        "Softmax2d Softmin Softplus Softshrink Softsign Tanh Tanhshrink Threshold"
    },
    "nn.modules.batchnorm": {
        "nn": "BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d "
        "SyncBatchNorm",
        "nn.normalization": "_BatchNorm _NormBase",
    },
    "nn.modules.channelshuffle": {"nn": "ChannelShuffle"},
    "nn.modules.container": {"nn": "ModuleDict ModuleList ParameterDict ParameterList Sequential"},
    "nn.modules.conv": {
        "nn": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d "
        "LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d",
        "nn.convolution": "_ConvNd _ConvTransposeNd",
    },
    "nn.modules.distance": {"nn": "CosineSimilarity PairwiseDistance"},
    "nn.modules.dropout": {
        "nn": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
        "nn.dropout": "_DropoutNd",
    },
    "nn.modules.flatten": {"nn": "Flatten Unflatten"},
    "nn.modules.fold": {"nn": "Fold Unfold"},
    "nn.modules.instancenorm": {
        "nn": "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d "
        "LazyInstanceNorm3d",
        "nn.normalization": "_InstanceNorm",
    },
    "nn.modules.lazy": {"nn.lazy": "LazyModuleMixin"},
    "nn.modules.linear": {
        "nn": "Bilinear Identity LazyLinear Linear",
        "nn.multihead": "NonDynamicallyQuantizableLinear",
    },
    "nn.modules.loss": {
        "nn": "BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss "
        "GaussianNLLLoss HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss MSELoss MarginRankingLoss "
        "MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss PoissonNLLLoss "
        "SmoothL1Loss SoftMarginLoss TripletMarginLoss TripletMarginWithDistanceLoss",
        "nn.loss": "_Loss _WeightedLoss",
    },
    "nn.modules.module": {"nn": "Module", "nn.saving": "_IncompatibleKeys"},
    "nn.modules.normalization": {
        "nn": "CrossMapLRN2d GroupNorm LayerNorm LocalResponseNorm RMSNorm"
    },
    "nn.modules.padding": {
        "nn": "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d "
        "ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d "
        "ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d"
    },
    "nn.modules.pixelshuffle": {"nn": "PixelShuffle PixelUnshuffle"},
    "nn.modules.pooling": {
        "nn": "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d "
        "AdaptiveMaxPool2d AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d FractionalMaxPool2d "
        "FractionalMaxPool3d LPPool1d LPPool2d LPPool3d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d "
        "MaxUnpool2d MaxUnpool3d",
        "nn.pooling": "_MaxPoolNd",
    },
    "nn.modules.rnn": {"nn": "GRU GRUCell LSTM LSTMCell RNN RNNBase RNNCell RNNCellBase"},
    "nn.modules.sparse": {"nn": "Embedding EmbeddingBag"},
    "nn.modules.transformer": {
        "nn": "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder "
        "TransformerEncoderLayer",
        "nn.transformer": "_get_activation_fn _get_clones",
    },
    "nn.modules.upsampling": {"nn": "Upsample UpsamplingBilinear2d UpsamplingNearest2d"},
    "nn.modules.utils": {
        "nn.tuples": "_ntuple _pair _quadruple _reverse_repeat_tuple _single _triple "
        "consume_prefix_in_state_dict_if_present"
    },
    "nn.parallel.distributed": {"nn.parallel": "DistributedDataParallel"},
    "nn.parallel.data_parallel": {"nn.parallel": "DataParallel data_parallel"},
    "nn.parallel.scatter_gather": {},
    "nn.utils.spectral_norm": {
        "nn.utils.reweighted": "SpectralNorm remove_spectral_norm spectral_norm"
    },
    "nn.utils.weight_norm": {"nn.utils.reweighted": "WeightNorm remove_weight_norm weight_norm"},
    "optim.adadelta": {"optim": "Adadelta"},
    "optim._adafactor": {"optim": "Adafactor"},
    "optim.adagrad": {"optim": "Adagrad"},
    "optim.adamax": {"optim": "Adamax"},
    "optim.adamw": {"optim": "AdamW"},
    "optim.asgd": {"optim": "ASGD"},
    "optim.nadam": {"optim": "NAdam"},
    "optim.radam": {"optim": "RAdam"},
    "optim.rmsprop": {"optim": "RMSprop"},
    "optim.rprop": {"optim": "Rprop"},
    "optim.sgd": {"optim": "SGD"},
    "optim.sparse_adam": {"optim": "SparseAdam"},
    "profiler.profiler": {
        "profiler": "ExecutionTraceObserver ProfilerAction ProfilerActivity _KinetoProfile "
        "kineto_available profile schedule supported_activities tensorboard_trace_handler"
    },
    "storage": {"ops.tensor.storages": "TypedStorage UntypedStorage"},
    "utils._python_dispatch": {},
    "utils.cpp_extension": {},
    "utils.data._utils": {},
    "utils.data._utils.collate": {"utils.data": "default_collate default_convert"},
    "utils.data._utils.worker": {"utils.data": "get_worker_info"},
    "utils.data.dataloader": {
        "utils.data": "DataLoader default_collate default_convert get_worker_info",
        "utils.data.collate": "_collate_fn_t",
        "utils.data.loader": "_BaseDataLoaderIter _MultiProcessingDataLoaderIter "
        "_SingleProcessDataLoaderIter",
    },
    "utils.data.distributed": {"utils.data": "DistributedSampler"},
    "utils.flop_counter": {},
    "utils.model_zoo": {},
}
PATHS: Final = tuple(_TABLE)
"""Every path that is a module by this table, without `torch.`."""


class PathModule(ModuleType):
    """A module path of torch's whose names stand elsewhere."""

    def __init__(self, path: str) -> None:
        name = f"{PACKAGE}.{path}"
        super().__init__(name, f"{path}: names of torch's that stand elsewhere in {PACKAGE}.")
        below = any(other.startswith(f"{path}.") for other in PATHS)
        self.__spec__ = ModuleSpec(name, None, is_package=below)
        self.__package__ = name if below else name.rpartition(".")[0]
        if below:
            self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        # Those who walk over all modules (inspect, warnings) ask for names of this kind alone.
        if name == "__all__":
            return [each for each in _homes(_path(self)) if not each.startswith("_")]
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name)
        path = _path(self)
        home = _homes(path).get(name)
        if home is not None:
            value = getattr(importlib.import_module(f"{PACKAGE}.{home}".rstrip(".")), name)
        elif name in absent.STAND_INS.get(path, ()):
            value = absent.stand_in(path, name)
        elif f"{path}.{name}" in PATHS:
            value = importlib.import_module(f"{self.__name__}.{name}")
        else:
            raise absent.missing(self.__name__, path, name)
        self.__dict__[name] = value
        return value

    def __dir__(self) -> list[str]:
        path = _path(self)
        below = [other[len(path) + 1 :] for other in PATHS if other.startswith(f"{path}.")]
        names = {*_homes(path), *absent.STAND_INS.get(path, ())}
        return sorted(names.union(each for each in below if "." not in each))


def _path(module: PathModule) -> str:
    return module.__name__.removeprefix(f"{PACKAGE}.")


def _homes(path: str) -> dict[str, str]:
    """The module in which each name of a path stands."""
    found: dict[str, str] = {}
    for home, names in _TABLE.get(path, {}).items():
        below = [other for other in _TABLE if names.endswith("*") and other.startswith(names[:-1])]
        listed = " ".join(_TABLE[other].get(home, "") for other in below) if below else names
        found |= dict.fromkeys(listed.split(), home)
    return found


def fill(below: str) -> None:
    """Put every name of the paths below one into its module, for libraries that ask `vars`."""
    for path in PATHS:
        if path == below or path.startswith(f"{below}."):
            module = sys.modules[f"{PACKAGE}.{path}"]
            for name in _homes(path):
                getattr(module, name)


def install() -> None:
    """Make every path a module that `import` finds."""
    for path in PATHS:
        sys.modules.setdefault(f"{PACKAGE}.{path}", PathModule(path))
