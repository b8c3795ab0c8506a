"""Lazy modules: the first call finds the size of their input, and makes them ordinary ones."""

from __future__ import annotations

from typing import Any, ClassVar

from ag_visual.dispatch.table import functions as F
from ag_visual.nn import convolution, normalization
from ag_visual.nn.linear import Linear
from ag_visual.nn.module import Module
from ag_visual.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy


class LazyModuleMixin:
    """Base, before a Module, of modules that `initialize_parameters` gives their shapes.

    The first call of the module (or a state that is loaded) does so; then it is of the class
    `cls_to_become`.
    """

    cls_to_become: ClassVar[type[Any] | None] = None
    _initialize_hook: Any
    _load_hook: Any

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[call-arg, safe-super]
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def _lazy_load_hook(self: Any, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Take the shapes of a state that has them."""
        for name, own in [*self._parameters.items(), *self._buffers.items()]:
            given = state_dict.get(prefix + name)
            if given is not None and is_lazy(own) and not is_lazy(given):
                own.materialize(given.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters their shapes and values, from the arguments of a call."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self: Any) -> bool:
        """Whether a parameter or buffer has no shape yet."""
        return any(is_lazy(each) for each in (*self._parameters.values(), *self._buffers.values()))

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` whose in_features is the last size of its first input."""

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """New values, where the shapes are known."""
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:  # type: ignore[override]
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        if self.in_features == 0:
            self._known(input)

    def _known(self, input: Any) -> None:
        """The size of weights that a loaded state gave."""
        if input.shape[-1] != self.weight.shape[-1]:
            raise AssertionError(
                "The in_features inferred from input: "
                f"{input.shape[-1]} is not equal to in_features from self.weight: "
                f"{self.weight.shape[-1]}"
            )
        self.in_features = input.shape[-1]


class _LazyConv(LazyModuleMixin):
    """Base: in_channels is the size of the first input's channels."""

    in_channels: int
    weight: Any
    bias: Any

    def _wait(self: Any, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """New values, where the shapes are known."""
        if not self.has_uninitialized_params() and self.in_channels:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Any, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            return
        plain = self.count + 1
        if input.dim() not in (plain, plain + 1):
            raise RuntimeError(
                f"Expected {plain}D (unbatched) or {plain + 1}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        self.in_channels = input.shape[-plain]
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        self.weight.materialize((first, second // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyForward(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        given = (stride, padding, dilation, groups, False, padding_mode)
        super().__init__(0, 0, kernel_size, *given)
        self._wait(out_channels, bias, device, dtype)


class _LazyTransposed(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        given = (stride, padding, output_padding, groups, False, dilation, padding_mode)
        super().__init__(0, 0, kernel_size, *given)
        self._wait(out_channels, bias, device, dtype)


class _LazyNormBase(LazyModuleMixin):
    """Base: num_features is the second size of the first input."""

    num_features: int
    affine: bool
    track_running_stats: bool
    weight: Any
    bias: Any

    def __init__(
        self: Any,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, bias=False)
        self.affine, self.track_running_stats = affine, track_running_stats
        kind = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**kind)
            if bias:
                self.bias = UninitializedParameter(**kind)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**kind)
            self.running_var = UninitializedBuffer(**kind)
            self.num_batches_tracked = F["tensor"](0, device=device)

    def reset_parameters(self) -> None:
        """Values of the beginning, where the shapes are known."""
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Any) -> None:
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        waiting = [self.weight, self.bias, self.running_mean, self.running_var]
        for each in waiting:
            if is_lazy(each):
                each.materialize((self.num_features,))
        self.reset_parameters()


def _lazy(become: type[Module], mixin: type[LazyModuleMixin], base: type[Module], what: str) -> Any:
    doc = f"`{become.__name__}` whose {what} the first input tells."
    body = {"cls_to_become": become, "__doc__": doc, "__module__": __name__}
    return type(f"Lazy{become.__name__}", (mixin, base), body)


def _lazy_conv(count: int) -> tuple[Any, Any]:
    straight, transposed = (
        getattr(convolution, f"{name}{count}d") for name in ("Conv", "ConvTranspose")
    )
    return (
        _lazy(straight, _LazyForward, straight, "in_channels"),
        _lazy(transposed, _LazyTransposed, transposed, "in_channels"),
    )


def _lazy_norm(count: int) -> tuple[Any, Any]:
    return tuple(  # type: ignore[return-value]
        _lazy(
            getattr(normalization, f"{kind}{count}d"),
            _LazyNormBase,
            getattr(normalization, f"_{kind}"),
            "num_features",
        )
        for kind in ("BatchNorm", "InstanceNorm")
    )


LazyConv1d, LazyConvTranspose1d = _lazy_conv(1)
LazyConv2d, LazyConvTranspose2d = _lazy_conv(2)
LazyConv3d, LazyConvTranspose3d = _lazy_conv(3)
LazyBatchNorm1d, LazyInstanceNorm1d = _lazy_norm(1)
LazyBatchNorm2d, LazyInstanceNorm2d = _lazy_norm(2)
LazyBatchNorm3d, LazyInstanceNorm3d = _lazy_norm(3)
