"""`python -m tests.machines --minutes N --seed S`: random programs against the reference.

With `--differential` they are line by line compared with torch, and what differs is told by cause,
a crash of an engine by the program that does it.
"""

from __future__ import annotations

import argparse
import time

parser = argparse.ArgumentParser(
    prog="python -m tests.machines",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
)
parser.add_argument("--minutes", type=float, default=1.0)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--differential", action="store_true", help="compare with torch")
parser.add_argument("--causes", type=int, default=20, help="how many causes to tell")
parser.add_argument("--jobs", type=int, help="how many processes compare; one per core")
parser.add_argument("--kind", action="append", help="compare programs of this kind alone")
options = parser.parse_args()

if options.differential:
    from .differential.kinds import NAMES
    from .differential.report import search
    from .differential.workers import JOBS

    jobs = options.jobs or JOBS
    kinds = tuple(options.kind or NAMES)
    if unknown := set(kinds) - set(NAMES):
        parser.error(f"no kind of programs: {', '.join(unknown)}; there are {', '.join(NAMES)}")
    report = search(options.seed, minutes=options.minutes, jobs=jobs, kinds=kinds)
    print(report.text(options.causes, jobs))
    raise SystemExit(bool(report.faults))

from .run import EXAMPLES, run  # noqa: E402

end = time.monotonic() + options.minutes * 60
rounds = 0
while time.monotonic() < end:
    run(1, options.seed + rounds)
    rounds += 1
print(
    f"nothing found: {rounds * EXAMPLES} programs, seeds {options.seed} to {options.seed + rounds}"
)
