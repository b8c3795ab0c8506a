"""What an error about shapes adds to PyTorch's words: operands as written, module, line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ag_visual as ag
from ag_visual import nn
from ag_visual.nn import functional


def added(function: Callable[[], Any]) -> str:
    """The line below PyTorch's."""
    with pytest.raises(RuntimeError) as found:
        function()
    return str(found.value).partition("\n")[2].strip()


def line(function: Any, below: int) -> str:
    return f"test_shape_errors.py, line {function.__code__.co_firstlineno + below}"


def test_operands_are_named_as_written_with_their_own_shapes() -> None:
    a, w = ag.ones(2, 3), ag.ones(5, 7)
    products: dict[str, Callable[[], Any]] = {
        "a @ w": lambda: a @ w,
        "a.mm(w)": lambda: a.mm(w),
        "ag.matmul(a, w)": lambda: ag.matmul(a, w),
        "functional.linear(a, w)": lambda: functional.linear(a, w),
    }
    for text, product in products.items():
        said = f"`a` is [2, 3], `w` is [5, 7], in `{text}` at {line(product, 0)}"
        assert added(product) == said
    batches = ag.ones(4, 2, 3)
    assert added(lambda: ag.bmm(batches, batches * 2)).startswith(
        "`batches` is [4, 2, 3], `batches * 2` is [4, 2, 3], in `ag.bmm("
    )
    x, k = ag.ones(1, 3, 8, 8), ag.ones(4, 1, 3, 3)
    assert added(lambda: functional.conv2d(x, k)).startswith("`x` is [1, 3, 8, 8], `k` is [4, 1, ")


def test_a_module_is_named_with_its_weight() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(5, 2))
    x = ag.ones(3, 4)

    def fails() -> Any:
        return net(x)

    assert added(fails) == (
        "its input is [3, 4], `net.1.weight` is [2, 5], in `net.1`, "
        "Linear(in_features=5, out_features=2, bias=True), called at "
        f"{line(fails, 1)}: `net(x)`"
    )
    images, convolution = ag.ones(8, 3, 28, 28), nn.Conv2d(1, 4, 3)
    assert added(lambda: convolution(images)).startswith(
        "`images` is [8, 3, 28, 28], `convolution.weight` is [4, 1, 3, 3], in `convolution`, Conv2d"
    )


def test_in_a_forward_of_the_user_the_line_is_there() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(5, 2)
            self.w = nn.Parameter(ag.ones(3, 3))

        def forward(self, x: Any) -> Any:
            return self.fc(x.relu()) if len(x) == 2 else x @ self.w

    net = Net()
    assert added(lambda: net(ag.ones(2, 3))).startswith(
        "`x.relu()` is [2, 3], `self.fc.weight` is [2, 5], in `self.fc`, Linear("
    )
    said = f"`x` is [9, 2], `self.w` is [3, 3], in `x @ self.w` at {line(Net.forward, 1)}"
    assert added(lambda: net(ag.ones(9, 2))) == said


def test_of_a_call_with_other_arguments_nothing_is_guessed() -> None:
    bias, a, w = ag.ones(4), ag.ones(2, 3), ag.ones(5, 7)
    assert added(lambda: ag.addmm(bias, a, w)) == ""


def test_torchs_first_line_stays() -> None:
    with pytest.raises(RuntimeError, match=r"^mat1 and mat2 shapes cannot be multiplied \(2x3 and"):
        ag.ones(2, 3) @ ag.ones(5, 7)


def test_modules_that_raise_when_looked_at_do_not_take_the_errors_place() -> None:
    class HalfBuilt(nn.Module):
        def __init__(self) -> None:  # without super().__init__()
            pass

    class Rude(nn.Linear):
        def extra_repr(self) -> str:
            raise ValueError("rude")

        def named_modules(self, *_: Any, **__: Any) -> Any:
            raise KeyError("rude")

    class Weightless(nn.Module):
        @property
        def weight(self) -> Any:
            raise OSError("weightless")

        def forward(self, x: Any) -> Any:
            return nn.Linear.forward(self, x)  # type: ignore[arg-type]

    half, net = HalfBuilt(), nn.Sequential(nn.Linear(4, 3), Rude(4, 2))
    x = ag.ones(2, 4)
    assert "weight" not in vars(half)
    assert added(lambda: net(x)).startswith(
        "its input is [2, 3], `net.1.weight` is [2, 4], in `net.1`, Rude(...), called at"
    )
    with pytest.raises(OSError, match="weightless"):  # the program's own
        Weightless()(x)
