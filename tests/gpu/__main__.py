"""`python -m tests.gpu`: does everything hold on this machine's GPU? One page; fails loudly.

The exit status is 0 where all checks hold, 1 where one fails (its name is on the first lines), and
2 where nothing could be checked, which one line says why.
"""

from __future__ import annotations

import argparse
import sys

parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
parser.add_argument("--only", help="the check of this name, or all with it in section or name")
parser.add_argument("--every", type=int, default=1, help="look at every N-th op of the table")
parser.add_argument("--seconds", type=float, default=2.0, help="how long to measure each ratio")
parser.add_argument("--list", action="store_true", help="name the checks and run none")
parser.add_argument(
    "--stand-in",
    action="store_true",
    help="without a GPU: run the checks' own code on a make-believe CuPy over NumPy",
)


def main() -> int:
    """Run what the command line asks for; the exit status."""
    options = parser.parse_args()
    if options.stand_in:
        from . import stand_in

        stand_in.install()
    from ag_visual import cuda
    from ag_visual.arrays import BackendUnavailable

    if not options.list:
        try:
            cuda.init()
        except BackendUnavailable as reason:
            print(f"cannot run: {' '.join(str(reason).split())}", file=sys.stderr)
            return 2

    from . import checks  # noqa: F401 - they name themselves
    from .page import CHECKS, Machine, run

    wanted = options.only or ""
    chosen = [each for each in CHECKS if wanted == each.name]
    chosen = chosen or [each for each in CHECKS if wanted in each.section or wanted in each.name]
    if options.list:
        print("\n".join(f"{each.section}: {each.name}" for each in chosen))
        return 0
    if not chosen:
        print(f"cannot run: no check has {wanted!r} in its name; see --list", file=sys.stderr)
        return 2
    import ag_visual

    cupy = ag_visual.arrays.backend_for("cuda").xp
    where = "a stand-in for CuPy, no GPU" if options.stand_in else cuda.get_device_name()
    title = f"ag_visual {ag_visual.__version__} with CuPy {cupy.__version__} on {where}"
    machine = Machine(real=not options.stand_in, every=options.every, seconds=options.seconds)
    page = run(chosen, machine, title, lambda text: print(text, file=sys.stderr, flush=True))
    print(page.text())
    return 1 if page.failures else 0


sys.exit(main())
