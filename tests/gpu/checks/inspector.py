"""The Inspector on device arrays: summaries, a recorded step, and the tour from top to bottom."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy

import ag_visual as ag
from ag_visual.core.tensor import from_array
from ag_visual.observe.formulas.card_numbers import NoNumbersError, numbers
from ag_visual.observe.formulas.local import NUMBERS, reason_against, size_of, slopes
from ag_visual.observe.record.summaries import summarize
from ag_visual.session.node_check import check_node

from ...properties.cases import Call, carrying, differentiable, run
from ..page import Machine, check, for_each
from .table import over

ROOT = Path(__file__).parents[3]


@check("inspector")
def summaries_are_those_of_the_host(machine: Machine) -> str:
    """Range, counts, histogram and picture of arrays of every kind."""
    random = numpy.random.default_rng(0)
    odd = random.standard_normal((40, 30))
    odd[3, 4], odd[5, 6], odd[7, 8] = numpy.nan, numpy.inf, -numpy.inf
    given: dict[str, Any] = {
        "odd values": odd,
        "large": random.standard_normal((1500, 1500)),
        "turned": random.standard_normal((5, 6, 7)).T,
        "complex": random.standard_normal(9) + 1j,
        "no element": numpy.zeros((0, 3)),
        "one number": numpy.asarray(2.5),
        "bool": random.random(20) < 0.5,
        "int64": random.integers(-5, 5, (3, 4)),
        "float16": random.standard_normal(50).astype("float16"),
    }

    def case(array: Any) -> None:
        there = ag.tensor(array).to(machine.device)
        assert summarize(there._array) == summarize(ag.tensor(array)._array)

    return for_each((name, lambda a=array: case(a)) for name, array in given.items())


@check("inspector")
def every_op_is_explained_as_on_the_host(machine: Machine) -> str:
    """Its node's formula with numbers, its local slopes, and the check of the node."""

    def looked_at(call: Call, wrap: Any) -> list[Any]:
        values, leaves = call.tensors(wrap)
        outputs = [o for o in carrying(call.op, run(call.op, values)) if o.requires_grad]
        if not outputs or not leaves:
            return []
        node = outputs[0].grad_fn
        found: list[Any] = []
        try:
            told = numbers(node, None)
            found += [told["inputs"], told["shape"], bool(told["used"])]
        except NoNumbersError as refused:
            found.append(str(refused))
        against = reason_against(node)
        found.append(against)
        if not against and size_of(node) <= NUMBERS:
            slopes(node)
        found.append(check_node(node, elements=2).verdict)
        return found

    def property(call: Call, backend: Any) -> None:
        if not call.smooth:
            return
        here = looked_at(call, from_array)
        there = looked_at(call, lambda array: from_array(backend.from_numpy(array)))
        assert here == there, f"{there} instead of {here}"

    return over(machine, differentiable, property, most=2)


@check("inspector")
def a_recorded_step(machine: Machine) -> str:
    """Nodes, runs with values, and the file of a training step of a small net."""
    net = ag.nn.Sequential(
        ag.nn.Conv2d(1, 4, 3), ag.nn.ReLU(), ag.nn.Flatten(), ag.nn.Linear(144, 10)
    ).to(machine.device)
    optimizer = ag.optim.Adam(net.parameters())
    x = ag.rand(5, 1, 8, 8, device=machine.device)
    y = ag.tensor([0, 1, 2, 3, 4], device=machine.device)
    with ag.record() as recorded:
        for _ in range(3):
            optimizer.zero_grad()
            ag.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
    rows = recorded.recording.rows("nodes")
    assert rows >= 15, rows
    assert recorded.recording.rows("runs") >= 15
    with tempfile.TemporaryDirectory() as folder:
        saved = recorded.save(str(Path(folder) / "step.html"))
        assert Path(saved).stat().st_size > 10_000
    return f"{rows} nodes"


def _on_the_device(machine: Machine) -> list[str]:
    """The cells of the tour: its data and parameters are made on the device."""
    book = json.loads((ROOT / "notebooks" / "tour.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(c["source"]) for c in book["cells"] if c["cell_type"] == "code"]
    first = f"import ag_visual\nag_visual.set_default_device({machine.device!r})"
    moved = [
        ("torch.from_numpy(", f"torch.asarray(device={machine.device!r}, obj="),
        (".flip(0).numpy()", ".flip(0).cpu().numpy()"),
    ]
    for old, new in moved:
        assert any(old in cell for cell in cells), f"the tour has no {old!r} any more"
        cells = [cell.replace(old, new) for cell in cells]
    return [first, *cells]


@check("inspector")
def the_tour(machine: Machine) -> str:
    """Its cells in a kernel's shell: it trains, shows, stops at a breakpoint and saves a file."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell.instance()
    cells = _on_the_device(machine)
    if not machine.real:
        cells = [cell.replace("range(800)", "range(20)") for cell in cells]
    here, before = Path.cwd(), ag.get_default_device()
    headless = os.environ.setdefault("AG_VISUAL_HEADLESS", "1")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            with capture_output():
                for number, cell in enumerate(cells):
                    result = shell.run_cell(cell)
                    if result.error_before_exec or result.error_in_exec:
                        raise AssertionError(
                            f"cell {number} raises "
                            f"{result.error_before_exec or result.error_in_exec!r}"
                        )
            size = Path("tour_recording.html").stat().st_size
        finally:
            os.chdir(here)
            ag.set_default_device(before)
            if headless == "1":
                del os.environ["AG_VISUAL_HEADLESS"]
    assert shell.user_ns["W1"].is_cuda
    found = shell.user_ns["result"]["accuracy"]
    assert found > (0.9 if machine.real else 0.1), f"accuracy {found:.1%}"
    return f"accuracy {found:.1%}, a file of {size >> 10} KiB"
