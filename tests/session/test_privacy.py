"""A recording that is given away holds nothing of what was to be left out, not in any byte."""

from __future__ import annotations

import gzip
import json

import pytest

import ag_visual as ag
from ag_visual import nn

SECRETS = (
    *("secretvariable", "SecretModule", "secretpart", "secret_function", "secret_hook"),
    *("secretloss", "secret_overwritten", "secret_argument", "Secret words"),
    *("secret_view", "secret_first"),
)


class SecretModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.secretpart = nn.Linear(2, 2)

    def forward(self, x):
        return self.secretpart(x).sigmoid()


class Own(ag.autograd.Function):
    """Secret words about it."""

    @staticmethod
    def forward(ctx, secret_argument):
        return secret_argument * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def secret_hook(grad):
    return grad * 1.0


def secret_function(model, secretvariable):
    secretvariable.register_hook(secret_hook)
    return (Own.apply(model(secretvariable)) * 98765.25).sum()


def secret_view(x):
    return (x * 3).split(1, dim=1)


def secret_first(loss):
    loss.backward()


@pytest.fixture
def held():
    """A program with a module, a hook and a mistake, its graph still alive."""
    model = SecretModule()
    secretvariable = ag.tensor([[43210.5, 2.0]], requires_grad=True)
    with ag.record():
        secretloss = secret_function(model, secretvariable)
        secretloss.backward(retain_graph=True)
        secret_overwritten = (secretvariable * 2).exp()
        secret_overwritten.add_(1)
        with pytest.raises(RuntimeError, match="inplace"):
            secret_overwritten.sum().backward()
        left, _ = secret_view(secretvariable)
        with pytest.raises(RuntimeError, match="multiple views"):
            left.add_(1)
        twice = secretvariable.exp().sum()
        secret_first(twice)
        with pytest.raises(RuntimeError, match="second time"):
            twice.backward()
        yield secretloss, secretvariable, secret_overwritten


def texts(tmp_path, **options):
    """The file and the page, unpacked."""
    packed = ag.save_recording(tmp_path / "given.agv", **options).read_bytes()
    page = ag.save_recording(tmp_path / "given.html", **options).read_text()
    start = page.index('id="ag-visual-recording">')
    yield gzip.decompress(packed).decode()
    yield page[start : page.index("</script>", start)]


def test_without_source_no_name_and_no_text_is_in_it(held, tmp_path):
    for text in texts(tmp_path, source=False):
        found = [secret for secret in (*SECRETS, __file__) if secret in text]
        assert found == []
        assert "SigmoidBackward0" in text
    for text in texts(tmp_path):
        assert [secret for secret in SECRETS if secret not in text] == []


def test_cards_stay_without_text_of_custom_functions(held, tmp_path):
    full = ag.load_recording(ag.save_recording(tmp_path / "full.agv")).record
    given = ag.load_recording(ag.save_recording(tmp_path / "given.agv", source=False)).record
    assert given["card_of"] == full["card_of"]
    changed = [(a, b) for a, b in zip(full["cards"], given["cards"], strict=True) if a != b]
    assert [(a["op"], b["text"]) for a, b in changed] == [("Own", "result = Own.forward(…)")]


def test_without_values_no_number_of_a_tensor_is_in_it(held, tmp_path):
    for text in texts(tmp_path, values=False, source=False):
        assert "43210" not in text
        assert "98765" not in text
        record = json.loads(text.partition(">")[2] if text.startswith("id=") else text)
        assert record["values"] == {}
        assert not record["numbers"]
        assert all(not one["values"] for one in record["details"].values())
    assert "43210" in next(iter(texts(tmp_path)))


def test_what_is_left_opens_and_says_where(held, tmp_path):
    path = ag.save_recording(tmp_path / "given.agv", values=False, source=False)
    opened = ag.load_recording(path)
    full = ag.load_recording(ag.save_recording(tmp_path / "full.agv"))
    assert opened.rows("nodes") == full.rows("nodes")
    [header] = [batch["header"] for batch in opened.record["batches"]]
    assert {site["file"] for site in header["sites"]} <= {"test_privacy.py", ""}
    assert any(site["line"] > 1 for site in header["sites"])
    assert header["problems"]


def test_a_recording_that_was_made_before_is_stripped_too(held, tmp_path):
    full = ag.load_recording(ag.save_recording(tmp_path / "full.agv"))
    path = ag.save_recording(tmp_path / "given.agv", full, values=False, source=False)
    text = gzip.decompress(path.read_bytes()).decode()
    assert [secret for secret in (*SECRETS, "43210", "98765") if secret in text] == []
    assert ag.load_recording(path).rows("hooks") == full.rows("hooks") > 0
