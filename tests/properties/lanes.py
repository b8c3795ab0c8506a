"""Every op under the public `vmap`: a mapped call is the stack of the calls on the slices.

`python -m tests.properties.lanes [name ...]` runs every sample of the ops in every form, with the
batch in front and behind, and with every input alone and `--draws` random choices of inputs that
have it. `checked` serves the test, which draws one case of each form.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy

import ag_visual as ag
from ag_visual.core.tensor import from_array
from ag_visual.dispatch.record import Op
from ag_visual.dispatch.table import ops
from ag_visual.func.reverse import grad

from .cases import differentiable, host, settled
from .checks import close
from .test_batching import SIZE, call, has_rule, is_array, names_of, stacks, tensors

Where = dict[str, Any]
"""The dimension of the batch in each input that has one; of a list, one entry for each tensor."""

OUTER = 2


# What is mapped over ------------------------------------------------------------------------------


def _slot(value: Any, dim: int, keep: Callable[[], bool]) -> Any:
    """A dimension for an input; for a list one for each tensor that `keep` chooses."""
    if isinstance(value, (tuple, list)):
        found = tuple(dim if is_array(x) and keep() else None for x in value)
        return found if any(d is not None for d in found) else None
    return dim if keep() else None


def choices(op: Op, values: dict[str, Any], draws: int) -> Iterator[Where]:
    """All inputs in front, all behind, each alone, and random choices of inputs."""
    names = names_of(op, values)

    def those(chosen: list[str], dim: int) -> Where:
        found = {n: _slot(values[n], dim, lambda: True) for n in chosen}
        return {n: d for n, d in found.items() if d is not None}

    yield those(names, 0)
    yield those(names, -1)
    if len(names) > 1:
        for name in names:
            yield those([name], 0)
    for number in range(draws):
        yield drawn(op, values, number)


def drawn(op: Op, values: dict[str, Any], number: int) -> Where:
    """A random choice of inputs and dimensions."""
    random = numpy.random.default_rng(zlib.crc32(f"{op.name} {number}".encode()))
    names = names_of(op, values)
    for _ in range(20):
        found = {}
        for name in names:
            dim = 0 if random.random() < 0.5 else -1
            slot = _slot(values[name], dim, lambda: bool(random.random() < 0.6))
            if slot is not None:
                found[name] = slot
        if found:
            return found
    return {}


def _stack(parts: list[Any], slot: Any) -> Any:
    """The tensors of all slices as one."""
    if isinstance(slot, tuple):
        return tuple(_stack([p[i] for p in parts], d) for i, d in enumerate(slot))
    if slot is None:
        return given(parts[0])
    return from_array(numpy.stack(parts, slot))


def given(value: Any) -> Any:
    """The arrays of an argument as tensors."""
    if isinstance(value, tuple):
        return tuple(given(item) for item in value)
    return from_array(value.copy()) if is_array(value) else value


def _per_slice(slices: list[dict[str, Any]], where: Where) -> list[dict[str, Any]]:
    """What a loop calls: of inputs without a batch, those of the first slice."""
    found = []
    for each in slices:
        values = dict(slices[0])
        for name, slot in where.items():
            if isinstance(slot, tuple):
                pairs = zip(slot, each[name], slices[0][name], strict=True)
                values[name] = tuple(a if d is not None else b for d, a, b in pairs)
            else:
                values[name] = each[name]
        found.append(values)
    return found


def fixed(op: Op, values: dict[str, Any]) -> dict[str, Any]:
    """The arguments that no vmap maps over, as tensors."""
    return {n: given(v) if n in (*op.inputs, *op.lists) else v for n, v in values.items()}


def _masked(op: Op, slices: list[dict[str, Any]], where: Where) -> bool:
    """Whether a mask that chooses elements has a batch: results differ in shape."""
    if op.name == "masked_select" and "mask" in where:
        return True
    for name, slot in where.items():
        if isinstance(slot, tuple):
            pairs = zip(slot, slices[0][name], strict=True)
            if any(d is not None and x.dtype.kind == "b" for d, x in pairs):
                return True
    return False


# Forms --------------------------------------------------------------------------------------------


def _same(op: Op, found: Any, expected: list[list[Any]], where: Where) -> None:
    assert len(found) == len(expected[0])
    for i, out in enumerate(found):
        want = numpy.stack([host(outs[i]) for outs in expected])
        assert tuple(out.shape) == want.shape, f"{out.shape} is not {want.shape}: {where}"
        assert out.dtype is expected[0][i].dtype, f"{out.dtype}: {where}"
        close(host(out), want, f"{op.name} {where}", 1e-9, 1e-11)


def plain(op: Op, slices: list[dict[str, Any]], where: Where) -> None:
    loop = _per_slice(slices, where)
    expected = [call(op, tensors(op, each, False)[0]) for each in loop]
    rest = fixed(op, slices[0])
    mapped = ag.vmap(lambda named: tuple(call(op, {**rest, **named})), in_dims=(where,))
    stack = {n: _stack([each[n] for each in loop], d) for n, d in where.items()}
    _same(op, mapped(stack), expected, where)


def empty(op: Op, slices: list[dict[str, Any]], where: Where) -> None:
    """No slices at all: results as of a slice of zeros (if that is taken), without elements."""
    loop = _per_slice(slices, where)
    try:
        expected = call(op, {**fixed(op, slices[0]), **{n: _zeros(loop[0][n]) for n in where}})
    except Exception:
        expected = call(op, tensors(op, loop[0], False)[0])
    rest = fixed(op, slices[0])
    mapped = ag.vmap(lambda named: tuple(call(op, {**rest, **named})), in_dims=(where,))
    none = {n: _none(_stack([each[n] for each in loop], d), d) for n, d in where.items()}
    found = mapped(none)
    assert len(found) == len(expected)
    for out, one in zip(found, expected, strict=True):
        assert tuple(out.shape) == (0, *one.shape), f"{out.shape}: {where}"
        assert out.dtype is one.dtype, f"{out.dtype}: {where}"


def _zeros(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_zeros, value))
    return from_array(numpy.zeros_like(value)) if is_array(value) else value


def _none(stack: Any, slot: Any) -> Any:
    if isinstance(slot, tuple):
        return tuple(
            x if d is None else x.narrow(d, 0, 0) for x, d in zip(stack, slot, strict=True)
        )
    return stack.narrow(slot, 0, 0)


def nested(op: Op, slices: list[dict[str, Any]], where: Where) -> None:
    """An outer vmap over some of the inputs, an inner one over others (or the same)."""
    names = list(where)
    outer = {n: where[n] for n in names[::2]}
    inner = {n: where[n] for n in (names[1::2] or names)}
    both = {n: where[n] for n in names if n in outer and n in inner}
    grid = [[dict(slices[0]) for _ in range(SIZE)] for _ in range(OUTER)]
    for i, j in itertools.product(range(OUTER), range(SIZE)):
        source = {}
        for n, slot in where.items():
            at = (i + j) % SIZE if n in both else i if n in outer else j
            source[n] = _per_slice(slices, {n: slot})[at][n]
        grid[i][j].update(source)
    expected = [[call(op, tensors(op, each, False)[0]) for each in row] for row in grid]
    rest = fixed(op, slices[0])

    def row(over: dict[str, Any]) -> Any:
        once = {n: x for n, x in over.items() if n not in inner}
        again = {n: over.get(n, columns.get(n)) for n in inner}
        return ag.vmap(lambda each: tuple(call(op, {**rest, **once, **each})), in_dims=(inner,))(
            again
        )

    columns = {
        n: _stack([grid[0][j][n] for j in range(SIZE)], d)
        for n, d in inner.items()
        if n not in both
    }
    stack = {}
    for n, d in outer.items():
        if n in both:
            rows = [_stack([grid[i][j][n] for j in range(SIZE)], d) for i in range(OUTER)]
            stack[n] = _stacked_again(rows, d)
        else:
            stack[n] = _stack([grid[i][0][n] for i in range(OUTER)], d)
    dims = {n: _front(d) if n in both else d for n, d in outer.items()}
    found = ag.vmap(row, in_dims=(dims,))(stack)
    for i in range(OUTER):
        _same(op, [out[i] for out in found], expected[i], where)


def _front(slot: Any) -> Any:
    if isinstance(slot, tuple):
        return tuple(_front(d) for d in slot)
    return None if slot is None else 0


def _stacked_again(rows: list[Any], slot: Any) -> Any:
    if isinstance(slot, tuple):
        columns = zip(zip(*rows, strict=True), slot, strict=True)
        return tuple(_stacked_again(list(parts), d) for parts, d in columns)
    if slot is None:
        return rows[0]
    return from_array(numpy.stack([host(row) for row in rows]))


def gradients(op: Op, slices: list[dict[str, Any]], where: Where) -> None:
    """vmap of grad is grad of each slice."""
    loop = _per_slice(slices, where)
    wanted = [
        n for n in op.diff_inputs if is_array(slices[0][n]) and slices[0][n].dtype.kind in "fc"
    ]
    if not wanted:
        return
    weights, expected = [], []
    random = numpy.random.default_rng(4)
    for values in loop:
        made, _ = tensors(op, values, False)
        leaves = [made[n].requires_grad_() for n in wanted]
        outs = call(op, made)
        carrying = [i for i, out in enumerate(outs) if out.requires_grad]
        if not carrying:
            return
        gs = [random.uniform(-1, 1, outs[i].shape).astype(outs[i].dtype.np) for i in carrying]
        gs = [settled(op, i, outs[i], g) for i, g in zip(carrying, gs, strict=True)]
        weights.append([from_array(g) for g in gs])
        total = _weighted(outs, carrying, weights[-1])
        found = ag.autograd.grad(total, leaves, allow_unused=True)
        expected.append(
            [ag.zeros_like(leaf) if g is None else g for g, leaf in zip(found, leaves, strict=True)]
        )
    rest = fixed(op, slices[0])

    def slope(named: dict[str, Any], gs: list[Any]) -> Any:
        values = {**rest, **named}

        def total(leaves: dict[str, Any]) -> Any:
            return _weighted(call(op, {**values, **leaves}), carrying, gs)

        found = grad(total)({n: values[n] for n in wanted})
        return tuple(found[n] for n in wanted)

    stack = {n: _stack([each[n] for each in loop], d) for n, d in where.items()}
    columns = [ag.stack(list(each)) for each in zip(*weights, strict=True)]
    found = ag.vmap(slope, in_dims=(where, 0))(stack, columns)
    for i, out in enumerate(found):
        want = numpy.stack([host(each[i]) for each in expected])
        label = f"{op.name} {where}: gradient of {wanted[i]}"
        assert tuple(out.shape) == want.shape, label
        close(host(out), want, label, 1e-7, 1e-9)


def _weighted(outs: list[Any], carrying: list[int], gs: list[Any]) -> Any:
    parts = [(outs[i] * g.conj()) for i, g in zip(carrying, gs, strict=True)]
    return sum((part.real if part.is_complex() else part).sum() for part in parts)


def in_place(op: Op, slices: list[dict[str, Any]], where: Where) -> None:
    """The twin writes into the tensor that is mapped over, or is refused as for one slice."""
    first = op.params[0]
    if not is_array(slices[0][first]):
        return
    where = {**where, first: where.get(first, 0)}
    loop = _per_slice(slices, where)

    def write(values: dict[str, Any]) -> Any:
        positional = [values[p] for p in op.params if p not in op.keyword]
        return op.write(*positional, **{p: values[p] for p in op.keyword})

    stack = {n: _stack([each[n] for each in loop], d) for n, d in where.items()}
    rest = fixed(op, slices[0])
    mapped = ag.vmap(lambda named: write({**rest, **named}), in_dims=(where,))
    try:
        expected = [write(tensors(op, each, False)[0]) for each in loop]
    except Exception as error:
        try:
            mapped(stack)
        except type(error):
            return
        raise AssertionError(f"{op.name}_: a slice raises {error!r}, vmap does not") from None
    found = mapped(stack)
    _same(op, [found], [[each] for each in expected], where)
    _same(op, [stack[first].movedim(where[first], 0)], [[each] for each in expected], where)


def _refused(op: Op, slices: list[dict[str, Any]], where: Where) -> bool:
    """Whether the op takes no slice of the stacked inputs: for instance because of its strides."""
    values = fixed(op, slices[0])
    for name, slot in where.items():
        stack = _stack([each[name] for each in slices], slot)
        if isinstance(slot, tuple):
            pairs = zip(stack, slot, strict=True)
            values[name] = tuple(x if d is None else x.select(d, 0) for x, d in pairs)
        else:
            values[name] = stack.select(slot, 0)
    try:
        call(op, values)
    except Exception:
        return True
    return False


def run(form: str, op: Op, slices: list[dict[str, Any]], where: Where) -> None:
    """One form on one choice of inputs, unless that is refused without a vmap, too."""
    if not where or _masked(op, slices, where):
        return
    try:
        FORMS[form](op, slices, where)
    except Exception:
        if not _refused(op, slices, where):
            raise


FORMS: dict[str, Callable[[Op, list[dict[str, Any]], Where], None]] = {
    "plain": plain,
    "empty": empty,
    "nested": nested,
    "gradients": gradients,
    "in place": in_place,
}


def forms_of(op: Op) -> list[str]:
    """The forms that an op's record says it has."""
    found = ["plain", "empty", "nested"] if has_rule(op) else []
    if has_rule(op) and differentiable(op):
        found.append("gradients")
    if has_rule(op) and op.inplace:
        found.append("in place")
    return found


def checked(op: Op, form: str, number: int) -> None:
    """One case of a form: the sample and the inputs with a batch are drawn by `number`."""
    samples = list(stacks(op))
    slices = samples[number % len(samples)]
    run(form, op, slices, drawn(op, slices[0], number))


def failures(op: Op, draws: int) -> Iterator[str]:
    """What does not hold, of every sample, form and choice."""
    for number, slices in enumerate(stacks(op)):
        for form in forms_of(op):
            for where in choices(op, slices[0], draws):
                try:
                    run(form, op, slices, where)
                except Exception as error:
                    told = str(error).strip().splitlines() or [""]
                    what = f"{type(error).__name__}: {told[0]} ({place_of(error)})"
                    yield f"{op.name} {form} #{number} {where}: {what}"


def place_of(error: Exception) -> str:
    """The last lines of the package before an error."""
    frames = traceback.extract_tb(error.__traceback__)
    skip = ("arrays/backend.py", "core/level.py")
    last = [f for f in frames if "ag_visual/" in f.filename and not f.filename.endswith(skip)][-2:]
    return " < ".join(f"{f.filename.rpartition('ag_visual/')[2]}:{f.lineno}" for f in last)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help="ops of the table (default: all)")
    parser.add_argument("--draws", type=int, default=2, help="random choices of inputs per sample")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    count = 0
    for name in options.names or ops:
        for line in failures(ops[name], options.draws):
            count += 1
            print(line, flush=True)
    print(f"{count} do not hold")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
