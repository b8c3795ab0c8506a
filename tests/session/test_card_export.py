"""Cards in recordings: each once, for every node, with numbers where the values are allowed."""

from __future__ import annotations

import time

import ag_visual as ag
from ag_visual.observe.formulas import card_export


def recorded():
    x = ag.tensor([0.5, 2.0], requires_grad=True)
    with ag.record() as found:
        y = x.sin().sin().exp()
        y.sum().backward(retain_graph=True)
    return y, found.recording


def test_equal_nodes_share_a_card_and_have_numbers_of_their_own(tmp_path):
    y, recording = recorded()
    path = recording.save(tmp_path / "cards.json.gz")
    record = ag.load_recording(path).record
    sines = [n for n, d in record["details"].items() if d["name"] == "SinBackward0"]
    assert len({record["card_of"][n] for n in sines}) == 1
    card = record["cards"][record["card_of"][sines[0]]]
    assert card["derivatives"][0]["text"] == "(∂L) / (∂self) = grad · cos(self)"
    texts = {record["numbers"][n]["text"] for n in sines}
    assert texts == {
        "(∂L) / (∂self)[0] = 1 · cos(0.5) = 0.8776",
        "(∂L) / (∂self)[0] = 1 · cos(0.4794) = 0.8873",
    }
    del y


def test_what_else_the_machine_does_leaves_no_numbers_out(monkeypatch):
    plain = card_export.card

    def held_up(node):
        time.sleep(card_export.SECONDS)
        return plain(node)

    monkeypatch.setattr(card_export, "card", held_up)
    y, recording = recorded()
    assert len(recording.record["numbers"]) == 3
    del y


def test_nodes_that_are_gone_have_the_card_of_their_op():
    y, recording = recorded()
    del y
    assert set(recording.record["card_of"]) >= {"SinBackward0", "ExpBackward0", "SumBackward0"}


def test_without_values_there_are_no_numbers():
    from ag_visual.session.session import current

    x = ag.tensor([0.5, 2.0], requires_grad=True)
    with ag.record():
        y = (x * 2.5) ** 3.0
        record = current().recording(values=False).record
    assert record["numbers"] == {}
    assert "2.5" not in str(record["cards"])
    assert all(card["given"] == [] for card in record["cards"])
    del y
