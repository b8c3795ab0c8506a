"""torch.utils.benchmark: how long a statement takes."""

from ag_visual import absent as _absent
from ag_visual.names import expose as _expose
from ag_visual.utils.benchmark.measurement import (
    Measurement as Measurement,
    TaskSpec as TaskSpec,
    select_unit as select_unit,
)
from ag_visual.utils.benchmark.timer import Timer as Timer, timer as timer

_expose(__name__)

__getattr__ = _absent.asked(__name__, "utils.benchmark")
