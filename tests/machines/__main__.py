"""`python -m tests.machines --minutes N --seed S`: random programs against the reference.

With `--differential` they are line by line compared with torch, and what differs is told by cause.
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
options = parser.parse_args()

if options.differential:
    from .differential.report import search

    report = search(options.seed, minutes=options.minutes)
    print(report.text(options.causes))
    raise SystemExit(bool(report.found))

from .run import EXAMPLES, run  # noqa: E402

end = time.monotonic() + options.minutes * 60
rounds = 0
while time.monotonic() < end:
    run(1, options.seed + rounds)
    rounds += 1
print(
    f"nothing found: {rounds * EXAMPLES} programs, seeds {options.seed} to {options.seed + rounds}"
)
