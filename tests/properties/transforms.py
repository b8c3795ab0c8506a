"""torch's own samples under dual tensors and `func`'s transforms, on torch and on this package.

`python -m tests.properties.transforms [name ...]` runs every differentiable name of
tests/golden/ops.tsv on all samples, in float64 and complex128, through jvp, vmap, vmap of grad, jvp
of grad and grad of jvp (`--form`: one of them, or dual tensors), and prints what differs. Samples
that torch itself refuses under a transform say nothing. With `--page` it writes the section of
docs/reference/agreement.md. `compared` serves the tests.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Callable
from typing import Any

import numpy

import ag_visual as ag

from .opinfo import (
    HEADING,
    PAGE,
    Agreement,
    SampleRefused,
    Side,
    array_of,
    cases,
    difference,
    names,
    ours_of,
    over_samples,
    random_like,
    randomly,
    shapes,
    sides,
)
from .test_golden import reasons

SIZE = 2


class Transformed:
    """What transforms want of a side: a real loss, directions, batches."""

    def __init__(self, side: Side) -> None:
        self.engine = side.engine
        self.func = side.engine.func
        self.wrap = side.wrap
        self.outputs = side.outputs
        self.leaves = tuple(leaf.detach() for leaf in side.leaves)
        self.moves = tuple(side.wrap(m) for m in random_like([*map(array_of, self.leaves)], 3))

    def weighted(self, outs: tuple[Any, ...]) -> Any:
        """A real number that all outputs go into."""
        total = None
        for number, out in enumerate(outs):
            if not (out.is_floating_point() or out.is_complex()):
                continue
            weight = numpy.random.default_rng(number).uniform(-1, 1, tuple(out.shape))
            given = self.wrap(weight).to(out.real.dtype if out.is_complex() else out.dtype)
            part = (out * given).sum()
            part = part.real + 2 * part.imag if part.is_complex() else part
            total = part if total is None else total + part
        if total is None:
            raise SampleRefused("no output has a derivative")
        return total

    def loss(self, *leaves: Any) -> Any:
        return self.weighted(self.outputs(*leaves))

    def stacked(self, dims: tuple[int | None, ...]) -> list[Any]:
        """The leaves, some with slices along a dimension."""
        found = []
        for leaf, dim in zip(self.leaves, dims, strict=True):
            slices = [leaf * (1 + number / 16) for number in range(SIZE)]
            found.append(leaf if dim is None else self.engine.stack(slices, dim))
        return found


def in_dims(side: Transformed, key: str) -> tuple[int | None, ...]:
    """Where the leaves have a batch: all of them in half of the samples, else some."""
    random = numpy.random.default_rng(zlib.crc32(key.encode()))
    every = random.random() < 0.5
    dims = [
        (0 if random.random() < 0.6 else -1) if every or random.random() < 0.6 else None
        for _ in side.leaves
    ]
    return (0, *dims[1:]) if not any(dim is not None for dim in dims) else tuple(dims)


def _duals(side: Transformed, key: str) -> Any:
    forward = side.engine.autograd.forward_ad
    with forward.dual_level():
        pairs = zip(side.leaves, side.moves, strict=True)
        outs = side.outputs(*(forward.make_dual(leaf, move) for leaf, move in pairs))
        found = [forward.unpack_dual(out) for out in outs]
        if side.engine is ag:
            assert all(t is None or laid_alike(x, t) for x, t in found), "layout of a tangent"
        return [t if t is None else array_of(t) for _, t in found]


def laid_alike(tensor: Any, tangent: Any) -> bool:
    """Whether a tangent lies in memory as its tensor does."""
    return not tensor.numel() or all(
        n < 2 or s == t
        for n, s, t in zip(tensor.shape, tensor.stride(), tangent.stride(), strict=True)
    )


def _jvp(side: Transformed, key: str) -> Any:
    return side.func.jvp(side.outputs, side.leaves, side.moves)


def _vmap(side: Transformed, key: str) -> Any:
    dims = in_dims(side, key)
    return side.func.vmap(side.outputs, dims, randomness="same")(*side.stacked(dims))


def _vmap_of_grad(side: Transformed, key: str) -> Any:
    dims = in_dims(side, key)
    slope = side.func.grad(side.loss, tuple(range(len(dims))))
    return side.func.vmap(slope, dims, randomness="same")(*side.stacked(dims))


def _jvp_of_grad(side: Transformed, key: str) -> Any:
    slope = side.func.grad(side.loss, tuple(range(len(side.leaves))))
    return side.func.jvp(slope, side.leaves, side.moves)


def _grad_of_jvp(side: Transformed, key: str) -> Any:
    def pushed(*leaves: Any) -> Any:
        return side.weighted(side.func.jvp(side.outputs, leaves, side.moves)[1])

    return side.func.grad(pushed, tuple(range(len(side.leaves))))(*side.leaves)


TRANSFORMS: dict[str, Callable[[Transformed, str], Any]] = {
    "jvp": _jvp,
    "vmap": _vmap,
    "vmap of grad": _vmap_of_grad,
    "jvp of grad": _jvp_of_grad,
    "grad of jvp": _grad_of_jvp,
}
DUALS = "dual tensors"
FORMS = {DUALS: _duals, **TRANSFORMS}


def compare(form: str, info: Any, sample: Any, function: Callable[..., Any], key: str) -> str:
    """What differs between the engines on one sample under a transform, '' if nothing does."""
    mine, theirs = sides(info, sample, function)
    if not theirs.leaves:
        raise SampleRefused("nothing to differentiate by")
    try:
        expected = _arrays(FORMS[form](Transformed(theirs), key))
    except Exception as error:
        raise SampleRefused(f"{type(error).__name__}: {error}") from None
    found = _arrays(FORMS[form](Transformed(mine), key))
    if randomly(info, theirs):
        found, expected = shapes(found), shapes(expected)
    return difference(found, expected)


def _arrays(result: Any) -> list[Any]:
    if isinstance(result, (list, tuple)):
        return [array for part in result for array in _arrays(part)]
    return [result if result is None or isinstance(result, numpy.ndarray) else array_of(result)]


def compared(name: str, takes_complex: bool, form: str, most: int | None = None) -> Agreement:
    """A name's samples under a transform."""
    result = Agreement(name)
    for info, dtype, _ in cases(name, takes_complex):
        function = ours_of(info)
        if function is None or (form == DUALS and not info.supports_forward_ad):
            continue

        def one(sample: Any, number: int, info=info, function=function) -> str:
            return compare(form, info, sample, function, f"{name} {number}")

        over_samples(result, info, dtype, most, one)
    return result


# The page -----------------------------------------------------------------------------------------


def section(found: dict[str, list[Agreement]], most: int | None) -> str:
    """What the page says of the transforms; `most` samples of each variant and dtype were run."""
    limit = "" if most is None else f" --most {most}"
    lines = [
        HEADING,
        "The same samples go through the transforms of `torch.func` on both sides, by",
        f"`python -m tests.properties.transforms --page{limit}`. A name counts where",
        "torch takes any of its samples under the transform.",
        "",
        "| transform | names | agree on all samples | samples |",
        "|---|---|---|---|",
    ]
    differing = []
    for form, results in found.items():
        counted = [result for result in results if result.samples]
        bad = [result for result in counted if result.differences]
        differing += [(result, form) for result in bad]
        samples = sum(result.samples for result in counted)
        lines.append(f"| {form} | {len(counted)} | {len(counted) - len(bad)} | {samples} |")
    lines += ["", "These do not:" if differing else "All of them do."]
    if differing:
        lines += ["", "| name | transform | samples that differ | why |", "|---|---|---|---|"]
    told = reasons("transform")
    for result, form in sorted(differing, key=lambda each: (each[0].name, each[1])):
        count = sum(result.differences.values())
        lines.append(
            f"| `{result.name}` | {form} | {count} of {result.samples} | {told[result.name]} |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help="ops to compare (default: all)")
    parser.add_argument("--most", type=int, default=None, help="samples of each variant and dtype")
    parser.add_argument(
        "--form", choices=FORMS, action="append", help="one of them (default: transforms)"
    )
    parser.add_argument("--refused", action="store_true", help="print what torch refuses")
    parser.add_argument("--page", action="store_true", help=f"write the section of {PAGE.name}")
    options = parser.parse_args(arguments)
    listed = names()
    found: dict[str, list[Agreement]] = {form: [] for form in options.form or TRANSFORMS}
    for name in options.names or list(listed):
        for form, results in found.items():
            result = compared(name, listed.get(name, True), form, options.most)
            results.append(result)
            for what, count in result.differences.items():
                print(f"{name}, {form}: {what} ({count} of {result.samples})", flush=True)
            for what, count in result.refused.items() if options.refused else ():
                print(f"{name}, {form}: torch refuses {count}: {what}", flush=True)
    for form, results in found.items():
        agreeing = sum(result.agrees for result in results)
        print(f"{form}: {agreeing} of {sum(r.samples > 0 for r in results)} names agree")
    if options.page:
        page = PAGE.read_text(encoding="utf-8").partition(HEADING)[0].rstrip("\n")
        PAGE.write_text(f"{page}\n\n{section(found, options.most)}", encoding="utf-8")
    return int(any(result.differences for results in found.values() for result in results))


if __name__ == "__main__":
    sys.exit(main())
