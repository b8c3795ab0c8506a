"""Running the machine with one seed after the other."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, core, settings
from hypothesis.stateful import run_state_machine_as_test

from .machine import Programs

EXAMPLES = 25


def run(rounds: int, seed: int, *, shrink: bool = True) -> None:
    """So many rounds of `EXAMPLES` random programs each, from this seed on. A finding raises."""
    previous = core.global_force_seed
    options = settings(
        max_examples=EXAMPLES,
        stateful_step_count=30,
        deadline=None,
        derandomize=False,  # the profile that hypothesis takes where CI is set would repeat itself
        database=None,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    try:
        for number in range(rounds):
            core.global_force_seed = seed + number
            run_state_machine_as_test(Programs, settings=options)
    finally:
        core.global_force_seed = previous
