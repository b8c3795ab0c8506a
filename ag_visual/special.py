"""torch.special's names: special functions, most of them also the package's own under other names.

Layer 5: names what `ops` declares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ag_visual.dispatch.table import functions as _functions
from ag_visual.names import only as _only
from ag_visual.ops.pointwise.special import names as _names

_SAME = (
    "digamma erf erfc erfinv exp2 expm1 i0 log1p log_softmax logit logsumexp polygamma round sinc "
    "softmax xlogy"
)
_OTHER = {
    "expit": "sigmoid",
    "gammainc": "igamma",
    "gammaincc": "igammac",
    "gammaln": "lgamma",
    "multigammaln": "mvlgamma",
    "psi": "digamma",
}
globals().update(_names)
globals().update({name: _functions[name] for name in _SAME.split()})
globals().update({name: _functions[ours] for name, ours in _OTHER.items()})

__all__ = sorted([*_names, *_SAME.split(), *_OTHER])
__dir__ = _only(__all__, __name__)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...  # what the declarations name
