"""Optimizers on sparse gradients: who steps on them, and who refuses; against torch."""

from __future__ import annotations

import copy
from typing import Any

import numpy
import pytest

import ag_visual as ag
from tests.arrays.strict import STRICT
from tests.programs import agree

# torch tells once that it does not look whether indices are in bounds.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks")

RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd, maximize": ("SGD", {"lr": 0.1, "maximize": True}),
    "momentum": ("SGD", {"lr": 0.1, "momentum": 0.9}),
    "dampening": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    "nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "adagrad": ("Adagrad", {"lr": 0.1}),
    "adagrad, decayed": ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.2}),
    "sparse adam": ("SparseAdam", {"lr": 0.1}),
    "sparse adam, own": ("SparseAdam", {"betas": (0.5, 0.9), "eps": 1e-3, "maximize": True}),
    "lbfgs": ("LBFGS", {"lr": 0.1}),
}
REFUSING = ["Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adadelta", "Rprop", "ASGD"]
REFUSING += ["Adafactor"]


def _loss(torch: Any, w: Any, at: Any) -> Any:
    rows = torch.nn.functional.embedding(torch.tensor(at), w, sparse=True)
    return ((rows - 1) ** 2).sum()


def _table(torch: Any, seed: int = 0) -> Any:
    values = numpy.random.default_rng(seed).normal(size=(6, 3))
    return torch.tensor(values, requires_grad=True)


@pytest.mark.parametrize(("name", "options"), RULES.values(), ids=RULES)
def test_steps_are_torchs(name: str, options: dict[str, Any]) -> None:
    def program(torch: Any) -> Any:
        draw = numpy.random.default_rng(3)
        w = _table(torch)
        optimizer = getattr(torch.optim, name)([w], **options)
        seen = []
        for _ in range(6):
            at = draw.integers(0, 6, size=draw.integers(1, 5))

            def closure(at: Any = at) -> Any:
                optimizer.zero_grad()
                loss = _loss(torch, w, at)
                loss.backward()
                return loss

            loss = optimizer.step(closure)
            seen.append((loss.item(), w.tolist()))
        state = optimizer.state[w]
        if name != "LBFGS":
            seen.append(sorted(state))
            seen += [v.to_dense() for k, v in sorted(state.items()) if hasattr(v, "shape")]
        return seen

    agree(program)


@pytest.mark.parametrize("name", REFUSING)
def test_others_refuse(name: str) -> None:
    def program(torch: Any) -> Any:
        w = _table(torch)
        _loss(torch, w, [1, 2]).backward()
        try:
            getattr(torch.optim, name)([w]).step()
        except RuntimeError as error:
            return str(error)
        return ""

    agree(program)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"weight_decay": 0.1}),
        ("SGD", {"fused": True}),
        ("Adagrad", {"weight_decay": 0.1}),
        ("Adagrad", {"fused": True}),
        ("SparseAdam", {"lr": 0}),
        ("SparseAdam", {"lr": -1.0}),
        ("SparseAdam", {"eps": 0}),
        ("SparseAdam", {"betas": (1, 0)}),
    ],
)
def test_options_that_are_refused(name: str, options: dict[str, Any]) -> None:
    def program(torch: Any) -> Any:
        w = _table(torch)
        _loss(torch, w, [1, 2]).backward()
        try:
            getattr(torch.optim, name)([w], **options).step()
        except (RuntimeError, ValueError) as error:
            return type(error).__name__, str(error).partition(": weight_decay")[0].rstrip(".")
        return ""

    agree(program)


def test_sparse_adam_wants_sparse_gradients_of_dense_parameters() -> None:
    def program(torch: Any) -> Any:
        seen = []
        w = _table(torch)
        (w**2).sum().backward()
        sparse = torch.sparse_coo_tensor([[0]], [1.0], (2,), requires_grad=True)
        complex_ = torch.ones(2, dtype=torch.complex64, requires_grad=True)
        for call in (
            lambda: torch.optim.SparseAdam([w]).step(),
            lambda: torch.optim.SparseAdam([w, sparse]),
            lambda: torch.optim.SparseAdam([{"params": [w]}, {"params": [complex_]}]),
        ):
            try:
                call()
            except (RuntimeError, ValueError) as error:
                seen.append(str(error))
        return seen, repr(torch.optim.SparseAdam([w]))

    agree(program)


def test_its_state_is_saved() -> None:
    def program(torch: Any) -> Any:
        w = _table(torch)
        optimizer = torch.optim.SparseAdam([w], lr=0.1)

        def step(optimizer: Any) -> None:
            optimizer.zero_grad()
            _loss(torch, w, [1, 2, 1]).backward()
            optimizer.step()

        step(optimizer)
        other = torch.optim.SparseAdam([w])
        other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        step(other)
        return int(other.state[w]["step"]), w

    agree(program)


def test_zero_grad_that_keeps_the_gradient() -> None:
    def program(torch: Any) -> Any:
        w = _table(torch)
        _loss(torch, w, [1, 2]).backward()
        torch.optim.SGD([w]).zero_grad(set_to_none=False)
        first = w.grad._nnz(), w.grad.to_dense()
        _loss(torch, w, [1, 2]).backward()
        return first, w.grad.to_dense()

    agree(program)


def test_training_with_both_kinds() -> None:
    """An embedding by SparseAdam and a layer by Adam, as programs do."""

    def program(torch: Any) -> Any:
        draw = numpy.random.default_rng(0)
        table = torch.nn.Embedding(8, 3, sparse=True, dtype=torch.float64)
        layer = torch.nn.Linear(3, 1, dtype=torch.float64)
        with torch.no_grad():
            for p in (*table.parameters(), *layer.parameters()):
                p.copy_(torch.tensor(draw.normal(size=tuple(p.shape))))
        sparse = torch.optim.SparseAdam(table.parameters(), lr=0.05)
        dense = torch.optim.Adam(layer.parameters(), lr=0.05)
        losses = []
        for _ in range(10):
            at = torch.tensor(draw.integers(0, 8, size=(4, 2)))
            loss = (layer(table(at)).sum(1) ** 2).mean()
            sparse.zero_grad()
            dense.zero_grad()
            loss.backward()
            sparse.step()
            dense.step()
            losses.append(loss.item())
        return losses, table.weight, layer.weight

    agree(program)


@pytest.mark.parametrize("clip", ["clip_grad_norm_", "clip_grad_value_"])
def test_clipping_is_refused(clip: str) -> None:
    def program(torch: Any) -> Any:
        w = _table(torch)
        _loss(torch, w, [1, 2]).backward()
        try:
            getattr(torch.nn.utils, clip)([w], 1.0)
        except NotImplementedError as error:
            return str(error).partition(" with")[0], "SparseCPU" in str(error)
        return ""

    agree(program)


@pytest.mark.parametrize(("name", "options"), RULES.values(), ids=RULES)
def test_steps_on_another_array_library(name: str, options: dict[str, Any]) -> None:
    found = []
    for device in ("cpu", STRICT.device_type):
        w = _table(ag).detach().to(device).requires_grad_()
        at = ag.tensor([1, 2, 1]).to(device)
        optimizer = getattr(ag.optim, name)([w], **options)

        def closure(w: Any = w, at: Any = at, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = (ag.nn.functional.embedding(at, w, sparse=True) ** 2).sum()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        found.append(w.detach().cpu().numpy())
    numpy.testing.assert_allclose(found[0], found[1])
