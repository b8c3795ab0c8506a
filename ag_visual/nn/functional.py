"""torch.nn.functional's names: the ops under them, and `inplace=` where torch has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ag_visual.dispatch.table import functions as _functions, spaces as _spaces
from ag_visual.names import only as _only
from ag_visual.nn.heads import multi_head_attention_forward as multi_head_attention_forward
from ag_visual.ops.tensor.generator import source_of

globals().update(_spaces["nn.functional"])


def _with_indices(name: str) -> Callable[..., Any]:
    """`name(..., return_indices=True)` under the name torch gives it."""
    pool = _functions[name]

    def with_indices(input: Any, *args: Any, **kwargs: Any) -> Any:
        return pool(input, *args, **{**kwargs, "return_indices": True})

    with_indices.__name__ = with_indices.__qualname__ = f"{name}_with_indices"
    with_indices.__doc__ = f"The values of {name}, and where each was found in its image (int64)."
    return with_indices


for _name in (
    *(f"{kind}max_pool{rank}d" for kind in ("", "adaptive_") for rank in (1, 2, 3)),
    *(f"fractional_max_pool{rank}d" for rank in (2, 3)),
):
    globals()[f"{_name}_with_indices"] = _with_indices(_name)


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """torch.elu, in place if asked."""
    return _functions["elu_" if inplace else "elu"](input, alpha)


_SELU = (1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


def relu6(input: Any, inplace: bool = False) -> Any:
    """min(max(x, 0), 6)."""
    return _functions["hardtanh_"](input, 0.0, 6.0) if inplace else _functions["relu6"](input)


def selu(input: Any, inplace: bool = False) -> Any:
    """elu with the scale and alpha that keep mean and variance."""
    return _functions["elu_"](input, *_SELU) if inplace else _functions["selu"](input)


def selu_(input: Any) -> Any:
    """selu, in place."""
    return selu(input, True)


def gumbel_softmax(
    logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Any:
    """softmax((logits + Gumbel noise) / tau); hard: one-hot values, the soft gradient."""
    from ag_visual.arrays.backend import backend_of
    from ag_visual.core.level import all_values, drawn

    backend, dtype = backend_of(all_values(logits)), logits._array.dtype
    xp, source = backend.xp, source_of(backend)
    tiny = xp.finfo(dtype).tiny

    def gumbel(whole: tuple[int, ...]) -> Any:
        return xp.asarray(-xp.log(-xp.log(source.rand(whole, dtype) + tiny) + tiny))

    noise = drawn(tuple(logits.shape), gumbel)
    soft = _spaces["nn.functional"]["softmax"]((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = _functions["argmax"](soft, dim, True)
    chosen = _functions["scatter"](_functions["zeros_like"](soft.detach()), dim, index, 1.0)
    return chosen - soft.detach() + soft


__all__ = sorted(
    name
    for name, value in globals().items()
    if callable(value) and name[0] != "_" and name not in ("Any", "source_of")
)
__dir__ = _only(__all__, __name__)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # what the declarations name
