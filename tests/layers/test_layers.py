"""Data flows one way: no file imports from a layer above its own, in Python or in TypeScript."""

from __future__ import annotations

from pathlib import Path

import pytest

from .imports import (
    PYTHON_LAYERS,
    TYPESCRIPT_LAYERS,
    circles,
    naming_torch,
    python_imports,
    typescript_imports,
    upward,
)

ROOT = Path(__file__).resolve().parents[2]


def test_python_imports_point_down() -> None:
    imports = list(python_imports(ROOT / "ag_visual"))
    assert len(imports) > 50
    assert upward(iter(imports), PYTHON_LAYERS) == []


def test_only_the_bridge_names_torch(tmp_path: Path) -> None:
    assert naming_torch(ROOT / "ag_visual") == []
    (tmp_path / "bridge").mkdir()
    (tmp_path / "bridge" / "watch.py").write_text("import torch.nn\n")
    assert naming_torch(tmp_path) == []
    (tmp_path / "observe.py").write_text("def f():\n    from torch.nn import Linear\n")
    [sentence] = naming_torch(tmp_path)
    assert "observe.py:2: imports torch.nn: only bridge may" in sentence


def test_no_file_imports_itself_around_a_circle() -> None:
    assert circles(ROOT / "ag_visual") == []


@pytest.mark.parametrize(
    "back",
    [
        "from ag_visual.core.tensor import Tensor",
        "from ag_visual.core import tensor",
        "import ag_visual.core.tensor",
        "def f():\n    from ag_visual.core.tensor import Tensor",
        "if TYPE_CHECKING:\n    from ag_visual.core import tensor",
    ],
)
def test_a_planted_circle_is_found(tmp_path: Path, back: str) -> None:
    package = tmp_path / "ag_visual"
    (package / "core").mkdir(parents=True)
    for name, text in {
        "__init__": "from ag_visual.core import tensor",
        "core/tensor": "from ag_visual.core import node",
        "core/node": "from ag_visual.core import hooks",
        "core/hooks": "import ag_visual.absent",
    }.items():
        (package / f"{name}.py").write_text(text)
    assert circles(package) == []
    (package / "core" / "hooks.py").write_text(back)
    assert circles(package) == [f"ag_visual.core.{n}" for n in ("hooks", "node", "tensor")]


def test_typescript_imports_point_down() -> None:
    imports = list(typescript_imports(ROOT / "extension" / "src"))
    assert len(imports) > 20
    assert upward(iter(imports), TYPESCRIPT_LAYERS) == []


@pytest.mark.parametrize(
    ("file", "line", "told"),
    [
        ("core/tensor.py", "from ag_visual.engine import run", "imports engine"),
        ("core/tensor.py", "from ..engine.run import backward", "imports engine"),
        ("core/tensor.py", "from .. import engine", "imports engine"),
        ("core/tensor.py", "import ag_visual.engine.run as run", "imports engine"),
        ("core/tensor.py", "import ag_visual", "imports the package itself"),
        ("core/tensor.py", "from ag_visual import tensor", "imports the package itself"),
        ("core/tensor.py", "def f():\n    from ..session import watch", "imports session"),
        ("errors.py", "from .core.node import Node", "imports core"),
        ("observe/record/recorder.py", "from ag_visual.session import batches", "imports session"),
        ("strange.py", "from .errors import AutogradError", "'strange' has no layer"),
    ],
)
def test_an_injected_python_import_is_found(
    tmp_path: Path, file: str, line: str, told: str
) -> None:
    package = tmp_path / "ag_visual"
    for folder in ("core", "engine", "observe", "session"):
        (package / folder).mkdir(parents=True)
    (package / "errors.py").write_text("")
    assert upward(python_imports(package), PYTHON_LAYERS) == []
    (package / file).parent.mkdir(parents=True, exist_ok=True)
    (package / file).write_text(f"{line}\n")
    [sentence] = upward(python_imports(package), PYTHON_LAYERS)
    assert told in sentence


@pytest.mark.parametrize(
    ("file", "line", "told"),
    [
        ("model/store.ts", "import { draw } from '../draw/canvas';", "imports draw"),
        ("model/store.ts", "import type { Panel } from '../panels';", "imports panels"),
        ("model/store.ts", "export * from '../layout/ranks';", "imports layout"),
        ("model/store.ts", "import {\n  a,\n  b\n} from '../host/lab';", "imports host"),
        ("model/store.ts", "const late = await import('../panels/index');", "imports panels"),
        ("layout/engine.ts", "new Worker(new URL('../host/worker.js', base));", "imports host"),
        ("draw/canvas.ts", "import { Widget } from '@lumino/widgets';", "only host, index may"),
        ("draw/canvas.ts", "import { useState } from 'react';", "draw imports react"),
        ("panels/index.ts", "import x from '@jupyterlab/services';", "only host, index may"),
        ("host/lab.ts", "import plugin from '..';", "imports index"),
        ("strange/a.ts", "import { a } from '../model/store';", "'strange' has no layer"),
    ],
)
def test_an_injected_typescript_import_is_found(
    tmp_path: Path, file: str, line: str, told: str
) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    allowed = "// import { x } from '../panels';\nimport { y } from '../protocol/schema';\n"
    (tmp_path / "draw").mkdir(exist_ok=True)
    (tmp_path / "draw" / "allowed.ts").write_text(allowed)
    assert upward(typescript_imports(tmp_path), TYPESCRIPT_LAYERS) == []
    (tmp_path / file).write_text(f"{line}\n")
    [sentence] = upward(typescript_imports(tmp_path), TYPESCRIPT_LAYERS)
    assert told in sentence
