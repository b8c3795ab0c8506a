"""torch.testing: comparing tensors, and making random ones to compare."""

from ag_visual import absent as _absent
from ag_visual.names import expose as _expose
from ag_visual.testing.comparison import (
    assert_allclose as assert_allclose,
    assert_close as assert_close,
)
from ag_visual.testing.creation import make_tensor as make_tensor

_expose(__name__)

__getattr__ = _absent.asked(__name__, "testing")
