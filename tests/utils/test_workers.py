"""DataLoader with worker processes: what comes, in which order, from which seeds, which errors."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.multiprocessing import transfer
from ag_visual.utils.data import worker, workers
from tests.oracle import torch
from tests.utils.datasets import Numbers, Rows, Seen, facts

CHECKOUT = str(Path(__file__).resolve().parents[2])

# From 3.12 on Python warns of a fork beside other threads, which a test before may have left.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")

if hasattr(torch, "utils"):

    class TorchNumbers(torch.utils.data.IterableDataset):  # type: ignore[misc]
        """`Numbers` for torch's loader."""

        __init__ = Numbers.__init__

        def __iter__(self) -> Any:
            info = torch.utils.data.get_worker_info()
            if info is None or not self.shared:
                return iter(range(self.size))
            return iter(range(info.id, self.size, info.num_workers))


@pytest.fixture(autouse=True)
def _found_by_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker imports the datasets from the checkout, which pytest does not put on the path."""
    monkeypatch.syspath_prepend(CHECKOUT)


def loader(t: Any, dataset: Any, **options: Any) -> Any:
    made = sys.modules[f"{t.__name__}.utils.data"].DataLoader
    return made(dataset, num_workers=2, **options)


def plain(value: Any) -> Any:
    """A batch as lists."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return [str(value.dtype), value.tolist()] if hasattr(value, "dtype") else value


def rows(t: Any, **options: Any) -> Rows:
    return Rows(t.__name__, **options)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 3, "prefetch_factor": 1},
        {"batch_size": 4, "drop_last": True, "persistent_workers": True},
        {"batch_size": None, "sampler": [4, 2, 2]},
    ],
)
def test_batches_are_those_of_one_process_and_of_torch(options: dict[str, Any]) -> None:
    def found(t: Any) -> Any:
        batches = loader(t, rows(t), **options)
        return [len(batches), *(plain(list(batches)) for _ in range(2))]

    expected = found(torch)
    assert found(ag) == expected
    one = dict(options, prefetch_factor=None, persistent_workers=False)
    here = sys.modules["ag_visual.utils.data"].DataLoader(rows(ag), **one)
    assert plain(list(here)) == expected[1]


@pytest.mark.oracle
@pytest.mark.parametrize(
    "options", [{"batch_size": 2}, {"batch_size": 2, "drop_last": True}, {"batch_size": None}]
)
def test_streams_are_divided_as_in_torch(options: dict[str, Any]) -> None:
    for shared in (True, False):
        ours = list(loader(ag, Numbers(11, shared), **options))
        theirs = list(loader(torch, TorchNumbers(11, shared), **options))
        assert plain(ours) == plain(theirs)


def known(**options: Any) -> list[dict[str, Any]]:
    made = loader(ag, Seen(), batch_size=None, worker_init_fn=facts, **options)
    return [json.loads(text) for text in made]


def test_seeds_and_what_a_worker_knows() -> None:
    ag.manual_seed(5)
    first = known()
    after = ag.rand(1).item()
    assert [each["id"] for each in first] == [0, 1, 0, 1]
    assert all(each["init"] == each["id"] and each["of"] == 2 for each in first)
    base = first[0]["seed"]
    assert first[1]["seed"] == base + 1
    for each in first[:2]:
        random.seed(base + each["id"])
        state = numpy.random.RandomState(worker.numpy_seed(base, each["id"]))
        drawn = ag.Generator().manual_seed(base + each["id"])
        expected = [random.random(), state.rand(), ag.rand(1, generator=drawn).item()]
        assert each["draws"] == pytest.approx(expected)
    assert all(each["here"] == [] and not each["recorded"] for each in first)
    ag.manual_seed(5)
    again = known(multiprocessing_context="fork")
    assert [each["draws"] for each in again] == [each["draws"] for each in first]
    assert ag.rand(1).item() == after
    g = ag.Generator().manual_seed(7)
    seeds = [known(generator=g)[0]["seed"] for _ in range(2)]
    assert seeds[0] != seeds[1] != base


@pytest.mark.oracle
def test_numpy_is_seeded_as_torch_seeds_it() -> None:
    theirs = sys.modules["torch.utils.data._utils.worker"]._generate_state
    for base, number in ((0, 0), (123, 4), (2**40 + 17, 1), (2**63 - 2, 7)):
        assert worker.numpy_seed(base, number).tolist() == theirs(base, number)


def test_persistent_workers_stay_and_begin_again_in_the_middle() -> None:
    made = loader(ag, rows(ag), batch_size=2, persistent_workers=True)
    whole = plain(list(made))
    processes = {process.pid for process in made._workers.processes}
    half = iter(made)
    next(half)
    assert plain(list(made)) == whole
    assert next(half, None) is None
    assert {process.pid for process in made._workers.processes} == processes
    made._workers.close()
    assert plain(list(made)) == whole
    stream = loader(ag, Numbers(5), batch_size=2, persistent_workers=True)
    assert [plain(list(stream)) for _ in range(2)] == [plain(list(stream))] * 2


def test_without_order_all_batches_come() -> None:
    made = loader(ag, rows(ag), batch_size=2, in_order=False)
    assert sorted(batch[0]["i"].tolist() for batch in made) == [[i, i + 1] for i in range(0, 10, 2)]


def told(error: BaseException) -> list[str]:
    """Class and text, without the lines of files."""
    lines = str(error).splitlines()
    return [type(error).__name__, lines[0], lines[-1]]


@pytest.mark.oracle
@pytest.mark.parametrize("way", ["value", "key", "odd"])
def test_an_error_of_a_worker_is_torchs_and_the_next_batch_comes(way: str) -> None:
    def story(t: Any) -> list[Any]:
        batches = iter(loader(t, rows(t, size=8, wrong={2: way}), batch_size=2))
        found = [plain(next(batches)[1])]
        with pytest.raises(Exception) as caught:
            next(batches)
        text = str(caught.value)
        assert "Original Traceback (most recent call last):" in text
        assert "in __getitem__" in text
        return [*found, told(caught.value), plain(next(batches)[1])]

    assert story(ag) == story(torch)


@pytest.mark.parametrize(
    ("way", "phrase"),
    [
        ("kill", r"worker \(pid\(s\) \d+\) exited unexpectedly: it is killed by signal: Killed"),
        ("exit", r"worker \(pid\(s\) \d+\) exited unexpectedly with exit code 3"),
        ("slow", "DataLoader timed out after 2 seconds"),
    ],
)
def test_a_worker_that_is_gone_or_slow_is_told(way: str, phrase: str) -> None:
    made = loader(ag, rows(ag, wrong={0: way}), batch_size=2, timeout=2 if way == "slow" else 0)
    batches = iter(made)
    with pytest.raises(RuntimeError, match=phrase):
        next(batches)


def test_what_cannot_be_sent_is_used_here_and_told_once() -> None:
    made = loader(ag, rows(ag), batch_size=5, collate_fn=lambda samples: len(samples))
    with pytest.warns(UserWarning, match="made in this process: .*lambda.*'fork'"):
        assert list(made) == [5, 5]
    assert list(made) == [5, 5]  # said once
    made = loader(ag, rows(ag), collate_fn=lambda x: 1, multiprocessing_context="spawn")
    with pytest.raises(workers.CannotSend, match="lambda"):
        list(made)
    made = loader(
        ag, rows(ag), batch_size=5, collate_fn=lambda x: len(x), multiprocessing_context="fork"
    )
    assert list(made) == [5, 5]


def test_a_recording_says_once_that_workers_are_no_part_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "_warned", set())
    monkeypatch.setattr(worker.instrument, "gate", lambda *given: given[-1])
    with pytest.warns(UserWarning, match="not recorded"):
        list(loader(ag, Seen(), multiprocessing_context="fork"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        list(loader(ag, Seen(), multiprocessing_context="fork"))


@pytest.mark.oracle
@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": 0, "prefetch_factor": 2},
        {"num_workers": 2, "prefetch_factor": -1},
        {"num_workers": 0, "persistent_workers": True},
        {"num_workers": 0, "multiprocessing_context": "fork"},
        {"num_workers": 1, "multiprocessing_context": "thread"},
        {"num_workers": 1, "multiprocessing_context": 3},
        {"num_workers": 1, "timeout": -1},
    ],
)
def test_bad_options_of_workers(options: dict[str, Any]) -> None:
    def outcome(t: Any) -> tuple[str, str]:
        with pytest.raises((ValueError, TypeError)) as caught:
            sys.modules[f"{t.__name__}.utils.data"].DataLoader(range(3), **options)
        return type(caught.value).__name__, str(caught.value)[:60]

    assert outcome(ag) == outcome(torch)


# Programs of their own ----------------------------------------------------------------------------

SCRIPT = """
import os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 6
    def __getitem__(self, i):
        if SLOW:
            os.write(2, b"%d\\n" % os.getpid())  # one write: the other worker's come between
            time.sleep(60)
        return torch.full((300, 300), i * i)

SLOW = len(sys.argv) > 1
print("begun")
for batch in DataLoader(Squares(), 3, num_workers=2):
    print(batch[:, 0, 0].tolist())
"""


def script(folder: Path, *words: str, text: str = SCRIPT) -> list[str]:
    path = folder / "program.py"
    path.write_text(text)
    return [sys.executable, "-m", "ag_visual", str(path), *words]


def test_a_script_without_a_guard_has_workers(tmp_path: Path) -> None:
    """Its main module is imported by them as far as its loop, under the alias torch."""
    done = subprocess.run(script(tmp_path), capture_output=True, text=True, timeout=600)
    assert done.stdout == "begun\n[0, 1, 4]\n[9, 16, 25]\n"
    assert done.stderr == ""


def test_a_program_on_the_command_line_falls_back() -> None:
    text = SCRIPT.replace("import torch\n", "import ag_visual as torch\n").replace(
        "from torch", "from ag_visual"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=600, check=True
    )
    assert done.stdout == "begun\n[0, 1, 4]\n[9, 16, 25]\n"
    assert "__main__), which another process cannot import" in done.stderr


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def until(true: Callable[[], bool]) -> None:
    limit = time.monotonic() + 600
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc and /dev/shm")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_program_that_ends(how: signal.Signals, tmp_path: Path) -> None:
    before = set(os.listdir("/dev/shm"))
    process = subprocess.Popen(
        script(tmp_path, "slow"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stdout is not None
    pids = [int(process.stderr.readline()) for _ in range(2)]
    assert all(map(alive, pids))
    process.send_signal(how)
    process.wait(600)
    until(lambda: not any(map(alive, pids)))
    process.stdout.close()
    process.stderr.close()
    # Those of tests in other processes come and go; one that was left would stay.
    left = set(os.listdir("/dev/shm")) - before
    until(lambda: left.isdisjoint(os.listdir("/dev/shm")))


SPAWNED = """
import torch
import torch.multiprocessing as mp

def work(rank, queue, x):
    queue.put((rank, x.sum().item()))
    if rank == 1:
        raise ValueError("of two")

queue = mp.get_context("spawn").SimpleQueue()
try:
    mp.spawn(work, (queue, torch.ones(3)), nprocs=2)
except mp.ProcessRaisedException as error:
    print(error.error_index, str(error).splitlines()[2], str(error).splitlines()[-1])
print(queue.get()[1])
"""


def test_spawn(tmp_path: Path) -> None:
    words = script(tmp_path, text=SPAWNED)
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.stdout.splitlines() == [
        "1 -- Process 1 terminated with the following error: ValueError: of two",
        "3.0",
    ]


@pytest.mark.parametrize(
    ("module", "name"),
    [(workers, "Channel"), (workers.contextlib, "suppress"), (workers.time, "monotonic")],
)
def test_an_interrupt_leaves_no_process(
    module: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right after a process was started; when it is told to end; when its pipes are closed."""
    before = set(multiprocessing.active_children())
    original, calls = getattr(module, name), []

    def once(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return original(*args)

    epoch = loader(ag, Rows("ag_visual"), multiprocessing_context="fork")
    monkeypatch.setattr(module, name, once)
    with pytest.raises(KeyboardInterrupt):
        list(epoch)
    monkeypatch.undo()
    assert calls
    assert set(multiprocessing.active_children()) <= before


def test_an_interrupt_of_a_copy_is_no_other_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that is being written to can be closed."""

    def places(*args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt

    packed = transfer.Packed([1])
    monkeypatch.setattr(transfer, "zip", places, raising=False)
    with pytest.raises(KeyboardInterrupt):
        packed.file()


def test_a_worker_whose_end_nobody_heard_of_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an interrupt comes just after the system has told of it, and tells nobody again."""
    waited = os.waitpid

    def lost(*args: Any) -> Any:
        found = waited(*args)
        if found[0] and not gone:
            gone.append(found)
            raise KeyboardInterrupt
        return found

    gone: list[Any] = []
    epoch = loader(ag, Rows("ag_visual"), multiprocessing_context="fork")
    monkeypatch.setattr(os, "waitpid", lost)
    with pytest.raises(KeyboardInterrupt):
        list(epoch)
    assert gone
