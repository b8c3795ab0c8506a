"""A page, a kernel and the real torch: its backward is paused, looked at, changed and let go."""

from __future__ import annotations

from typing import Any

from ..oracle import torch


def test_a_backward_of_torch_is_paused_by_a_page(kernel: Any) -> None:
    assert torch.__version__
    kernel.open_page()
    kernel.run("%ag_visual watch torch")
    assert "Programs of torch are watched from now on." in "".join(kernel.output)
    kernel.run("import torch\nx = torch.tensor([1.0, 2.0], requires_grad=True)\ny = x.exp()\n")
    cell = kernel.start("with ag.debugger('ExpBackward0'):\n    (y * 2).sum().backward()")
    kernel.until(lambda: kernel.paused)
    seq = kernel.paused["seq"]
    node = kernel.result("node", seq=seq)
    assert (node["name"], node["site"]["text"]) == ("ExpBackward0", "x.exp()")
    assert [(saved["name"], saved["shared_with"]) for saved in node["saved"]] == [("result", ["y"])]
    assert kernel.result("values", seq=seq, which="grad")["picture"]["values"] == [2.0, 2.0]
    assert kernel.result("card", seq=seq)["op"]
    kernel.result("edit", how="fill", value=0.0)
    kernel.result("continue")
    kernel.finish(cell)
    assert not kernel.errors
    kernel.run(
        "print(x.grad.tolist())\n%ag_visual watch off\nprint(torch._C._len_torch_function_stack())"
    )
    said = "".join(kernel.output)
    assert "[0.0, 0.0]" in said
    assert said.endswith("torch is as it was.\n0\n")
