"""When to profile: actions, schedules of steps, and what to do with each trace."""

from __future__ import annotations

import enum
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from ag_visual.core.source import warn


class ProfilerAction(enum.Enum):
    """What to do in a step. DEVICE_STOPPED is none that a schedule may ask for."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


Schedule = Callable[[int], ProfilerAction]


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Schedule:
    """A function from the number of a step to what to do in it.

    After `skip_first` steps come cycles: `wait` steps off, `warmup` steps, `active` steps that are
    collected. repeat: how many cycles, 0: no end. skip_first_wait: not 0 leaves the wait of the
    first cycle out.

    Raises:
        AssertionError: a number is below 0, or `active` is 0.
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} "
            f"(need >= 0), active={active} (need > 0), repeat={repeat} (need >= 0), "
            f"skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        text = "Profiler won't be using warmup, this can skew profiler results"
        warn(text)
    cycle = wait + warmup + active

    def action_of(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        done, at = divmod(step, cycle)
        if (repeat and done >= repeat) or at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action_of


def always(_: int) -> ProfilerAction:
    """The schedule of a profile that was given none."""
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[Any], None]:
    """A function for `on_trace_ready` that writes each trace into a folder.

    worker_name: how its files begin (default: host and process); use_gzip: packed.

    Raises:
        RuntimeError: the folder cannot be made.
    """

    def handler(profile: Any) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {dir_name}") from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        file = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        profile.export_chrome_trace(os.path.join(dir_name, file))

    return handler
