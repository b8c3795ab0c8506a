"""torch's own samples of its ops (OpInfo, in torch's wheel), run on torch and on this package.

`python -m tests.properties.opinfo [name ...]` compares value, gradient and second gradient of every
differentiable name of tests/golden/ops.tsv on all samples in float64 and complex128, and prints
what differs. With `--page` it also writes docs/reference/agreement.md. `compared` serves the test.
"""

from __future__ import annotations

import argparse
import math
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy

import ag_visual as ag
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.table import traced

from ..oracle import opinfos, torch
from .test_golden import public, reasons, rows

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "agreement.md"
RTOL, ATOL = 1e-6, 1e-8
SPACES = ("linalg", "fft", "special", "nn.functional")


@dataclass
class Agreement:
    """What the samples of one name showed."""

    name: str
    samples: int = 0
    # "dtype: what: text" for each kind of difference, with the number of samples that showed it.
    differences: dict[str, int] = field(default_factory=dict)
    # Why torch itself does not do some samples.
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def agrees(self) -> bool:
        return not self.differences and self.samples > 0

    def differs(self, what: str) -> None:
        self.differences[what] = self.differences.get(what, 0) + 1


# Names and functions ------------------------------------------------------------------------------


def names() -> dict[str, bool]:
    """Each differentiable name of the list, and whether it takes complex numbers."""
    found = rows("ops.tsv").items()
    return {name: row[1] == "yes" for name, row in found if row[0] == "yes"}


def infos(name: str) -> list[Any]:
    """torch's OpInfos of a name (its variants)."""
    return [info for info in opinfos() if info.name == name]


def resolved(name: str) -> Any:
    """This package's function (or method) of a name."""
    # torch keeps some names (slice, backward ops) in torch.ops.aten alone: they are in the table.
    found = public(name)
    return getattr(traced, name, None) if found is None else found


class AsTorch:
    """This package under torch's name, its table as torch.ops.aten."""

    def __getattr__(self, name: str) -> Any:
        return self if name in ("ops", "aten") else Overloads(name)


class Overloads:
    """A function that is its own `default` overload, as those of torch.ops.aten."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def default(self) -> Any:
        return resolved(self.name)

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(ag, self.name), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.default(*args, **kwargs)


AS_TORCH = AsTorch()


def rebound(function: Any) -> Any:
    """A Python function of torch's test suite with this package in torch's place."""
    if not isinstance(function, types.FunctionType):
        return function
    scope = {**function.__globals__, "torch": AS_TORCH, "np": numpy}
    made = types.FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def ours_of(info: Any) -> Callable[..., Any] | None:
    """What to call here: torch's lambda where it has one, else the function of the name."""
    op = info.op
    home = getattr(op, "__module__", "") or ""
    if isinstance(op, types.FunctionType) and home.startswith("torch.testing"):
        return rebound(op)  # type: ignore[no-any-return]
    return resolved(info.name)


# Values -------------------------------------------------------------------------------------------


def translated(value: Any, made: dict[int, Tensor]) -> Any:
    """Arguments of a sample as this package takes them; one Tensor for each of torch's."""
    if isinstance(value, torch.Tensor):
        if id(value) not in made:
            made[id(value)] = own_tensor(value)
        return made[id(value)]
    if isinstance(value, torch.dtype):
        return getattr(ag, str(value).removeprefix("torch."))
    if isinstance(value, torch.Size):
        return ag.Size(value)
    if isinstance(value, torch.device):
        return ag.device(str(value))
    if isinstance(value, (torch.memory_format, torch.layout)):
        return getattr(ag, str(value).removeprefix("torch."), value)
    if isinstance(value, torch.nn.Module):
        return getattr(ag.nn, type(value).__name__)()
    if callable(value) and (getattr(value, "__module__", "") or "").startswith("torch"):
        return rebound(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple(translated(item, made) for item in value)
    if isinstance(value, (list, tuple)):
        return type(value)(translated(item, made) for item in value)
    if isinstance(value, dict):
        return {key: translated(item, made) for key, item in value.items()}
    return value


def own_tensor(tensor: Any) -> Tensor:
    """A leaf with a tensor's values in a tensor's layout."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    array = plain.numpy()
    if array.size and any(s < 0 for s in array.strides):
        array = array.copy()
    result = from_array(numpy.array(array, order="K", copy=True))
    return result.requires_grad_() if tensor.requires_grad else result  # type: ignore[no-any-return]


def apart(value: Any) -> Any:
    """Arguments whose views of leaves are leaves: torch made them without a graph, to no use."""
    if isinstance(value, torch.Tensor):
        return (
            value.detach().requires_grad_() if value.requires_grad and value._is_view() else value
        )
    if type(value) in (list, tuple):
        return type(value)(apart(item) for item in value)
    if isinstance(value, dict):
        return {key: apart(item) for key, item in value.items()}
    return value


def leaves_of(value: Any, kind: type) -> list[Any]:
    """All tensors in nested arguments or results, once each."""
    found: dict[int, Any] = {}

    def visit(item: Any) -> None:
        if isinstance(item, kind):
            found.setdefault(id(item), item)
        elif isinstance(item, (list, tuple)):
            for part in item:
                visit(part)
        elif isinstance(item, dict):
            for part in item.values():
                visit(part)

    visit(value)
    return list(found.values())


def array_of(tensor: Any) -> Any:
    if isinstance(tensor, Tensor):
        return numpy.asarray(tensor.numpy(force=True))
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype is torch.bfloat16:
        return plain.float().numpy().astype(ag.bfloat16.np)
    return plain.numpy(force=True)


def torch_tensor(array: Any) -> Any:
    if array.dtype.kind == "V":
        return torch.tensor(array.astype(numpy.float32)).bfloat16()
    return torch.tensor(array)


def random_like(arrays: list[Any], seed: int) -> list[Any]:
    """Weights for outputs or gradients: the same for both engines."""
    generator = numpy.random.default_rng(seed)
    found = []
    for array in arrays:
        g = generator.uniform(-1, 1, array.shape)
        if array.dtype.kind == "c":
            g = g + 1j * generator.uniform(-1, 1, array.shape)
        found.append(numpy.asarray(g, dtype=array.dtype))
    return found


# One sample ---------------------------------------------------------------------------------------


class Side:
    """A sample on one engine: its leaves, and its outputs as a function of them."""

    def __init__(
        self,
        engine: Any,
        kind: type,
        wrap: Callable[[Any], Any],
        given: tuple[Any, Any, Any],
        leaves: list[Any],
        function: Callable[..., Any],
    ) -> None:
        self.engine = engine
        self.kind = kind
        self.wrap = wrap
        self.given = given
        self.leaves = leaves
        self.function = function

    def outputs(self, *leaves: Any) -> tuple[Any, ...]:
        """What the function returns with these tensors in place of its leaves."""
        pairs = zip(self.leaves, leaves, strict=True)
        input, args, kwargs = replaced(self.given, {id(leaf): x for leaf, x in pairs})
        self.engine.manual_seed(5)
        return tuple(leaves_of(self.function(input, *args, **kwargs), self.kind))


def sides(info: Any, sample: Any, function: Callable[..., Any]) -> tuple[Side, Side]:
    """A sample on this package and on torch; leaves are the tensors that require grad."""
    given = apart((sample.input, sample.args, sample.kwargs))
    made: dict[int, Tensor] = {}
    mine = translated(given, made)
    leaves = [leaf for leaf in leaves_of(given, torch.Tensor) if leaf.requires_grad]
    wrapper, process = info.gradcheck_wrapper, sample.output_process_fn_grad

    def theirs(*args: Any, **kwargs: Any) -> Any:
        return process(wrapper(info.op, *args, **kwargs))

    def ours(*args: Any, **kwargs: Any) -> Any:
        return rebound(process)(rebound(wrapper)(function, *args, **kwargs))

    return (
        Side(ag, Tensor, from_array, mine, [made[id(leaf)] for leaf in leaves], ours),
        Side(torch, torch.Tensor, torch_tensor, given, leaves, theirs),
    )


def replaced(value: Any, others: dict[int, Any]) -> Any:
    """Nested arguments with other tensors in place of some."""
    if id(value) in others:
        return others[id(value)]
    if type(value) in (list, tuple):
        return type(value)(replaced(item, others) for item in value)
    if isinstance(value, dict):
        return {key: replaced(item, others) for key, item in value.items()}
    return value


class Results:
    """Values, gradients and second gradients of one engine, as arrays.

    flags: which gradients require grad when they were recorded for a linear loss.
    """

    def __init__(self, side: Side, seconds: bool) -> None:
        leaves, grad = side.leaves, side.engine.autograd.grad
        outs = side.outputs(*leaves)
        self.values = [array_of(out) for out in outs]
        self.grads: list[Any] = [None] * len(leaves)
        self.seconds = self.grads
        self.flags = [False] * len(leaves)
        carrying = [out for out in outs if out.requires_grad]
        if not carrying or not leaves:
            return
        gs = [side.wrap(g) for g in random_like([array_of(out) for out in carrying], 1)]
        grads = grad(carrying, leaves, gs, create_graph=seconds, allow_unused=True)
        self.grads = [None if g is None else array_of(g) for g in grads]
        self.flags = [g is not None and g.requires_grad for g in grads]
        further = [g for g in grads if g is not None and g.requires_grad]
        if not seconds or not further:
            return
        weights = [side.wrap(w) for w in random_like([array_of(g) for g in further], 2)]
        found = grad(further, leaves, weights, allow_unused=True)
        self.seconds = [None if g is None else array_of(g) for g in found]


def difference(mine: list[Any], theirs: list[Any]) -> str:
    """The first difference of two lists of arrays, '' if there is none."""
    if len(mine) != len(theirs):
        return f"{len(mine)} tensors, torch has {len(theirs)}"
    for a, b in zip(mine, theirs, strict=True):
        # None and zeros say the same: nothing flows.
        a = numpy.zeros_like(b) if a is None and b is not None else a
        b = numpy.zeros_like(a) if b is None and a is not None else b
        if a is None:
            continue
        if a.shape != b.shape:
            return f"shape {a.shape}, torch has {b.shape}"
        if a.dtype != b.dtype:
            return f"dtype {a.dtype}, torch has {b.dtype}"
        if a.dtype.kind == "V":
            a, b = a.astype(numpy.float32), b.astype(numpy.float32)
        # Some of torch's samples mix in float32 weights.
        rough = 1.0 if a.dtype.itemsize > 4 * (1 + (a.dtype.kind == "c")) else 1000.0
        largest = numpy.max(abs(numpy.where(numpy.isfinite(b), b, 0)), initial=0)
        scale = rough * max(1.0, float(largest))
        if not numpy.allclose(a, b, rtol=RTOL * rough, atol=ATOL * scale, equal_nan=True):
            return "values"
    return ""


def compare(info: Any, sample: Any, function: Callable[..., Any], seconds: bool) -> str:
    """What differs between the engines on one sample, '' if nothing does."""
    mine, theirs = sides(info, sample, function)
    try:
        expected = Results(theirs, seconds)
    except Exception as error:
        if not seconds or ("not implemented" not in str(error) and "does not" not in str(error)):
            raise SampleRefused(f"{type(error).__name__}: {error}") from None
        seconds = False
        expected = Results(theirs, False)
    found = Results(mine, seconds)
    if randomly(info, theirs):
        return difference(shapes(found.values), shapes(expected.values))
    for what in ("values", "grads", "seconds"):
        differs = difference(getattr(found, what), getattr(expected, what))
        if differs:
            return f"{what}: {differs}"
    if seconds and found.flags != expected.flags:
        return f"flags: {found.flags}, torch has {expected.flags}"
    return ""


class SampleRefused(Exception):
    """torch itself does not do this sample."""


def shapes(arrays: list[Any]) -> list[Any]:
    """Arrays of ones, so that None still differs from them."""
    return [None if array is None else numpy.ones_like(array) for array in arrays]


def randomly(info: Any, theirs: Side) -> bool:
    """Whether torch draws random numbers for this sample."""
    names = getattr(getattr(info.op, "__code__", None), "co_names", ())
    if "wrapper_set_seed" in names:
        return True
    before = torch.random.get_rng_state()
    with torch.no_grad():
        theirs.outputs(*theirs.leaves)
        drawn = torch.random.get_rng_state()
        torch.manual_seed(5)
        fresh = torch.random.get_rng_state()
    torch.random.set_rng_state(before)
    return not torch.equal(drawn, fresh)


# One name -----------------------------------------------------------------------------------------


def cases(name: str, takes_complex: bool) -> Iterator[tuple[Any, Any, bool]]:
    """(OpInfo, dtype, whether torch has second gradients) of a name."""
    for info in infos(name):
        for dtype in (torch.float64, torch.complex128):
            if dtype.is_complex and not takes_complex:
                continue
            if info.supports_autograd and dtype in info.supported_backward_dtypes("cpu"):
                yield info, dtype, bool(info.supports_gradgrad)


def values_only(name: str) -> Iterator[tuple[Any, Any, bool]]:
    """(OpInfo, dtype, None) of a name whose samples nobody differentiates in 64 bits."""
    for info in infos(name):
        for dtype in (torch.float64, torch.float32, torch.int64):
            if dtype in info.supported_dtypes("cpu"):
                yield info, dtype, False
                break


def compared(name: str, takes_complex: bool, most: int | None = None) -> Agreement:
    """A name's samples on both engines; at most `most` of each variant and dtype."""
    result = Agreement(name)
    for info, dtype, seconds in [*cases(name, takes_complex)] or values_only(name):
        function = ours_of(info)
        if function is None:
            result.samples += 1
            result.differs("missing")
            continue

        def one(sample: Any, number: int, info=info, function=function, seconds=seconds) -> str:
            return compare(info, sample, function, seconds)

        over_samples(result, info, dtype, most, one)
    return result


def over_samples(
    result: Agreement, info: Any, dtype: Any, most: int | None, one: Callable[[Any, int], str]
) -> None:
    """What `one` says of each sample, or raises, into the result."""
    torch.manual_seed(0)
    grad = dtype.is_floating_point or dtype.is_complex
    samples = islice(info.sample_inputs("cpu", dtype, requires_grad=grad), most)
    for number, sample in enumerate(samples):
        try:
            with warnings.catch_warnings(), numpy.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                differs = one(sample, number)
        except SampleRefused as refused:
            result.refused[f"{refused}".splitlines()[0][:100]] += 1
            continue
        except Exception as error:
            text = f"{error}".splitlines()[0] if f"{error}" else ""
            differs = f"{type(error).__name__}: {text}"[:160]
        result.samples += 1
        if differs:
            variant = f" {info.variant_test_name}" if info.variant_test_name else ""
            result.differs(f"{dtype}{variant}: {differs}".removeprefix("torch."))


def page(found: list[Agreement]) -> str:
    """The documentation's page about names that differ, from results and reasons."""
    differing = [result for result in found if not result.agrees]
    told, total = reasons("agreement"), len(found)
    lines = [
        "# Agreement with torch",
        "",
        "torch brings samples for the tests of its own ops. This page was written by",
        "`python -m tests.properties.opinfo --page`, which runs those of every differentiable",
        "name on torch and on this package, in float64 and, where torch takes it, complex128, and",
        "compares values, gradients and second gradients.",
        "",
        f"Against torch {torch.__version__.partition('+')[0]}, {total - len(differing)} of {total}"
        " names agree on all samples:",
        f"{math.floor(1000 * (total - len(differing)) / total) / 10} %. These do not:",
        "",
        "| name | samples | what differs | why |",
        "|---|---|---|---|",
    ]
    for result in differing:
        parts = sorted({difference.split(": ")[1] for difference in result.differences})
        what = ", ".join(WHAT.get(part, "errors") for part in parts) or "no samples"
        lines.append(f"| `{result.name}` | {result.samples} | {what} | {told[result.name]} |")
    lines += [
        "",
        "Of the 585 names of the list, these are not what their row says:",
        "",
        "| name | what is missing | why |",
        "|---|---|---|",
    ]
    for what, label in MISSING.items():
        for name, reason in reasons(what).items():
            lines.append(f"| `{name}` | {label} | {reason} |")
    return "\n".join(lines) + "\n"


WHAT = {
    "values": "values",
    "grads": "gradients",
    "seconds": "second gradients",
    "flags": "`requires_grad` of gradients",
}
MISSING = {
    "name": "the function",
    "method": "the method",
    "variant": "the in-place variant",
    "out": "`out=`",
}


HEADING = "## Under transforms\n"
"""Of the page's section that `python -m tests.properties.transforms --page` writes."""


def kept_section() -> str:
    """That section as the page has it."""
    _, heading, rest = PAGE.read_text(encoding="utf-8").partition(HEADING)
    return "\n" + heading + rest if heading else ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help="ops to compare (default: all)")
    parser.add_argument("--most", type=int, default=None, help="samples of each variant and dtype")
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args(arguments)
    listed = names()
    chosen = options.names or list(listed)
    found = []
    for name in chosen:
        result = compared(name, listed.get(name, True), options.most)
        found.append(result)
        if not result.agrees:
            print(f"{name} ({result.samples} samples)", flush=True)
            for what, count in result.differences.items():
                print(f"    {count} x {what}", flush=True)
    agreeing = sum(result.agrees for result in found)
    share = math.floor(1000 * agreeing / max(len(found), 1)) / 10
    print(f"{agreeing} of {len(found)} names agree on all samples: {share} %")
    if options.page:
        PAGE.write_text(page(found) + kept_section(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
