"""torch.cuda.random: the random stream of the GPU."""

from __future__ import annotations

from typing import Any

from ag_visual.cuda.gpu import is_available
from ag_visual.names import expose as _expose
from ag_visual.ops.tensor.generator import default_of


def manual_seed(seed: int) -> None:
    """Restart the random stream of the devices."""
    if is_available():
        default_of("cuda").manual_seed(seed)


def seed() -> None:
    """Restart the random stream of the devices at a random place."""
    if is_available():
        default_of("cuda").seed()


def initial_seed() -> int:
    """The number that the random stream of the devices began with."""
    return default_of("cuda").initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of the random stream, a uint8 tensor on the CPU."""
    return default_of("cuda").get_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Put the random stream into a state."""
    default_of("cuda").set_state(new_state)


def get_rng_state_all() -> list[Any]:
    """The states of the random streams: one for all devices, none where there is no GPU."""
    return [get_rng_state()] if is_available() else []


def set_rng_state_all(new_states: Any) -> None:
    """Put the random stream into the state of `get_rng_state_all`."""
    for state in new_states:
        set_rng_state(state)


manual_seed_all = manual_seed
seed_all = seed
_expose(__name__)
