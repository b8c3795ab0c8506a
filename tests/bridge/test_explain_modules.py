"""ag.explain of what `forward` or an expression cuts off, on both engines: line and module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ag_visual as ag

from ..oracle import torch as real


@pytest.fixture(params=["own", "torch"])
def torch(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "own":
        yield ag
        return
    with ag.watch(real):
        yield real


def network(torch: Any, forward: Any, **methods: Any) -> Any:
    """A module with an encoder, a head and this forward."""

    class Encoder(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)
            self.unused = torch.nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return self.fc(x).tanh()

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.encoder = Encoder()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(2)])
            self.head = torch.nn.Linear(4, 1)
            self.frozen, self.loud = True, False

    Net.forward = forward
    for name, method in methods.items():
        setattr(Net, name, method)
    return Net()


def asked(torch: Any, net: Any, path: str) -> ag.Explanation:
    """The answer after a step, when nothing of the forward's graph is left."""

    def step() -> Any:
        loss = net(torch.ones(3, 4)).sum()
        loss.backward()
        return loss

    loss = step()
    assert net.get_parameter(path).grad is None
    found = ag.explain(net.get_parameter(path), loss)
    assert found.question == f"`net.{path}`.grad is None:"
    assert found.reasons[0].kind == "not-connected"
    return found


def told(found: ag.Explanation) -> list[tuple[str, str]]:
    """Kind and expression of each reason but the first."""
    return [(reason.kind, reason.site.text) for reason in found.reasons[1:] if reason.site]


def test_a_detach_is_named_with_its_line_and_what_it_starves(torch: Any) -> None:
    def forward(self: Any, x: Any) -> Any:
        hidden = self.encoder(x)
        self.seen = hidden.mean().item()
        return self.head(hidden.detach() * 2)

    net = network(torch, forward)
    found = asked(torch, net, "encoder.fc.weight")
    assert told(found) == [("graph-break", "hidden.detach()")]
    text = found.reasons[1].text
    assert text.startswith("what `net.encoder` computes is detached at test_explain_modules.py, ")
    line = forward.__code__.co_firstlineno + 3
    assert found.reasons[1].site is not None
    assert found.reasons[1].site.line == line
    assert found.advice == (
        f"remove the detach() at test_explain_modules.py, line {line}: "
        "`return self.head(hidden * 2)`"
    )


def test_a_parameter_that_nothing_uses_is_no_cut_one(torch: Any) -> None:
    def forward(self: Any, x: Any) -> Any:
        return self.head(self.encoder(x).detach())

    found = asked(torch, network(torch, forward), "encoder.unused.weight")
    assert [reason.kind for reason in found.reasons] == ["not-connected", "not-connected"]
    assert "no method of Encoder" in found.reasons[1].text
    assert "uses `net.encoder.unused`" in found.reasons[1].text
    assert found.advice == "use `self.unused` in Encoder.forward"


def test_each_cut_names_its_own_module(torch: Any) -> None:
    def forward(self: Any, x: Any) -> Any:
        a = self.encoder(x).detach()
        with torch.no_grad():
            for layer in self.layers:
                x = layer(x)
        return self.head(a + x)

    net = network(torch, forward)
    assert told(asked(torch, net, "encoder.fc.weight")) == [
        ("graph-break", "self.encoder(x).detach()")
    ]
    found = asked(torch, net, "layers.1.weight")
    assert told(found) == [("graph-break", "torch.no_grad()")]
    assert "`net.layers` is used in the no_grad block" in found.reasons[1].text


def test_through_a_method_and_a_tuple_and_in_place(torch: Any) -> None:
    def split(self: Any, hidden: Any) -> Any:
        hidden.detach_()
        return hidden, 1

    def forward(self: Any, x: Any) -> Any:
        hidden, self.count = self.split(self.encoder(x))
        hidden += 1
        return self.head(hidden)

    net = network(torch, forward, split=split)
    assert told(asked(torch, net, "encoder.fc.bias")) == [("graph-break", "hidden.detach_()")]


def test_of_branches_the_one_that_ran(torch: Any) -> None:
    def forward(self: Any, x: Any) -> Any:
        hidden = self.encoder(x)
        if self.frozen:
            hidden = hidden.detach()
            return self.head(hidden)
        return self.head(hidden.data if self.loud is False else hidden)

    net = network(torch, forward)
    for frozen in (True, False, True):
        net.frozen = frozen
        found = asked(torch, net, "encoder.fc.weight")
        assert told(found) == [("graph-break", "hidden.detach()" if frozen else "hidden.data")]
        assert found.reasons[1].text.endswith("(where that branch runs)")


def test_what_can_be_reached_by_other_ways_is_called_unused_by_nobody(torch: Any) -> None:
    def forward(self: Any, x: Any) -> Any:
        for child in list(self.children())[:1]:
            x = child(x)
        return x.detach() + self.head(x.detach())

    found = asked(torch, network(torch, forward), "layers.0.weight")
    assert not [reason for reason in found.reasons if "no method of Net" in reason.text]


@pytest.mark.parametrize(
    ("lines", "cut", "gives"),
    [
        ("h = x.exp().detach() * 2", "x.exp().detach()", "a tensor outside of the graph"),
        ("h = t.tensor((x * 2).sum().item())", "(x * 2).sum().item()", "a Python number"),
        ("a = x.detach() * 2\nh = t.tensor(float(a.sum()))", "float(a.sum())", "a Python number"),
        (
            "h = t.from_numpy((x * 2).detach().numpy())",
            "(x * 2).detach().numpy()",
            "a NumPy array",
        ),
        ("h = 1 - (x > 0).float()", "x > 0", "truth values, which have no derivative"),
        ("h = 1.0 * x.argmax()", "x.argmax()", "an index, which has no derivative"),
    ],
)
@pytest.mark.parametrize("reaches", ["loss = (h * w).sum()", "loss = h.sum()"])
def test_what_left_the_graph_inside_of_an_expression_is_read_off_the_source(
    torch: Any, lines: str, cut: str, gives: str, reaches: str, tmp_path: Path
) -> None:
    text = (
        "x = t.ones(2, requires_grad=True)\nw = t.ones(2, requires_grad=True)\n"
        f"{lines}\n{reaches}\nfound = ag.explain(x, loss)\n"
    )
    (tmp_path / "cut.py").write_text(text)
    scope = {"ag": ag, "t": torch}
    exec(compile(text, str(tmp_path / "cut.py"), "exec"), scope)
    found: Any = scope["found"]
    kinds = [reason.kind for reason in found.reasons]
    assert kinds[-1] == "graph-break" or kinds[0] == "not-connected"
    said = str(found)
    line = next(i for i, each in enumerate(text.splitlines(), 1) if cut in each)
    assert f"`{cut}` at cut.py, line {line} gives {gives}" in said
    assert f"compute without `{cut}` at cut.py, line {line}" in found.advice
