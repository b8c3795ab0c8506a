"""What GradcheckError says and draws: which entry, which line, what it looks like; safely."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy
import pytest
from hypothesis import given, settings, strategies as st
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import ag_visual as ag
from ag_visual.autograd import Function, gradcheck, gradgradcheck
from ag_visual.autograd.gradcheck import GradcheckError
from ag_visual.autograd.gradcheck.picture import CELLS
from ag_visual.events import instrument


def custom(**methods: Any) -> Any:
    whole = {"forward": lambda c, x: x * 2, "backward": lambda c, g: g * 2, **methods}
    kinds = {name: staticmethod(method) for name, method in whole.items()}
    return type("Fn", (Function,), kinds).apply


def leaf(*shape: int) -> Any:
    many = int(numpy.prod(shape))
    return ag.linspace(0.3, 1.7, many, dtype=ag.float64).reshape(shape).requires_grad_()


def found(call: Callable[[], Any]) -> GradcheckError:
    with pytest.raises(GradcheckError) as caught:
        call()
    return caught.value


@settings(max_examples=25)
@given(data=st.data())
def test_the_planted_entry_is_named_with_both_numbers(data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    row, column = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
    wrong = ag.full((rows, columns), 2.0).double()
    wrong[row, column] = 2.5
    x = leaf(rows, columns)
    error = found(lambda: gradcheck(custom(backward=lambda c, g: g * wrong), x))
    assert f"d output[{row}, {column}] / d input[{row}, {column}]" in str(error)
    line = next(line for line in str(error).splitlines() if "d output[" in line)
    assert line.split()[-3:] == ["2", "2.5", "0.5"]
    assert f"wrong       1 of {(rows * columns) ** 2} entries" in str(error)
    place = row * columns + column
    assert error.numerical is not None
    assert error.analytical is not None
    assert error.analytical[place, place].item() == 2.5
    assert error.numerical[place, place].item() == pytest.approx(2.0)
    assert (error.output_index, error.input_index) == (0, 0)


def test_the_op_and_its_line_are_named() -> None:
    def function(first: Any, second: Any) -> Any:
        kept = first + second
        return kept, (first * second.detach()).sum()  # the wrong line

    weights = leaf(3)
    error = found(lambda: gradcheck(function, (leaf(3), weights)))
    text = str(error)
    assert "result 1 of the function, [] of torch.float64" in text
    assert re.search(r"made at +test_gradcheck_report.py, line \d+: .*sum\(\)  \(SumBackward", text)
    assert "argument 1 of the function, `weights`, [3] of torch.float64" in text
    assert error.mismatch is not None
    assert error.mismatch.site.source_line.endswith("# the wrong line")


def test_second_derivatives_are_named_as_such() -> None:
    error = found(lambda: gradgradcheck(lambda a, b: a * b * b.detach(), (leaf(2), leaf(2))))
    assert "the gradient by argument 0 of the function, [2]" in str(error)
    assert "argument 1 of the function" in str(error)
    cut = custom(
        forward=lambda c, x: (c.save_for_backward(x), x**2)[1],
        backward=lambda c, g: g.detach() * 2 * c.saved_tensors[0],
    )
    first = found(lambda: gradgradcheck(cut, leaf(2)))
    assert "the gradient of result 0 of the function" in str(first)


SIGNS = ag.tensor([1.0, -1.0] * 10).double()
HINTS: dict[str, Callable[[], Any]] = {
    "no gradient arrives": lambda: gradcheck(custom(backward=lambda c, g: None), leaf(2)),
    "0.5 times what": lambda: gradcheck(lambda x: x * x.detach(), leaf(2)),
    "-1 times what": lambda: gradcheck(custom(backward=lambda c, g: g * -2), leaf(2)),
    "conj() is missing": lambda: gradcheck(
        custom(
            forward=lambda c, z: (c.save_for_backward(z), z**2)[1],
            backward=lambda c, g: g * 2 * c.saved_tensors[0],
        ),
        ag.tensor([1 + 2j, 3 - 1j], dtype=ag.complex128, requires_grad=True),
    ),
    "transposed": lambda: gradcheck(
        custom(
            forward=lambda c, a, b: (c.save_for_backward(a), a @ b)[1],
            backward=lambda c, g: (None, c.saved_tensors[0] @ g),
        ),
        (leaf(2, 2).detach(), leaf(2)),
    ),
    "does not depend on this input": lambda: gradcheck(
        custom(forward=lambda c, x: x * 0 + 1.0), leaf(2)
    ),
    "random numbers": lambda: gradcheck(lambda x: x * ag.rand(()), leaf(2)),
    "make the inputs torch.float64": lambda: gradcheck(lambda x: x.float().sin(), leaf(2)),
    "a non-smooth point": lambda: gradcheck(
        lambda x: x.relu() + x, ag.tensor([0.0, 1.0]).double().requires_grad_()
    ),
    "the function is not finite": lambda: gradcheck(lambda x: x / 0, leaf(2)),
    "the derivative is not finite": lambda: gradcheck(custom(backward=lambda c, g: g / 0), leaf(2)),
    "requires no grad, yet it depends": lambda: gradcheck(lambda x: x.detach(), leaf(2)),
    "for gradients of zero": lambda: gradcheck(
        custom(backward=lambda c, g: g * 2 + (g == 0).all() * 1.0), leaf(2)
    ),
    "largest difference between two runs": lambda: gradcheck(
        custom(backward=lambda c, g: g * 2 + ag.rand(())), leaf(2)
    ),
    "fast_mode=False": lambda: gradcheck(
        custom(forward=lambda c, x: x * SIGNS, backward=lambda c, g: g * (SIGNS + 9e-4)),
        leaf(20),
        fast_mode=True,
        atol=1e-9,
    ),
}


@pytest.mark.parametrize("hint", HINTS)
def test_it_says_what_it_looks_like(hint: str) -> None:
    assert hint in str(found(HINTS[hint]))


def test_the_observer_hears_of_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(instrument, "problem", lambda error, fields: told.append((error, fields)))
    assert not gradcheck(lambda x: x * x.detach(), leaf(2), raise_exception=False)
    assert not told
    for call in (HINTS["0.5 times what"], HINTS["requires no grad, yet it depends"]):
        error = found(call)
        assert told.pop() == (error, error.fields)
        assert not told
        assert error.fields["where"].file.endswith("test_gradcheck_report.py")


# The picture --------------------------------------------------------------------------------------


class Seen(HTMLParser):
    """Tags of a page, all closed, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def count(self, name: str) -> int:
        return sum(tag == name for tag, _ in self.tags)


def test_three_heat_maps_with_every_entry() -> None:
    error = found(lambda: gradcheck(lambda a: (a * a.detach()).sum(0), leaf(2, 3)))
    page = Seen(error._repr_html_())
    assert page.count("svg") == 3
    assert page.count("rect") == 3 * 6 * 3
    titles = [text for text in page.text if text.startswith("d output[0] / d input[1, 0]: ")]
    assert [round(float(title.split(": ")[1]), 3) for title in titles] == [2.28, 1.14, -1.14]
    framed = [attrs for tag, attrs in page.tags if tag == "rect" and "stroke" in attrs]
    assert len(framed) == 6  # the wrong ones, in the picture of the difference


def test_large_jacobians_are_drawn_in_blocks() -> None:
    wrong = ag.full((100,), 2.0).double()
    wrong[77] = 3.0
    page = Seen(
        found(lambda: gradcheck(custom(backward=lambda c, g: g * wrong), leaf(100)))._repr_html_()
    )
    rects = [attrs for tag, attrs in page.tags if tag == "rect"]
    assert len(rects) <= 3 * CELLS**2
    assert sum("stroke" in attrs for attrs in rects) == 1
    assert any(text.startswith("d output[77] / d input[77]: 1") for text in page.text)


def test_complex_and_infinite_numbers_are_drawn() -> None:
    z = ag.tensor([1 + 2j, 3 - 1j], dtype=ag.complex128, requires_grad=True)
    for call in (
        lambda: gradcheck(lambda z: z * z.detach(), z),
        lambda: gradcheck(lambda x: x * float("nan"), leaf(2)),
        lambda: gradcheck(custom(backward=lambda c, g: g / 0), leaf(2)),
        lambda: gradcheck(lambda x: x * x.detach(), ag.tensor(2.0).double().requires_grad_()),
        HINTS["for gradients of zero"],
    ):
        page = Seen(found(call)._repr_html_())
        assert "nan" not in " ".join(str(attrs) for _, attrs in page.tags)


def test_the_programs_text_is_no_markup() -> None:
    scope: dict[str, Any] = {"ag": ag}
    exec(
        compile(
            "f = lambda x: x * x.detach() * len('<img src=x onerror=alert(1)>')", "<b>&", "exec"
        ),
        scope,
    )
    error = found(lambda: gradcheck(scope["f"], leaf(2)))
    assert "<b>&" in str(error)
    page = Seen(error._repr_html_())
    assert page.count("img") == 0
    assert page.count("b") == 1
    name = type(
        "<script>",
        (Function,),
        {"forward": staticmethod(lambda c, x: x * 2), "backward": staticmethod(lambda c, g: g)},
    )
    page = Seen(found(lambda: gradcheck(name.apply, leaf(2)))._repr_html_())
    assert page.count("script") == 0


def test_ipython_shows_the_picture_and_its_own_traceback() -> None:
    shell = InteractiveShell.instance()
    try:
        source = (
            "import ag_visual as ag\n"
            "x = ag.ones(2).double().requires_grad_()\n"
            "ag.autograd.gradcheck(lambda x: x * x.detach(), x)"
        )
        with capture_output() as seen:
            shell.run_cell(source)
    finally:
        shell.history_manager.end_session()
        InteractiveShell.clear_instance()
    assert "GradcheckError" in seen.stdout
    assert "looks like  the gradient is 0.5 times what it should be" in seen.stdout
    pages = [output.data["text/html"] for output in seen.outputs if "text/html" in output.data]
    assert len(pages) == 1
    assert "<svg" in pages[0]
