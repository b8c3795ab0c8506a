"""Modules, optimizers, initial values and files on a second array library, as strict as CuPy."""

from __future__ import annotations

import io
from typing import Any

import numpy
import pytest

import ag_visual as ag
from tests.arrays.strict import STRICT
from tests.optim.test_rules import RULES

from .cases import CASES, Case, label
from .test_modules import _built, _flat, _inputs

DEVICE = STRICT.device_type


def _there(value: Any) -> Any:
    if isinstance(value, ag.Tensor):
        return value.detach().to(DEVICE).requires_grad_(value.requires_grad)
    return type(value)(map(_there, value)) if isinstance(value, list | tuple) else value


def _host(value: Any) -> Any:
    return None if value is None else value.detach().cpu().numpy()


@pytest.mark.parametrize("case", CASES, ids=label)
def test_modules(case: Case) -> None:
    ag.manual_seed(0)
    module, inputs = _built(ag, case).train(case.train), _inputs(ag, case)
    call = {k: v(ag) if callable(v) else v for k, v in case.call.items()}
    found = []
    state = module.state_dict()
    for there in (False, True):
        if there:
            module = _built(ag, case).train(case.train)
            module.load_state_dict(state)
            module.to(DEVICE)
            inputs = _there(_inputs(ag, case))
            call = {k: _there(v) for k, v in call.items()}
        else:
            state = {k: v.clone() for k, v in state.items()}
        outputs = _flat(module(*inputs, **call))
        total = sum((o * 1.5).sum() for o in outputs if o.requires_grad)
        if isinstance(total, ag.Tensor):
            total.backward()
        leaves = _flat([*inputs, *module.parameters()])
        found.append([_host(v) for v in (*outputs, *(x.grad for x in leaves), *module.buffers())])
    for here, there in zip(*found, strict=True):
        assert (here is None) is (there is None)
        if here is not None:
            numpy.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("values", [[0.5, -2.0], [1 + 2j, -1j]])
def test_optimizers(rule: str, values: Any) -> None:
    name, options = RULES[rule]
    seen = []
    for device in ("cpu", DEVICE):
        p = ag.tensor(values).to(device).requires_grad_()
        optimizer = getattr(ag.optim, name)([p], **options)
        for _ in range(3):
            optimizer.zero_grad()
            (p * p - 1).abs().pow(2).sum().backward()
            optimizer.step()
        seen.append(_host(p))
    numpy.testing.assert_allclose(seen[1], seen[0], rtol=1e-6)


@pytest.mark.parametrize("name", ["eye_", "dirac_", "orthogonal_", "trunc_normal_", "zeros_"])
def test_initial_values(name: str) -> None:
    shape = (3, 2, 3) if name == "dirac_" else (3, 4)
    w = getattr(ag.nn.init, name)(ag.empty(shape).to(DEVICE))
    assert w.device.type == DEVICE
    assert numpy.isfinite(_host(w)).all()


def test_files() -> None:
    base = ag.arange(6.0).reshape(2, 3).to(DEVICE)
    file = io.BytesIO()
    ag.save({"base": base, "row": base[1], "w": ag.nn.Parameter(ag.ones(2).to(DEVICE))}, file)
    file.seek(0)
    found = ag.load(file, "cpu")
    found["row"][0] = 9.0
    assert found["base"].tolist() == [[0.0, 1.0, 2.0], [9.0, 4.0, 5.0]]


def test_clipping_and_loading() -> None:
    model = ag.nn.Linear(2, 2)
    moved = ag.nn.Linear(2, 2).to(DEVICE)
    moved.load_state_dict(model.state_dict())
    assert _host(moved.weight).tolist() == model.weight.tolist()
    moved(ag.ones(1, 2).to(DEVICE)).sum().backward()
    norm = ag.nn.utils.clip_grad_norm_(moved.parameters(), 1.0)
    assert norm.item() == pytest.approx(6**0.5)
    assert ag.nn.utils.get_total_norm([p.grad for p in moved.parameters()]).item() < 1.001
