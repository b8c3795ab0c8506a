"""Random programs with fixed seeds do on torch what they do here; every kind of fault is seen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.arrays import fast
from ag_visual.arrays.kernels import attention, lines as by_lines, recurrent
from ag_visual.core import view
from ag_visual.core.storage import Storage
from ag_visual.dispatch import validate_grad
from ag_visual.dispatch.codegen import forward
from ag_visual.engine import hook_calls
from ag_visual.optim import together

from ..oracle import torch
from .differential.compare import align, same
from .differential.grammar import EAGER, LEAVES, PLAIN, Family
from .differential.kinds import KINDS, LINES as OF_LINES
from .differential.known import DIGITS, KNOWN, REFUSED, SIGNED, Known
from .differential.minimise import minimised
from .differential.program import Line, script
from .differential.report import Report, search, told
from .differential.run import Finding, quiet, random_program, replay

pytestmark = pytest.mark.oracle
PROGRAMS = 2000


@pytest.fixture(autouse=True)
def oracle() -> str:
    return torch.__version__  # without torch: not run


@pytest.fixture(scope="module")
def report() -> Report:
    # Transforms are the random nests' of tests/func here: torch can crash where they write.
    return search(seed=1, programs=PROGRAMS, jobs=2, plant=_by_numpy, transforms=False)


def _by_numpy() -> None:
    """Numba takes longer to compile than the programs take; tests/arrays compares its kernels."""
    fast.enabled = False


def test_random_programs_agree_with_torch(report: Report) -> None:
    assert not report.faults, report.text()


def test_every_form_succeeds_in_some_program(report: Report) -> None:
    """One that always raises would test its error alone."""
    pairs = [(form, family) for family in EAGER for form in family.forms]
    missing = [pair for pair in pairs if pair[0] not in report.done]
    assert len(missing) < 20
    assert [form for form, family in missing if not _succeeds(form, family)] == []


def _succeeds(form: str, family: Family) -> bool:
    """In a program of little else."""
    families = [Family(3, LEAVES), Family(3, PLAIN), Family(6, [form], family.binds)]
    with quiet():
        for number in range(400):
            run = random_program(f"{form}/{number}", kinds=(OF_LINES,), families=families)
            done = [line for at, line in enumerate(run.program) if at not in run.raising]
            if not run.found and form in {line.form for line in done}:
                return True
    return False


def lines(text: str) -> tuple[Line, ...]:
    """Lines of Python as a program."""
    program = []
    for line in text.strip().splitlines():
        mode, statement = "", line
        if line.startswith("with "):
            mode, _, statement = line.removeprefix("with ").partition(": ")
        target, _, form = statement.rpartition(" = ")
        program.append(Line(form, targets=tuple(target.split(", ")) if target else (), mode=mode))
    return tuple(program)


@pytest.mark.parametrize("entry", [*KNOWN, REFUSED, DIGITS, SIGNED], ids=lambda entry: entry.name)
def test_known_differences_still_occur(entry: Known) -> None:
    with quiet():
        run = replay(lines(entry.program), entry.often)
    met = run.met if run.found is None else {run.found.entry and run.found.entry.name}
    assert (entry.name in met) == (torch.backends.cpu.get_cpu_capability() not in entry.not_with)


# Injected faults -------------------------------------------------------------------------------


def method(name: str, change: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """A fault in one method of Tensor: `change` gets the right method, then its arguments."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(ag.Tensor, name)
        patch.setattr(ag.Tensor, name, lambda *given, **options: change(right, *given, **options))

    return plant


def _refuse(right: Any, self: Any, *arguments: Any) -> Any:
    raise RuntimeError("injected")


def _other_class(right: Any, self: Any, *arguments: Any) -> Any:
    try:
        return right(self, *arguments)
    except IndexError as error:
        raise LookupError("injected") from error


def _without_history(right: Any, self: Any) -> Any:
    with ag.no_grad():
        return right(self)


def _transposed(right: Any, self: Any) -> Any:
    return right(self.t().contiguous().t() if self.dim() == 2 else self)


def _no_inference(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ag, "inference_mode", ag.no_grad)


def _no_version(patch: pytest.MonkeyPatch) -> None:
    right = Storage.wrote

    def wrote(self: Any, op: str, *rest: Any) -> None:
        if op not in ("mul_", "add_"):
            right(self, op, *rest)

    patch.setattr(Storage, "wrote", wrote)


def _forget_the_hook(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(hook_calls, "tensor_hooks", lambda hooks, g, *about: g)


def _forget_the_slice(patch: pytest.MonkeyPatch) -> None:
    right = view.CopySlices.raw

    def raw(self: Any, F: Any, g: Any) -> Any:
        return [g, *right(self, F, g)[1:]]

    patch.setattr(view.CopySlices, "raw", raw)


def _zeros_for_none(patch: pytest.MonkeyPatch) -> None:
    right = ag.autograd.grad

    def grad(outputs: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
        found = right(outputs, inputs, *arguments, **options)
        pairs = zip(found, inputs, strict=True)
        return tuple(ag.zeros_like(x) if g is None else g for g, x in pairs)

    patch.setattr(ag.autograd, "grad", grad)


def _another_base(patch: pytest.MonkeyPatch) -> None:
    right = ag.Tensor._base.fget

    def base(self: Any) -> Any:
        found = right(self)
        return found if found is None else found.detach()

    patch.setattr(ag.Tensor, "_base", property(base))


PLANTS = {
    "values": method("sin", lambda right, self: right(self) * 1.01),
    "shape": method("t", lambda right, self: right(self)[None]),
    "dtype": method("floor", lambda right, self: right(self).to(ag.float16)),
    "stride": method("clone", _transposed),
    "offset": method("storage_offset", lambda right, self: 0),
    "requires_grad": method("tanh", _without_history),
    "is_leaf": method("detach", lambda right, self: self),
    "retains_grad": method("retain_grad", lambda right, self: None),
    "is_view": method("view_as", lambda right, self, other: self.clone()),
    "node": method("neg", lambda right, self: self.mul(-1)),
    "edges": method("exp", lambda right, self: right(self.clone())),
    "base": _another_base,
    "inference": _no_inference,
    "version": _no_version,
    "grad": _forget_the_hook,
    "none": _zeros_for_none,
    "raises": method("square", _refuse),
    "accepts": method("t_", lambda right, self: self),
    "class": method("select", _other_class),
}


def first(
    kind: str,
    plant: Callable[[pytest.MonkeyPatch], None],
    form: str = "",
    kinds: tuple[str, ...] = (OF_LINES,),
) -> Finding:
    """The first finding of a kind that an injected fault leads to, minimised."""
    with pytest.MonkeyPatch.context() as patch, quiet():
        plant(patch)
        for number in range(PROGRAMS):
            found = random_program(f"a/{number}", transforms=False, kinds=kinds).found
            if found and found.difference.kind == kind and form in found.program[-1].form:
                return minimised(found)
    raise AssertionError(f"no difference of {kind} was found")


@pytest.mark.parametrize("kind", PLANTS)
def test_a_fault_of_each_kind_is_found_and_minimised(kind: str) -> None:
    found = first(kind, PLANTS[kind])
    assert len(found.program) <= 3


def test_a_slice_that_is_forgotten_in_a_written_view_is_found() -> None:
    found = first("grad", _forget_the_slice)
    assert len(found.program) <= 5


def _scaled(owner: Any, name: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A fault in a function of arrays: what it returns first is a hundredth larger."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(owner, name)

        def wrong(*given: Any, **options: Any) -> Any:
            found = right(*given, **options)
            if isinstance(found, tuple):
                return (None if found[0] is None else found[0] * 1.01, *found[1:])
            return found * 1.01

        patch.setattr(owner, name, wrong)

    return plant


def _swapped_when_joined(patch: pytest.MonkeyPatch) -> None:
    right = together._Rule._joined
    patch.setattr(together._Rule, "_joined", lambda self, rows: right(self, rows[:1]))


def _compiled_to_nothing(patch: pytest.MonkeyPatch) -> None:
    """A compiled kernel, in place of any, that fills what it is given last with a half."""

    def kernel(name: str, *arrays: Any) -> Any:
        return (lambda *given: given[1].fill(0.5)) if name == "softmax" else None

    patch.setattr(fast, "kernel", kernel)


def _lost_in_sums(patch: pytest.MonkeyPatch) -> None:
    """Sums of more than a thousand gradients are half of what they are."""
    right = validate_grad.summed

    def wrong(xp: Any, array: Any, *how: Any) -> Any:
        return right(xp, array, *how) * (0.5 if array.size > 1000 else 1)

    patch.setattr(validate_grad, "summed", wrong)


OF_KINDS = {
    "optimizers": _swapped_when_joined,
    "recurrent": _scaled(recurrent, "forward"),
    "attention": _scaled(attention, "attention"),
    "convolutions": _scaled(by_lines, "for_weight"),
    "rows": _compiled_to_nothing,
    "many": _lost_in_sums,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_in_a_fast_path_is_found(kind: str) -> None:
    with fast.flags(enabled=kind == "rows"):  # whose fault compiles nothing
        found = first("values", OF_KINDS[kind], kinds=(kind,))
    assert len(found.program) <= 9


def test_a_part_of_several_that_may_be_written_is_found() -> None:
    """The fast path of views with several outputs takes one for a view of its own."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = view.child_meta
        patch.setattr(view, "child_meta", lambda parent, multi=False: right(parent))

    assert len(first("accepts", plant).program) <= 4


def _all_keep_their_dtype() -> None:
    forward._keeps_dtype = lambda op, kernel: kernel is not None


def test_a_dtype_that_is_not_asked_for_is_found() -> None:
    report = search(seed=5, programs=60, plant=_all_keep_their_dtype, transforms=False)
    assert report.faults


def test_a_finding_is_told_as_a_script_that_runs_on_both() -> None:
    found = first("values", PLANTS["values"], "sin()")
    assert ".sin()" in told(found)
    code = script(found.program, found.raising, found.difference.look)
    for engine in ("torch", "ag_visual"):
        run = subprocess.run([sys.executable, "-c", code, engine], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        assert "tensor" in run.stdout


def test_differences_are_grouped_by_cause() -> None:
    report = Report()
    with pytest.MonkeyPatch.context() as patch, quiet():
        PLANTS["values"](patch)
        for number in range(200):
            report.add(random_program(f"planted/{number}", kinds=(OF_LINES,)))
        text = report.text()
    count = sum(report.found.values())
    assert count > 1
    assert f"200 programs, {count} differences" in text


def _crash_in_sin() -> None:
    ag.Tensor.sin = lambda self: os.kill(os.getpid(), signal.SIGSEGV)


def test_a_crash_is_told_with_its_program_and_the_others_go_on() -> None:
    report = search(seed=5, programs=12, plant=_crash_in_sin, transforms=False)
    (crash,) = report.crashes
    assert report.programs == 12
    assert report.faults == 1
    assert crash.engine == "ag_visual"
    assert crash.program[-1].form == "{x}.sin()"
    assert f"crash of ag_visual by SIGSEGV, program {crash.seed}" in report.text()


@pytest.mark.parametrize(
    ("ours", "theirs", "dtype", "agree"),
    [
        ([1.0], [1.0 + 1e-9], "float64", True),
        ([1.0], [1.0 + 1e-5], "float64", False),
        ([1.0], [1.0 + 1e-5], "float32", True),
        ([float("nan")], [float("nan")], "float32", True),
        ([float("nan")], [1.0], "float32", False),
        ([float("inf")], [-float("inf")], "float64", False),
        ([1], [2], "int64", False),
        ([True], [False], "bool", False),
        ([1.0, 2.0], [1.0], "float32", False),
        ([1 + 1j], [1 + 1.1j], "complex128", False),
        ("raises TypeError", [1.0], "float32", False),
    ],
)
def test_values_are_compared_to_the_digits_of_their_dtype(
    ours: Any, theirs: Any, dtype: str, agree: bool
) -> None:
    assert same(ours, theirs, dtype) == agree


def test_last_digits_are_taken_over_where_tensors_agree() -> None:
    """Signs of zeros are no digits; what differs by more is left as it is."""
    values = [-0.0, 1 + 1e-9, 2.0, float("nan")]
    given = ag.tensor(values, dtype=ag.float64), ag.tensor([values, values], dtype=ag.complex128)
    other = [0.0, 1.0, 2.0, -float("nan")]
    for mine in given:
        shape = (len(values),) if mine.dim() == 1 else (2, len(values))
        align(mine, torch.tensor(other, dtype=getattr(torch, str(mine.dtype)[6:])).expand(shape))
        assert mine.flatten()[1].item() == 1
        assert mine.real.signbit().flatten()[0]
    far = ag.tensor([1.1, 3.0])
    align(far, torch.tensor([1.0, 3.0]))
    assert far[0] != 1


def test_the_guide_tells_every_known_difference() -> None:
    page = Path(__file__).parents[2] / "docs" / "guide" / "differences.md"
    told = " ".join(page.read_text().split())
    assert [
        entry.sentence for entry in (*KNOWN, DIGITS, SIGNED) if entry.sentence not in told
    ] == []
