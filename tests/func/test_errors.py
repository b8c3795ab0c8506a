"""What the functions of torch.func, and batched gradients, refuse: in torch's words.

tests/golden/func_errors.tsv has a program for each text. `here` is what this package says where it
says something else.
"""

from __future__ import annotations

import copy
import csv
import importlib
import pickle
from pathlib import Path
from typing import Any

import pytest

import ag_visual
from tests.oracle import torch
from tests.programs import old_names, raised

GOLDEN = Path(__file__).parents[1] / "golden" / "func_errors.tsv"
ROWS = {
    row["id"]: row
    for row in csv.DictReader(
        GOLDEN.read_text().splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE
    )
}
FUNCTIONS = (
    *("grad", "grad_and_value", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "linearize", "vmap"),
    *("functional_call", "stack_module_state"),
)


def scope(t: Any) -> dict[str, Any]:
    """What the programs name."""

    def custom(**methods: Any) -> Any:
        body = {name: staticmethod(each) for name, each in methods.items()}
        return type("Fn", (t.autograd.Function,), body)

    return {
        **{name: getattr(t.func, name) for name in FUNCTIONS},
        "torch": t,
        "T": t.tensor,
        "D": t.float64,
        "nn": t.nn,
        "ones": t.ones,
        "zeros": t.zeros,
        "Fn": custom,
        "fw": t.autograd.forward_ad,
        "AF": t.autograd.functional,
        "c": importlib.import_module(f"{t.__name__}.utils.checkpoint"),
        "copy": copy,
        "pickle": pickle,
        "d": lambda *shape: t.rand(*shape, dtype=t.float64).requires_grad_(),
    }


def said(t: Any, program: str) -> tuple[str, str]:
    kind, text = raised(lambda: exec(program, scope(t)))
    return kind, " ".join(text.replace(f"{t.__name__}.", "torch.").split())


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.filterwarnings("ignore")
def test_it_is_refused(name: str) -> None:
    row = ROWS[name]
    kind, text = said(ag_visual, row["program"])
    assert (kind, text[: len(row["here"] or row["torch"])]) == (
        row["exception"],
        row["here"] or row["torch"],
    ), text


@pytest.mark.oracle
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.filterwarnings("ignore")
def test_torch_says_so(name: str) -> None:
    if torch.__version__:
        row = ROWS[name]
        kind, text = said(torch, row["program"])
        assert kind == row["exception"]
        assert old_names(text).startswith(old_names(row["torch"])), text


def test_what_is_absent_says_why() -> None:
    with pytest.raises(AttributeError, match=r"functionalize.*a function runs as it is"):
        _ = ag_visual.func.functionalize
