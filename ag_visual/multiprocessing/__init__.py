"""torch.multiprocessing: Python's, with `spawn`. Tensors that are not shared are sent by value."""

import multiprocessing as _multiprocessing
from multiprocessing import *  # noqa: F403

from ag_visual import absent as _absent
from ag_visual.multiprocessing.spawning import (
    ProcessContext as ProcessContext,
    ProcessExitedException as ProcessExitedException,
    ProcessRaisedException as ProcessRaisedException,
    SpawnContext as SpawnContext,
    get_all_sharing_strategies as get_all_sharing_strategies,
    get_sharing_strategy as get_sharing_strategy,
    init_reductions as init_reductions,
    set_sharing_strategy as set_sharing_strategy,
    spawn as spawn,
    start_processes as start_processes,
)
from ag_visual.names import expose as _expose

_expose(__name__, *_multiprocessing.__all__)
__getattr__ = _absent.asked(__name__, "multiprocessing")
