"""Modules on device 'meta': made without memory, moved, filled and loaded; beside torch's."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import ag_visual as ag

from ..oracle import torch


def encoder(t: Any) -> Any:
    with t.device("meta"):
        return t.nn.Sequential(
            t.nn.Embedding(9, 8),
            t.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
            t.nn.Linear(8, 3),
        )


USES = {
    "repr": lambda t: t.ones(2, 3, device="meta"),
    "repr_dtype": lambda t: t.ones(2, dtype=t.int64, device="meta"),
    "repr_parameter": lambda t: t.nn.Linear(3, 2, device="meta").weight,
    "random": lambda t: t.randn(3, device="meta", requires_grad=True),
    "like": lambda t: t.empty_like(t.ones(2, 3, device="meta"), device="cpu").shape,
    "view": lambda t: t.empty(4, 6, device="meta").t()[1:].stride(),
    "devices": lambda t: [p.device for p in encoder(t).parameters()][:2],
    "forward": lambda t: encoder(t)(t.zeros(2, 5, dtype=t.int64, device="meta")),
    "is_meta": lambda t: (t.ones(1, device="meta").is_meta, t.ones(1).is_meta),
    "data_ptr": lambda t: t.ones(1, device="meta").data_ptr(),
    "moved": lambda t: t.ones(3).to("meta"),
    "filled": lambda t: t.zeros(3, device="meta").fill_(2.0).copy_(t.ones(3)).add_(1),
    "matmul": lambda t: t.ones(2, 3, device="meta") @ t.ones(3, 4, device="meta"),
    "inverse": lambda t: t.linalg.inv(t.ones(3, 3, device="meta")),
    "huge": lambda t: (t.empty(10**6, 10**6, device="meta") * 2 + 1).T,
    "huge_copies": lambda t: [
        use(t.empty(10**6, 10**6, device="meta").T).stride()
        for use in (
            lambda x: x.clone(),
            lambda x: x.contiguous(),
            lambda x: x.to(t.float16),
            t.zeros_like,
            lambda x: t.full_like(x, 3),
        )
    ],
    "deepcopy": lambda t: copy.deepcopy(t.nn.Linear(3, 2, device="meta")).weight,
    "pickle": lambda t: pickle.loads(pickle.dumps(t.ones(2, 3, device="meta"))),
    "item": lambda t: t.ones(1, device="meta").item(),
    "bool": lambda t: bool(t.ones(1, device="meta")),
    "numpy": lambda t: t.ones(1, device="meta").numpy(),
    "cpu": lambda t: t.ones(1, device="meta").cpu(),
    "into_cpu": lambda t: t.ones(1).copy_(t.ones(1, device="meta")),
    "module_to_cpu": lambda t: t.nn.Linear(3, 2, device="meta").to("cpu"),
    "nonzero": lambda t: t.ones(3, device="meta").nonzero(),
    "masked": lambda t: t.ones(3, device="meta")[t.ones(3, device="meta") > 0],
    "skipped_relu": lambda t: t.nn.utils.skip_init(t.nn.ReLU),
}


def said(use: Any, t: Any) -> Any:
    try:
        return repr(use(t))
    except RuntimeError as error:  # NotImplementedError is one
        text = str(error).split(": they")[0]
        return "needs values" if " values" in text or "nonzero" in text else text
    except TypeError as error:
        return str(error)


@pytest.mark.oracle
@pytest.mark.parametrize("name", USES)
def test_device_meta_is_torchs(name: str) -> None:
    ours = said(USES[name], ag).replace("ag_visual", "torch")
    assert ours == said(USES[name], torch)


def test_a_module_is_made_filled_and_trained() -> None:
    model = encoder(ag)
    x = ag.tensor([[1, 2, 3]])
    ours = ag.nn.Sequential(*copy.deepcopy(model)).to_empty(device="cpu")
    for p in ours.parameters():
        p.detach().fill_(0.5)
    state = ours.state_dict()
    model.load_state_dict(state, assign=True)
    assert {p.device.type for p in model.parameters()} == {"cpu"}
    assert all(type(p) is ag.nn.Parameter and p.requires_grad for p in model.parameters())
    model(x).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    made = ag.nn.utils.skip_init(ag.nn.Linear, 3, 2, dtype=ag.float64)
    assert (made.weight.dtype, made.weight.device.type) == (ag.float64, "cpu")


def test_no_memory_is_taken_and_nothing_written() -> None:
    with ag.device("meta"):
        model = ag.nn.Linear(10**6, 10**6)
    weight = model.weight._array
    assert weight.nbytes == 4 * 10**12
    assert not weight.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        weight._values[0, 0] = 1.0


def test_a_backward_pass_is_recorded_without_values() -> None:
    with ag.record() as recorded:
        w = ag.zeros(3, 2, device="meta", requires_grad=True)
        (ag.ones(2, 3, device="meta") @ w).relu().sum().backward()
    assert recorded.recording.rows("nodes") == 3
    assert w.grad.is_meta
