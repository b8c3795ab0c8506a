"""`import torch` on this engine: in a process of its own, because torch itself may be installed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import ag_visual

PATH = str(Path(ag_visual.__file__).resolve().parents[1])


def run(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=cwd,
        env=dict(os.environ, PYTHONPATH=PATH),
    )


def script(folder: Path, text: str) -> str:
    path = folder / "train.py"
    path.write_text(textwrap.dedent(text))
    return str(path)


def under_hook(text: str) -> subprocess.CompletedProcess[str]:
    head = "import ag_visual\nfrom ag_visual.session import as_torch\nas_torch.install()\n"
    return run("-W", "error", "-c", head + textwrap.dedent(text))


def test_unchanged_torch_code_runs(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import sys
        import torch
        from torch import tensor
        from torch.autograd import grad
        import torch.autograd as autograd

        assert torch.nn.Linear(2, 1).weight.shape == (1, 2)
        w = tensor([1.0, 2.0], requires_grad=True)
        (w * w * float(sys.argv[1])).sum().backward()
        assert grad((w * 3).sum(), w)[0].tolist() == [3.0, 3.0]
        assert autograd.grad is grad and torch.autograd is autograd
        print(torch.__name__, w.grad.tolist(), type(w).__module__, __name__, sys.argv[1:])
        """,
    )
    done = run("-m", "ag_visual", path, "0.5", "more")
    assert done.stderr == ""
    assert done.stdout == ("torch [1.0, 2.0] ag_visual.core.tensor __main__ ['0.5', 'more']\n")
    assert done.returncode == 0


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_a_script_begins_get_the_same_torch(tmp_path: Path, method: str) -> None:
    path = script(
        tmp_path,
        f"""
        import torch
        import torch.multiprocessing as mp

        def work(rank, model):
            loss = model(torch.ones(1, 2)).sum()
            loss.backward()
            print(rank, torch.__name__, type(model).__module__, model.weight.grad.tolist())

        if __name__ == "__main__":
            mp.set_start_method({method!r}, force=True)
            begun = mp.Process(target=work, args=(0, torch.nn.Linear(2, 1)))
            begun.start()
            begun.join()
            assert begun.exitcode == 0
        """,
    )
    done = run("-m", "ag_visual", path)
    assert done.stderr == ""
    assert done.stdout == "0 torch ag_visual.nn.linear [[1.0, 1.0]]\n"


def test_gradcheck_is_a_function_and_a_module() -> None:
    """Importing the module leaves the function where it is, as in torch."""
    done = under_hook(
        """
        import torch
        import torch.autograd.gradcheck
        from torch.autograd.gradcheck import GradcheckError

        x = torch.ones(2, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(torch.sin, x)
        assert issubclass(GradcheckError, RuntimeError)
        assert torch.autograd.functional.jacobian(torch.sin, x).shape == (2, 2)
        """
    )
    assert (done.stderr, done.returncode) == ("", 0)


MISSING = [
    ("torch.tensr", "AttributeError", "ag_visual has no torch.tensr. The nearest name"),
    ("torch.tensr", "AttributeError", "torch.tensor"),
    ("torch.autograd.gradd", "AttributeError", "torch.autograd.grad"),
    ("from torch import tensr", "ImportError", "torch.tensor"),
    ("from torch.autograd import gradd", "ImportError", "torch.autograd.grad"),
    ("import torch.autogradd", "ImportError", "torch.autograd"),
    ("import torch.core", "ImportError", "ag_visual has no torch.core"),
    ("torch.observe", "AttributeError", "ag_visual has no torch.observe"),
    ("torch.qqqqqqqq", "AttributeError", "No name here is like it"),
]


def test_a_missing_name_says_so_and_names_the_nearest() -> None:
    # All in one process, each as a program of its own that ends in its error.
    done = under_hook(
        f"""
        import sys, torch
        for line in {[line for line, _, _ in MISSING]!r}:
            try:
                exec(compile(line, "train.py", "exec"), {{"torch": torch}})
            except Exception:
                sys.excepthook(*sys.exc_info())
                print("end of", line, file=sys.stderr)
        """
    )
    assert done.returncode == 0, done.stderr
    rest = done.stderr
    for line, error, message in MISSING:
        own, end, rest = rest.partition(f"end of {line}\n")
        assert end, f"{line} raised nothing"
        last = own.strip().splitlines()[-1]
        assert last.startswith(f"{error}: ")
        assert message in last


def test_the_aliased_modules_stay_themselves() -> None:
    done = under_hook(
        """
        import importlib, torch, torch.autograd
        assert ag_visual.__spec__.name == ag_visual.__name__ == "ag_visual"
        assert ag_visual.autograd.__spec__.name == "ag_visual.autograd"
        assert torch.Tensor is ag_visual.Tensor
        assert not hasattr(torch, "quantization")
        import torch.backends.cudnn, torch.nn.modules.conv
        assert torch.backends.cudnn is ag_visual.backends.cudnn
        assert ag_visual.backends.cudnn.__spec__.name == "ag_visual.backends.cudnn"
        as_torch.install()
        as_torch.uninstall()
        assert "torch" not in __import__("sys").modules
        assert "torch.nn.modules" not in __import__("sys").modules
        """
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_real_torch_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("__version__ = '9.9'\n")
    done = run(
        "-c",
        "import torch, ag_visual; from ag_visual.session import as_torch; as_torch.install()",
        cwd=tmp_path,
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("RuntimeError: torch 9.9 is already imported in this process")
    assert "Restart the kernel" in last


def test_an_error_in_the_script_shows_the_script_alone(tmp_path: Path) -> None:
    path = script(tmp_path, "import torch\ndef f():\n    raise ValueError('mine')\nf()\n")
    done = run("-m", "ag_visual", path)
    assert done.returncode == 1
    lines = done.stderr.strip().splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].strip().startswith(f'File "{path}", line 4')
    assert lines[-1] == "ValueError: mine"
    assert "ag_visual/cli" not in done.stderr


def test_a_script_that_changes_its_folder_finds_its_own_files(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "beside.py").write_text("value = 3\n")
    code = "import os, sys\nos.chdir('/')\nimport beside\nprint(__file__, sys.path[0])\n1 / 0\n"
    script(tmp_path / "mine", code)
    (tmp_path / "link.py").symlink_to(tmp_path / "mine" / "train.py")
    for name in (Path("mine") / "train.py", Path("link.py")):
        done = run("-m", "ag_visual", str(name), cwd=tmp_path)
        assert done.stdout.split() == [str(tmp_path / name), str((tmp_path / "mine").resolve())]
        assert "    1 / 0\n" in done.stderr, "its lines are still found"


def test_a_module_of_a_package_runs_by_its_name(tmp_path: Path) -> None:
    package = tmp_path / "net"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("from .train import go\ngo()\n")
    (package / "train.py").write_text(
        "import sys, torch\n"
        "def go():\n    print(__name__, 'ag_visual' in torch.__file__, sys.argv[1:], sys.path[0])\n"
        "if __name__ == '__main__':\n    from . import train\n    train.go()\n    1 / 0\n"
    )
    done = run("-m", "ag_visual", "-m", "net", "-m", cwd=tmp_path)
    assert (done.stdout, done.stderr) == (f"net.train True ['-m'] {tmp_path}\n", "")
    failed = run("-m", "ag_visual", "-m", "net.train", cwd=tmp_path)
    assert failed.stdout.startswith("net.train True [] ")
    assert failed.stderr.count("File ") == 1
    assert failed.returncode == 1
    command = "import sys; from ag_visual.cli import main; sys.exit(main())"
    assert run("-c", command, "run", "-m", "net", "-m", cwd=tmp_path).stdout == done.stdout
    missing = run("-m", "ag_visual", "-m", "nets", cwd=tmp_path)
    assert missing.stderr == "ImportError: No module named nets\n"
    assert "-m runs a package" in run("-m", "ag_visual", "net", cwd=tmp_path).stderr


def test_exit_codes_are_the_scripts_own(tmp_path: Path) -> None:
    assert run("-m", "ag_visual", script(tmp_path, "raise SystemExit(7)\n")).returncode == 7


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["missing.py"], "missing.py: no such file"),
        (["."], "is a folder"),
        (["profile", "x.py"], "profile: no such file (the command is `ag-visual profile`)"),
        (["-m"], "-m wants the name of a module"),
        ([], "usage: python -m ag_visual script.py"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(
    tmp_path: Path, words: list[str], told: str
) -> None:
    done = run("-m", "ag_visual", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
