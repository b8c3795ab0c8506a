"""ag.explain: why a tensor has no gradient or requires none, with the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.core.diagnosis.source_rewrite import goes_to_numpy
from ag_visual.core.source import Site
from ag_visual.observe.diagnose.explain import repair_of


def kinds(found: Any) -> list[str]:
    return [reason.kind for reason in found.reasons]


def test_detached() -> None:
    x = ag.ones(2, requires_grad=True)
    y = (x * 2).detach()
    found = ag.explain(y)
    assert kinds(found) == ["detached"]
    assert found.reasons[0].site.text == "(x * 2).detach()"
    assert str(found).startswith("`y` does not require grad:")
    assert kinds(ag.explain(x.data)) == ["detached"]
    assert "taken from .data" in str(ag.explain(x.data))
    z = x * 2
    z.detach_()
    assert "detach_()" in str(ag.explain(z))
    assert kinds(ag.explain(y.detach())) == ["detached"]


def test_made_under_no_grad_or_in_inference_mode() -> None:
    x = ag.ones(2, requires_grad=True)
    with ag.no_grad():
        y = x * 2
        view = x.view(2)
    found = ag.explain(y)
    assert kinds(found) == ["no-grad"]
    assert found.reasons[0].site.text == "x * 2"
    assert kinds(ag.explain(view)) == ["no-grad"]
    with ag.inference_mode():
        z = x * 2
        made = ag.ones(2)
    assert kinds(ag.explain(z)) == ["inference"]
    assert kinds(ag.explain(made)) == ["inference"]


def test_integer_dtype() -> None:
    x = ag.ones(2, 2, requires_grad=True)
    best = x.argmax(1)
    assert kinds(ag.explain(best))[0] == "integer-dtype"
    assert kinds(ag.explain(ag.ones(2, dtype=ag.int64))) == ["integer-dtype"]


def test_nobody_asked_and_the_cut_lies_in_a_variable() -> None:
    x = ag.ones(2, requires_grad=True)
    h = x.exp().detach()
    loss = (h * 2).sum()
    found = ag.explain(loss)
    assert kinds(found) == ["not-asked", "graph-break"]
    assert "`h` was detached" in str(found)
    assert "x.exp().detach()" in str(found)


def test_has_a_gradient() -> None:
    x = ag.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    assert kinds(ag.explain(x)) == ["has-grad"]


def test_not_a_leaf() -> None:
    x = ag.ones(2, requires_grad=True)
    y = x.exp()
    y.sum().backward()
    found = ag.explain(y)
    assert kinds(found) == ["not-leaf"]
    assert found.reasons[0].site.text == "x.exp()"
    assert "retain_grad" in found.advice
    loss = (y * y).sum()
    assert kinds(ag.explain(y, loss)) == ["not-leaf", "requires-grad"]


def test_not_connected_and_where_the_path_was_cut() -> None:
    x = ag.ones(2, requires_grad=True)
    w = ag.ones(2, requires_grad=True)
    hidden = x.exp().detach()
    loss = (hidden * w).sum()
    loss.backward(retain_graph=True)
    found = ag.explain(x, loss)
    assert kinds(found) == ["not-connected", "graph-break"]
    assert found.reasons[1].site.text == "x.exp().detach()"
    assert kinds(ag.explain(ag.ones(2, requires_grad=True), (w * 2).sum())) == [
        "not-connected",
        "graph-break",
    ]


@pytest.mark.parametrize(
    ("cut", "repair"),
    [
        ("h = x.exp().detach()", "remove the detach() at cut.py, line 3: `h = x.exp()`"),
        ("h = (x * 2).data", "remove the .data at cut.py, line 3: `h = x * 2`"),
        ("h = x * 2; h.detach_()", "remove the detach_() at cut.py, line 3"),
        (
            "with ag.no_grad(): h = x * 2",
            "move `x * 2` at cut.py, line 3 out of the no_grad block",
        ),
        (
            "h = x.long()",
            "choose an operation with a derivative at cut.py, line 3 (softmax for argmax, "
            "sigmoid for >)",
        ),
    ],
)
@pytest.mark.parametrize("reaches", ["loss = (h * w).sum()", "loss = h.sum()"])
def test_the_advice_is_the_repair_of_the_only_cut(
    cut: str, repair: str, reaches: str, tmp_path: Path
) -> None:
    text = (
        "x = ag.ones(2, requires_grad=True)\nw = ag.ones(2, requires_grad=True)\n"
        f"{cut}\n{reaches}\nfound = ag.explain(x, loss)\n"
    )
    (tmp_path / "cut.py").write_text(text)
    scope = {"ag": ag}
    exec(compile(text, str(tmp_path / "cut.py"), "exec"), scope)
    assert scope["found"].advice == repair  # type: ignore[attr-defined]
    assert f"what to do: {repair}" in str(scope["found"])


@pytest.mark.parametrize(
    ("line", "cut", "there"),
    [
        ("h = ag.tensor(np.tanh(h.detach().numpy()))", "h.detach()", True),
        ("return ag.from_numpy(h.data.cpu().numpy() * 2)", "h.data", True),
        ("h = ag.tensor(numpy.sin(2 * h.detach()))", "h.detach()", True),
        ("h = np.ones(3) * h.detach()", "h.detach()", False),
        ("h = f(h.detach(), g.numpy())", "h.detach()", False),
        ("for h in (x.detach().numpy(),", "x.detach()", False),
    ],
)
def test_a_detach_for_numpy_is_told_apart(line: str, cut: str, there: bool) -> None:
    assert goes_to_numpy(line, cut) is there
    site = Site("cut.py", "file", None, None, 3, 0, 3, 9, "", cut, line)
    kind = "data" if cut.endswith("data") else "detach"
    assert ("NumPy" in repair_of(kind, site)) is there
    assert ("remove" in repair_of(kind, site)) is not there


def test_source_that_is_not_there_is_no_error() -> None:
    scope = {"ag": ag}
    text = "x = ag.ones(2, requires_grad=True)\nloss = ag.ones(2)\nfound = ag.explain(x, loss)"
    exec(compile(text, "<no such file>", "exec"), scope)
    assert kinds(scope["found"])[0] == "not-connected"


def test_a_detached_tensor_of_another_graph_is_no_suspect() -> None:
    x = ag.ones(2, requires_grad=True)
    w = ag.ones(2, requires_grad=True)
    other = w.exp()
    logged = other.detach()
    found = ag.explain(x, (w * 2).sum())
    assert kinds(found) == ["not-connected"]
    assert found.advice == "use it in the computation"
    assert logged.tolist() == other.tolist()


def test_backward_was_not_called() -> None:
    x = ag.ones(2, requires_grad=True)
    assert kinds(ag.explain(x)) == ["not-connected"]
    loss = (x * x).sum()
    assert kinds(ag.explain(x, loss)) == ["no-backward"]
    assert kinds(ag.explain(x)) == ["no-backward"]
    assert "loss.backward()" in ag.explain(x, loss).advice


def test_the_loss_requires_no_grad() -> None:
    x = ag.ones(2, requires_grad=True)
    with ag.no_grad():
        loss = (x * x).sum()
    found = ag.explain(x, loss)
    assert kinds(found)[0] == "not-connected"
    assert "`loss` itself does not require grad" in str(found)


def test_a_custom_function_that_returned_none() -> None:
    class Nothing(ag.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return None

    x = ag.ones(2, requires_grad=True)
    loss = Nothing.apply(x).exp().sum()
    loss.backward()
    found = ag.explain(x, loss)
    assert kinds(found) == ["undefined", "undefined"]
    assert "the backward of Nothing" in str(found)


def test_only_tensors() -> None:
    with pytest.raises(TypeError, match="x must be a Tensor, not int"):
        ag.explain(3)  # type: ignore[arg-type]


class Product(ag.autograd.Function):
    """A product that forgets the gradient of its second factor."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any, *more: Any) -> Any:
        ctx.save_for_backward(a)
        return a * b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return (g, *[None] * (len(ctx.needs_input_grad) - 1))


class Marked(ag.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        copy = x * 1
        ctx.mark_non_differentiable(copy)
        return x * 2, copy, x > 0

    @staticmethod
    def backward(ctx: Any, g: Any, *others: Any) -> Any:
        return g * 2


def test_a_view_of_a_detached_tensor_tells_of_the_detach() -> None:
    x = ag.ones(3, requires_grad=True)
    first = x.detach()[0]
    found = ag.explain(first)
    assert kinds(found) == ["detached"]
    assert found.reasons[0].site.text == "x.detach()"
    assert kinds(ag.explain(first.detach().view(1))) == ["detached"]
    w = ag.ones(3, requires_grad=True)
    found = ag.explain(x, (w * x.detach()[1:2]).sum())
    assert kinds(found) == ["not-connected", "graph-break"]


def test_a_custom_function_that_returned_none_is_named() -> None:
    a, b = (ag.ones(3, requires_grad=True) for _ in range(2))
    loss = Product.apply(a, b * 2).sum()
    loss.backward()
    found = ag.explain(b, loss)
    assert kinds(found) == ["undefined", "undefined"]
    told = found.reasons[1]
    assert told.text.startswith("the backward of Product returned None for `b` at test_explain.py")
    assert told.site.text.startswith("return (g, *[None]")
    assert found.advice.startswith("return the gradient of `b` in Product.backward")
    assert kinds(ag.explain(a, loss)) == ["has-grad"]


def test_outputs_of_a_custom_function_tell_why_they_have_no_history() -> None:
    x = ag.ones(3, requires_grad=True)
    _, copy, mask = Marked.apply(x)
    assert kinds(ag.explain(copy)) == ["non-differentiable"]
    assert "mark_non_differentiable" in ag.explain(copy).advice
    assert kinds(ag.explain(mask)) == ["integer-dtype", "integer-dtype"]
    with ag.no_grad():
        double, *_ = Marked.apply(x)
    assert kinds(ag.explain(double)) == ["no-grad"]


def test_a_detached_input_of_a_custom_function_is_a_cut() -> None:
    x, w = (ag.ones(3, requires_grad=True) for _ in range(2))
    loss = Product.apply(w, x.detach()).sum()
    found = ag.explain(x, loss)
    assert kinds(found) == ["not-connected", "graph-break"]
    # The input is gone, unless somebody keeps it: what is left are the user's variables.
    kept = x.detach()
    found = ag.explain(x, Product.apply(w, kept).sum())
    assert "ProductBackward was detached" in found.reasons[1].text


class ByNumpy(ag.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enc = ag.nn.Linear(4, 4)
        self.head = ag.nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        kept = self.enc(x).detach()
        values = kept.numpy() * 2
        return self.head(ag.from_numpy(values))


def test_a_detach_for_numpy_on_another_line_has_numpys_advice() -> None:
    model = ByNumpy()
    found = ag.explain(model.enc.weight, model(ag.ones(2, 4)).sum())
    assert "what `model.enc` computes is detached at test_explain.py" in str(found)
    assert found.advice.startswith("compute with tensors in place of NumPy's arrays at test_exp")
    assert "detach" not in found.advice
    assert found.advice.count("NumPy") == 1
