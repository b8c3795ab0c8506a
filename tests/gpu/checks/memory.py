"""Questions about memory, what a graph holds, and saved tensors that wait on the host."""

from __future__ import annotations

import gc
from typing import Any

import ag_visual as ag
from ag_visual.arrays import backend_for

from ..page import Machine, check

MIB = 1 << 20


def _used() -> int:
    gc.collect()
    return ag.cuda.memory_allocated()


@check("memory")
def allocated_and_reserved(machine: Machine) -> str:
    """What an array takes is counted, given back, and seen in the maximum."""
    ag.cuda.reset_peak_memory_stats()
    before = _used()
    x = ag.zeros(4 * MIB, dtype=ag.uint8, device=machine.device)
    assert _used() - before == 4 * MIB
    view = x[: 2 * MIB]
    assert _used() - before == 4 * MIB
    del x
    assert _used() - before == 4 * MIB, "a view keeps the memory"
    del view
    assert _used() == before
    assert ag.cuda.max_memory_allocated() >= before + 4 * MIB
    assert ag.cuda.memory_reserved() >= before + 4 * MIB
    ag.cuda.empty_cache()
    assert ag.cuda.memory_reserved() < before + 4 * MIB
    stats = ag.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == _used()
    assert "reserved_bytes.all.current" in ag.cuda.memory_summary()
    free, total = ag.cuda.mem_get_info()
    assert 0 < free <= total
    assert ag.cuda.get_device_properties().total_memory == total
    assert ag.accelerator.memory_allocated() == _used()
    return f"{total >> 20} MiB, {free >> 20} free"


def _chain(x: Any, steps: int = 8) -> Any:
    for _ in range(steps):
        x = x.sin()
    return x


@check("memory")
def a_graph_holds_what_it_saved_until_backward(machine: Machine) -> None:
    """Eight saved inputs of 1 MiB, gone when the backward has run."""
    x = ag.ones(MIB // 4, device=machine.device, requires_grad=True)
    before = _used()
    y = _chain(x).sum()
    held = _used() - before
    assert 7 * MIB <= held <= 8 * MIB, held
    y.backward()
    del y
    left = _used() - before
    assert left <= MIB + 4096, f"{left} bytes beside the gradient of {MIB}"


@check("memory")
def saved_tensors_wait_on_the_host(machine: Machine) -> None:
    """save_on_cpu, pageable and pinned: the device is free meanwhile, gradients are the same."""
    x = ag.linspace(0, 1, MIB // 4, device=machine.device).requires_grad_()
    (wanted,) = ag.autograd.grad(_chain(x).sum(), x)
    for pinned in (False, True):
        before = _used()
        with ag.autograd.graph.save_on_cpu(pin_memory=pinned):
            y = _chain(x).sum()
        held = _used() - before
        assert held <= MIB // 4, f"{held} bytes of the device, pin_memory={pinned}"
        (found,) = ag.autograd.grad(y, x)
        assert ag.equal(found, wanted), f"pin_memory={pinned}"
        del y, found


@check("memory")
def pinned_memory_is_pinned(machine: Machine) -> None:
    """What save_on_cpu(pin_memory=True) keeps is page-locked, also of views; else it is not."""
    runtime = backend_for(machine.device).xp.cuda.runtime
    x = ag.arange(12.0, device=machine.device).reshape(3, 4)
    for tensor in (x, x.t()[1:], x[0, 0], x[:, :0]):
        for pinned in (True, False):
            where, kept = ag.autograd.graph.save_on_cpu(pin_memory=pinned).pack_hook(tensor)
            assert where == tensor.device
            assert kept.device.type == "cpu"
            assert kept.tolist() == tensor.tolist()
            if kept.numel():
                kind = runtime.pointerGetAttributes(kept.data_ptr()).type
                assert (kind == runtime.memoryTypeHost) is pinned, kind


@check("memory")
def checkpoints_keep_less(machine: Machine) -> None:
    """What a checkpoint computes again is not held."""
    x = ag.ones(MIB // 4, device=machine.device, requires_grad=True)
    (wanted,) = ag.autograd.grad(_chain(x).sum(), x)
    before = _used()
    y = ag.utils.checkpoint.checkpoint(_chain, x, use_reentrant=False).sum()
    held = _used() - before
    assert held <= MIB // 4, held
    (found,) = ag.autograd.grad(y, x)
    assert ag.equal(found, wanted)
