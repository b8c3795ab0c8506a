"""share_memory_: what one process writes, all see; nothing is left of it when they end."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import ag_visual as ag
from ag_visual import multiprocessing

METHODS = [
    m for m in ("spawn", "forkserver", "fork") if m in multiprocessing.get_all_start_methods()
]


def _script(path: Path, text: str) -> str:
    path.write_text(textwrap.dedent(text))
    done = subprocess.run(
        [sys.executable, "-W", "error", path],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("method", METHODS)
def test_hogwild(method: str, tmp_path: Path) -> None:
    """Each process takes steps on the same parameters, which the program sees."""
    told = _script(
        tmp_path / "hogwild.py",
        f"""
        import ag_visual as torch
        import ag_visual.multiprocessing as mp

        def train(rank, model, table):
            assert model.weight.is_shared() and table.is_shared()
            before = model.weight.detach().clone()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.ones(2, 3)).sum().backward()
                optimizer.step()
            assert torch.allclose(model.weight, before - 0.6)
            table[rank] += rank + 1

        if __name__ == "__main__":
            model = torch.nn.Linear(3, 2).share_memory()
            table = torch.zeros(2, 2, dtype=torch.bfloat16).t().contiguous().share_memory_()
            before = model.weight.detach().clone()
            context = mp.get_context("{method}")
            for rank in range(2):
                process = context.Process(target=train, args=(rank, model, table))
                process.start()
                process.join()
                assert process.exitcode == 0
            print(torch.allclose(model.weight, before - 1.2), table.tolist(), model.weight.is_leaf)
        """,
    )
    assert told == "True [[1.0, 1.0], [2.0, 2.0]] True\n"


def test_spawn_hands_on_shared_memory(tmp_path: Path) -> None:
    told = _script(
        tmp_path / "spawned.py",
        """
        import ag_visual as torch
        import ag_visual.multiprocessing as mp

        def work(rank, table, alone):
            table[rank] += 1
            alone += 1

        if __name__ == "__main__":
            table, alone = torch.zeros(2).share_memory_(), torch.zeros(2)
            mp.spawn(work, (table, alone), nprocs=2)
            print(table.tolist(), alone.tolist())
        """,
    )
    assert told == "[1.0, 1.0] [0.0, 0.0]\n"


def test_through_queues_and_back(tmp_path: Path) -> None:
    """The same memory comes back from the other process."""
    told = _script(
        tmp_path / "queues.py",
        """
        import ag_visual as torch
        import ag_visual.multiprocessing as mp

        def doubled(mine, theirs):
            x = mine.get()
            x.mul_(2)
            theirs.put(x)
            mine.get()  # who sends memory must live until it has arrived

        if __name__ == "__main__":
            context = mp.get_context("forkserver")
            mine, theirs = context.Queue(), context.Queue()
            x = torch.arange(6.0).reshape(2, 3).clone().share_memory_()
            process = context.Process(target=doubled, args=(mine, theirs))
            process.start()
            mine.put(x)
            back = theirs.get()
            mine.put(None)
            process.join()
            print(x.tolist())
            back.add_(1)
            print(x[0, 0].item(), x.is_shared(), back.is_shared())
        """,
    )
    assert told == "[[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]\n1.0 True True\n"


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_has_the_values(protocol: int) -> None:
    x = ag.arange(6.0).reshape(2, 3).clone().share_memory_()
    back = pickle.loads(pickle.dumps(x[:, 1:], protocol))
    x.zero_()
    assert back.tolist() == [[1.0, 2.0], [4.0, 5.0]]
    assert not back.is_shared()


def test_what_it_keeps_of_a_tensor() -> None:
    x = ag.arange(6.0).reshape(3, 2).t().clone(memory_format=ag.preserve_format)
    x.requires_grad_()
    values, strides, version = x.tolist(), x.stride(), x._version
    assert not x.is_shared()
    assert x.share_memory_() is x
    assert x.share_memory_() is x
    assert (x.tolist(), x.stride(), x._version, x.requires_grad) == (values, strides, version, True)
    assert x.is_shared()
    assert x[0].is_shared()
    assert x.detach().is_shared()
    assert not (x * 1).is_shared()
    (x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == (2 * x).tolist()
    model = ag.nn.BatchNorm1d(2)
    assert model.share_memory() is model
    assert all(t.is_shared() for t in model.state_dict().values())
    assert ag.zeros(0).share_memory_().is_shared()
    assert ag.tensor(1.0).share_memory_().item() == 1.0


def test_parts_of_other_memory_are_refused_and_who_shares_it_is_warned_of() -> None:
    x = ag.zeros(2, 3)
    with pytest.raises(RuntimeError, match=r"shape \[3\] is a part of other memory"):
        x[0].share_memory_()
    assert not x.is_shared()
    view = x[0]
    with pytest.warns(UserWarning, match="make them afterwards"):
        x.share_memory_()
    x.add_(1)
    assert view.tolist() == [0.0, 0.0, 0.0]
