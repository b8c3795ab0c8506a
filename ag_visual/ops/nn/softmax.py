"""softmax, log_softmax and softmin, and their backward ops."""

from __future__ import annotations

from ag_visual.arrays.kernels import softmax as kernels
from ag_visual.core.source import warn
from ag_visual.dispatch.arguments import DType
from ag_visual.dispatch.dims import wrap
from ag_visual.dispatch.dtype_errors import not_implemented
from ag_visual.dispatch.record import ELEMENTWISE, LINEAR, ROWS, UNSEEN, Sample
from ag_visual.dispatch.rules import calls
from ag_visual.dispatch.table import composite, op
from ag_visual.ops.reduction.along_dim import dim_errors, dim_samples


def _total(F, x, dim: int):
    return F.sum(x, dim, True)


def _softmax_curve(F, g, grad_output, output, dim: int):
    return (
        g * grad_output
        - _total(F, g * output, dim) * grad_output
        - g * _total(F, grad_output * output, dim)
    )


def _exps(np, x, dim: int):
    """Softmax by its definition, for the tests."""
    if x.ndim == 0:
        return np.ones(())
    return np.exp(x) / np.sum(np.exp(x), axis=dim, keepdims=True)


def _back_samples(make):
    yield Sample((make((3, 4)), make((3, 4), low=0.1, high=0.9), 1))
    yield Sample((make(()), make((), low=0.1, high=0.9), 0))


def _normal(self, dim) -> tuple[int]:
    return (wrap(dim, self.ndim),)


def _softmax_bend(F, t_output, grad_output, output, dim: int):
    def total(x):
        return F.sum(x, dim, True)

    g = grad_output
    return t_output * (g - total(g * output)) - output * total(g * t_output)


op(
    "softmax_backward",
    kernels.softmax_backward,
    vjp={
        "grad_output": lambda F, g, output, dim: F.softmax_backward(g, output, dim),
        "output": _softmax_curve,
    },
    jvp={"grad_output": LINEAR, "output": _softmax_bend},
    public=False,
    layout=ROWS,
    node="SoftmaxBackwardDataBackward0",
    samples=_back_samples,
    formula=lambda F, grad_output, output, dim: (
        output * (grad_output - F.sum(grad_output * output, dim, True))
    ),
)
op(
    "log_softmax_backward",
    kernels.log_softmax_backward,
    vjp={
        "grad_output": lambda F, g, output, dim: g - _total(F, g * F.exp(output), dim),
        "output": lambda F, g, grad_output, output, dim: (
            -(_total(F, grad_output, dim) * F.exp(output)) * g
        ),
    },
    jvp={"grad_output": LINEAR, "output": ELEMENTWISE},
    public=False,
    layout=ROWS,
    node="LogSoftmaxBackwardDataBackward0",
    samples=_back_samples,
    formula=lambda F, grad_output, output, dim: (
        grad_output - F.exp(output) * F.sum(grad_output, dim, True)
    ),
)
op(
    "softmax_dim",
    lambda xp, self, dim: kernels.softmax(xp, self, dim),
    vjp={"self": calls("softmax_backward", "g", "result", "dim")},
    jvp={"self": lambda F, t_self, result, dim: F.softmax_backward(t_self, result, dim)},
    layout=ROWS,
    normalize=_normal,
    public=False,
    node="SoftmaxBackward0",
    public_name="softmax",
    samples=dim_samples(),
    errors=dim_errors,
    reference=lambda np, x, dim: _exps(np, x, dim),
    formula=lambda F, self, dim: F.exp(self) / F.sum(F.exp(self), dim, True),
)
op(
    "log_softmax_dim",
    lambda xp, self, dim: kernels.log_softmax(xp, self, dim),
    vjp={"self": calls("log_softmax_backward", "g", "result", "dim")},
    jvp={"self": lambda F, t_self, result, dim: t_self - F.sum(F.exp(result) * t_self, dim, True)},
    layout=ROWS,
    normalize=_normal,
    public=False,
    node="LogSoftmaxBackward0",
    public_name="log_softmax",
    samples=dim_samples(),
    errors=dim_errors,
    reference=lambda np, x, dim: np.log(_exps(np, x, dim)),
    formula=lambda F, self, dim: self - F.log(F.sum(F.exp(self), dim, True)),
)


def _chosen(name: str, input, dim) -> int:
    if dim is not None:
        return dim  # type: ignore[no-any-return]
    warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument."
    )
    return 0 if input.ndim in (0, 1, 3) else 1


def _floating(F, name: str, input, dtype):
    if dtype is not None:
        return input.to(dtype)
    if not (input.is_floating_point() or input.is_complex()):
        more = "; convert it with .float(), or pass dtype="
        raise not_implemented(f"{name}_lastdim_kernel_impl", input.dtype, more)
    return input


def log_probabilities(F, input, dim: int):
    """log_softmax for ops that are made of it."""
    return F.log_softmax_dim(_floating(F, "log_softmax", input, None), dim)


def _declare(name: str, what: str) -> None:
    """torch's function and method, which want a dim, and its layer function, which warns."""

    def body(F, input, dim: int, dtype: DType | None = None):
        if not F.traced:
            return getattr(F, f"{name}_dim")(input, dim)
        return getattr(F, f"{name}_dim")(_floating(F, name, input, dtype), dim)

    def layer(F, input, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None):
        return body(F, input, _chosen(name, input, dim), dtype)

    doc = f"{what} along `dim`.\n\nComputed in `dtype` if given."
    casts = "cuda result"
    composite(name, out=True, doc=doc, spaces="torch special", autocast=casts)(body)
    spaces = f"nn.functional.{name}"
    declare = composite(
        f"{name}_layer", public=False, profiled=name, doc=doc, spaces=spaces, autocast=casts
    )
    function = declare(layer)
    function.__name__ = function.__qualname__ = name


_declare("softmax", "exp(x) / sum(exp(x))")
_declare("log_softmax", "log(softmax(x))")


@composite("softmin", method=False, spaces="nn.functional", profiled=UNSEEN)
def _softmin(F, input, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None):
    """softmax of -x."""
    return F.softmax(-input, _chosen("softmin", input, dim), dtype)
