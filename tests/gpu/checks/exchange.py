"""Memory shared with CuPy's own arrays and with torch's CUDA tensors."""

from __future__ import annotations

from typing import Any

import ag_visual as ag
from ag_visual.arrays import backend_for

from ..page import Machine, check


def cuda_torch() -> Any:
    """torch with CUDA; raises RuntimeError where it cannot be had."""
    try:
        import torch
    except ImportError as missing:
        raise RuntimeError(f"torch with CUDA is needed to compare with: {missing}") from None
    if not torch.cuda.is_available():
        raise RuntimeError(f"torch {torch.__version__} finds no CUDA device")
    return torch


@check("exchange")
def arrays_of_cupy(machine: Machine) -> None:
    """An array of the library becomes a tensor on its memory, with gradients."""
    xp = backend_for(machine.device).xp
    array = xp.arange(6, dtype="float32").reshape(2, 3)
    x = ag.asarray(array)
    array[0, 0] = 9
    assert x.is_cuda
    assert x[0, 0].item() == 9
    (x.requires_grad_() ** 2).sum().backward()
    assert x.grad.tolist()[0] == [18.0, 2.0, 4.0]


@check("exchange", only_real=True)
def dlpack_with_torch(machine: Machine) -> str:
    """Both ways, also of views and in a stream: one memory, no copy."""
    torch = cuda_torch()
    theirs = torch.arange(6.0, device="cuda").reshape(2, 3)
    ours = ag.from_dlpack(theirs)
    assert ours.is_cuda
    assert ours.data_ptr() == theirs.data_ptr()
    theirs[0, 0] = 9
    assert ours[0, 0].item() == 9
    turned = ag.from_dlpack(theirs.t()[1:])
    assert turned.stride() == (1, 3)
    assert turned.tolist() == theirs.t()[1:].tolist()
    mine = ag.arange(4.0, device=machine.device) * 2
    seen = torch.from_dlpack(mine)
    assert seen.data_ptr() == mine.data_ptr()
    seen += 1
    torch.cuda.synchronize()
    assert mine.tolist() == [1.0, 3.0, 5.0, 7.0]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        late = torch.from_dlpack(mine) * 2
    side.synchronize()
    assert late.tolist() == [2.0, 6.0, 10.0, 14.0]
    for dtype in ("float16", "float64", "int64", "uint8", "bool", "complex64"):
        given = torch.ones(3, device="cuda").to(getattr(torch, dtype))
        assert ag.from_dlpack(given).tolist() == given.tolist(), dtype
    return f"torch {torch.__version__}"


@check("exchange", only_real=True)
def cuda_array_interface(machine: Machine) -> None:
    """Both ways by the description that Numba and others share."""
    torch = cuda_torch()
    theirs = torch.arange(4.0, device="cuda")
    assert ag.asarray(theirs).data_ptr() == theirs.data_ptr()
    mine = ag.arange(4.0, device=machine.device)
    assert torch.as_tensor(mine, device="cuda").data_ptr() == mine.data_ptr()


@check("exchange", only_real=True)
def gradients_are_those_of_torch(machine: Machine) -> None:
    """A small net on torch's memory: loss and gradients agree."""
    torch = cuda_torch()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    x, w = torch.randn(32, 16, device="cuda"), torch.randn(16, 8, device="cuda")
    sides = []
    for engine, given in ((torch, (x, w)), (ag, (ag.from_dlpack(x), ag.from_dlpack(w)))):
        a, b = given
        b = b.detach().requires_grad_()
        loss = engine.nn.functional.gelu(a @ b).log_softmax(-1).square().mean()
        loss.backward()
        sides.append((loss.item(), b.grad.cpu().tolist()))
    (theirs, their_grad), (ours, our_grad) = sides
    assert abs(theirs - ours) < 1e-5 * abs(theirs)
    assert torch.allclose(torch.tensor(our_grad), torch.tensor(their_grad), rtol=1e-4, atol=1e-6)
