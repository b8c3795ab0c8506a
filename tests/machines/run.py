"""Running the machine for some time with one seed after the other."""

from __future__ import annotations

import time

from hypothesis import HealthCheck, Phase, core, settings
from hypothesis.stateful import run_state_machine_as_test

from .machine import Programs

EXAMPLES = 25


def run(seconds: float, seed: int, *, shrink: bool = True) -> int:
    """Random programs until the time is over; the number of rounds. A finding raises."""
    end = time.monotonic() + seconds
    rounds = 0
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
        while time.monotonic() < end:
            core.global_force_seed = seed + rounds
            run_state_machine_as_test(Programs, settings=options)
            rounds += 1
    finally:
        core.global_force_seed = previous
    return rounds
