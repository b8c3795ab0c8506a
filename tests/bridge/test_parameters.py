"""Parameters that a backward leaves without a gradient, on both engines: which, why, the line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ag_visual as ag
from ag_visual.observe.record import parameters
from ag_visual.session.session import current

from ..observe.reading import rows
from ..oracle import torch as real


@pytest.fixture(params=["own", "torch"])
def torch(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "own":
        with ag.record():
            yield ag
        return
    with ag.watch(real):
        yield real


def network(torch: Any) -> Any:
    class Encoder(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)
            self.scale = torch.nn.Parameter(torch.ones(4))
            self.unused = torch.nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            return self.fc(x).tanh() + (x * self.scale).detach()

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.enc = Encoder()
            self.mid = torch.nn.Linear(4, 4)
            self.aux = torch.nn.Linear(4, 4)
            self.head = torch.nn.Linear(4, 1)
            self.frozen = torch.nn.Linear(4, 4)
            for parameter in self.frozen.parameters():
                parameter.requires_grad_(False)

        def forward(self, x: Any) -> Any:
            return self.frozen(self.enc(x))

    return Net()


def step(torch: Any, model: Any) -> None:
    hidden = model(torch.ones(3, 4))
    with torch.no_grad():
        plain = model.aux(hidden)
    middle = model.mid(hidden)
    model.head(hidden + plain + middle.detach()).sum().backward()


def told() -> dict[str, list[dict[str, Any]]]:
    return rows(current().recorder)


def absent() -> dict[str, tuple[str, str]]:
    """Kind and line of each parameter that got none, by its name."""
    found = told()
    names = {row["parameter"]: row["name"] for row in found["parameters"]}
    sites = current().recorder.encoder.sites.found
    return {
        names[row["parameter"]]: (
            row["kind"],
            sites[row["site"]].text if row["site"] < len(sites) else "",
        )
        for row in found.get("absent", ())
    }


def test_every_parameter_is_told_in_the_model_s_order_with_the_user_s_name(torch: Any) -> None:
    net = network(torch)
    step(torch, net)
    found = told()["parameters"]
    assert [row["name"] for row in found] == [f"model.{path}" for path, _ in net.named_parameters()]
    assert [row["order"] for row in found] == list(range(len(found)))
    assert {row["module"] for row in found} == {found[0]["module"]}
    assert [row["flags"] for row in found] == [int(p.requires_grad) for p in net.parameters()]
    leaves = {row["storage"]: row for row in told()["leaves"]}
    fc = next(row for row in found if row["name"] == "model.enc.fc.weight")
    assert (fc["shape"], fc["dtype"]) == ("4×4", "float32")
    assert leaves[fc["storage"]]["label"] == "model.enc.fc.weight"


def test_each_reason_has_its_line(torch: Any) -> None:
    step(torch, network(torch))
    found = absent()
    assert found["model.enc.scale"] == ("detach", "(x * self.scale).detach()")
    assert found["model.mid.weight"] == ("detach", "middle.detach()")
    assert found["model.aux.bias"] == ("no_grad", "model.aux(hidden)")
    assert found["model.enc.unused.weight"][0] == "unused"
    assert found["model.frozen.weight"] == ("frozen", "")
    assert not found.keys() & {"model.enc.fc.weight", "model.head.weight"}
    texts = {row["kind"]: row for row in told()["absent"]}
    assert "no method of Encoder" in texts["unused"]["text"]
    assert texts["unused"]["repair"] == "use `self.unused` in Encoder.forward"
    assert "remove the detach()" in texts["detach"]["repair"]


def test_a_cut_beside_an_open_way_is_not_to_blame(torch: Any) -> None:
    """What the model gives is detached in one factor alone: the other one has a gradient."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    model.register_parameter("unused", torch.nn.Parameter(torch.ones(4)))
    p = model(torch.ones(3, 4)).sigmoid()
    (torch.log(p) * p.detach().view(p.shape[0], -1)).sum().backward()
    assert absent() == {"model.unused": ("unused", "")}


def test_a_cut_between_parts_of_a_model_is_to_blame(torch: Any) -> None:
    model = torch.nn.ModuleDict({"enc": torch.nn.Linear(4, 4), "dec": torch.nn.Linear(4, 1)})
    h = model["enc"](torch.ones(3, 4))
    model["dec"](h.detach().view(h.size(0), -1)).sum().backward()
    assert absent() == dict.fromkeys(
        ("model.enc.weight", "model.enc.bias"), ("detach", "h.detach()")
    )


def test_steps_of_a_training_tell_nothing_twice(torch: Any) -> None:
    net = network(torch)
    for _ in range(3):
        step(torch, net)
    found = told()
    assert len(found["tasks"]) == 6
    assert len({row["task"] for row in found["absent"]}) == 1
    numbers = [row["parameter"] for row in found["parameters"]]
    assert len(numbers) == len(set(numbers))


def test_a_pass_that_ends_elsewhere_is_looked_at_again(torch: Any) -> None:
    net = network(torch)
    step(torch, net)

    def without_head(model: Any) -> None:
        model(torch.ones(3, 4)).sum().backward()

    without_head(net)
    head = next(r for r in told()["parameters"] if r["name"] == "model.head.weight")
    (row,) = (r for r in told()["absent"] if r["parameter"] == head["parameter"])
    assert row["kind"] == "unused"
    assert row["task"] == max(r["task"] for r in told()["tasks"])


def test_a_module_in_another_one_is_told_once(torch: Any) -> None:
    net = network(torch)
    enc, copy = net.enc, net
    step(torch, net)
    assert enc is copy.enc
    names = [row["name"] for row in told()["parameters"]]
    assert len(names) == len(set(names)) == len(list(net.parameters()))


def test_two_models_are_two_modules(torch: Any) -> None:
    one, two = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    for model in (one, two):
        model(torch.ones(1, 3)).sum().backward()
    modules = {row["name"].partition(".")[0]: row["module"] for row in told()["parameters"]}
    assert modules.keys() >= {"one", "two"}
    assert modules["one"] != modules["two"]


def through_numpy(torch: Any, one: Any, two: Any) -> None:
    hidden = one(torch.ones(2, 3)).relu()
    hidden = torch.from_numpy(hidden.detach().numpy() * 2)
    two(hidden).sum().backward()


def test_what_an_optimizer_trains_beside_the_leaves_is_missed_with_its_line(torch: Any) -> None:
    one, two, other = (torch.nn.Linear(3, 3) for _ in range(3))
    optimizer = torch.optim.SGD([*one.parameters(), *two.parameters()], 0.1)
    apart = torch.optim.SGD(other.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        through_numpy(torch, one, two)
        optimizer.step()
    found = absent()
    assert found == dict.fromkeys(("one.weight", "one.bias"), ("detach", "hidden.detach()")), (
        "the other network has an optimizer of its own"
    )
    assert apart.param_groups
    # A pass of the other one alone misses nothing.
    other(torch.ones(2, 3)).sum().backward()
    assert absent() == found


def test_a_module_that_an_optimizer_trains_and_no_line_cuts_off_is_unused(torch: Any) -> None:
    one, two = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    trained = torch.optim.SGD([*one.parameters(), *two.parameters()], 0.1)
    loss = two(torch.ones(2, 3)).sum()
    shown = one(torch.ones(2, 3)).detach()
    loss.backward()
    assert len(shown) == 2
    assert trained.param_groups
    assert {kind for kind, _ in absent().values()} == {"unused"}


def test_norms_of_values_are_those_of_now(torch: Any) -> None:
    net, plain = network(torch), torch.full((3,), 2.0, requires_grad=True)
    (net.head(net(torch.ones(3, 4))).sum() + plain.sum()).backward()
    found = current().recorder.parameters.weights()
    told()  # storages have their numbers
    by_name = {row["name"]: row["parameter"] for row in told()["parameters"]}
    for path, parameter in net.named_parameters():
        norm = float(np.linalg.norm(parameter.detach().numpy()))
        assert found["parameters"][str(by_name[f"net.{path}"])] == pytest.approx(norm)
    assert list(found["storages"].values()) == [pytest.approx(12**0.5)]
    assert found["left_out"] == 0
    with torch.no_grad():
        net.head.bias[0] = float("nan")
        net.head.weight[0, 0] = float("inf")
    now = current().recorder.parameters.weights()["parameters"]
    assert now[str(by_name["net.head.bias"])] == "NaN"
    assert now[str(by_name["net.head.weight"])] == "Infinity"


def test_norms_for_which_there_is_no_time_are_counted(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = network(torch)
    step(torch, net)
    monkeypatch.setattr(parameters, "WEIGHT_SECONDS", -1.0)
    found = current().recorder.parameters.weights()
    assert found == {
        "parameters": {},
        "storages": {},
        "left_out": len(list(net.parameters())),
    }


def test_a_recording_has_them_and_gives_them_away_without_names_and_values(
    torch: Any,
) -> None:
    net = network(torch)
    step(torch, net)
    whole = current().recording(values=True)
    assert len(whole.record["weights"]["parameters"]) == len(list(net.parameters()))
    assert "model.enc.scale" in whole.strings
    bare = whole.without()
    assert "weights" not in bare.record
    assert bare.rows("parameters") == whole.rows("parameters")
    assert bare.rows("absent") == whole.rows("absent")
    assert not [text for text in bare.strings if "model" in text or "scale" in text]
    assert "detach" in bare.strings


def test_norms_outlast_the_watching_of_torch() -> None:
    model, plain = real.nn.Linear(3, 2), real.full((4,), 3.0, requires_grad=True)
    with ag.watch(real) as watched:
        (model(real.ones(1, 3)).sum() + plain.sum()).backward()
    found = watched.recording.record["weights"]
    assert len(found["parameters"]) == 2
    (storage,) = found["storages"]
    assert found["storages"][storage] == 6.0
    leaves = watched.recording.tables["leaves"]
    assert int(storage) in leaves["storage"]
