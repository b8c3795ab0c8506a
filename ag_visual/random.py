"""torch.random's names: the default streams of random numbers, their seeds and states.

Layer 5: names what `ops.tensor.random` declares.
"""

from ag_visual.names import only as _only
from ag_visual.ops.tensor.generator import (
    Generator,
    default_of,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

default_generator = default_of("cpu")
"""The stream that the CPU's random functions draw from where no generator is given."""

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]
__dir__ = _only(__all__, __name__)
