"""The package's CuPy code, and the stand-in for CuPy, name nothing that CuPy lacks."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import ag_visual

from ..arrays.strict import SURFACE
from . import stand_in

OWN: dict[str, list[str]] = SURFACE["own"]
CODE = Path(ag_visual.__file__).parent / "arrays" / "cupy.py"
FROM_NUMPY = {"lib", "linalg", "random"}


def known(path: str) -> bool:
    """Whether CuPy has a name: `cupy.cuda.Stream.null`, `cupy.zeros`."""
    inside, _, name = path.rpartition(".")
    if inside == "cupy":
        part = SURFACE["namespaces"][""]
        if name in FROM_NUMPY or name in part["functions"] or name in part["ufuncs"]:
            return True
        return name in part["values"] or name in OWN["cupy"] or name in ("__version__", "ndarray")
    if inside in OWN:
        return name in OWN[inside]
    parts = {f"cupy.{name}": names for name, names in SURFACE["namespaces"].items()}
    if inside in parts:
        return any(name in names for names in parts[inside].values())
    return known(inside)  # of an object that it gives


def chains(tree: ast.AST) -> set[str]:
    """Attributes of `cupy` and `cupyx` that are written out, as dotted names."""
    found = set()
    for node in ast.walk(tree):
        path, at = [], node
        while isinstance(at, ast.Attribute):
            path.append(at.attr)
            at = at.value
        if path and isinstance(at, ast.Name) and at.id in ("cupy", "cupyx"):
            found.add(".".join([at.id, *reversed(path)]))
    return found


def test_the_backend_names_nothing_that_cupy_lacks() -> None:
    found = chains(ast.parse(CODE.read_text(encoding="utf-8")))
    assert {"cupy.cuda.runtime.getDeviceCount", "cupyx.scatter_add", "cupy.asnumpy"} <= found
    unknown = {path for path in found if not known(path)}
    assert {path for path in unknown if not path.startswith("cupyx.scipy")} == set()


def test_a_name_that_cupy_lacks_is_found() -> None:
    assert chains(ast.parse("x = cupy.cuda.Strem.null + cupyx.scatter_mul(1)")) > {
        "cupy.cuda.Strem.null",
        "cupyx.scatter_mul",
    }
    for path in ("cupy.cuda.Strem.null", "cupyx.scatter_mul", "cupy.cuda.Stream.nul", "cupy.nope"):
        assert not known(path), path


@pytest.mark.parametrize("name", OWN)
def test_the_stand_in_offers_nothing_that_cupy_lacks(name: str) -> None:
    last = name.rpartition(".")[2]
    where = getattr(stand_in, last) if last[0].isupper() else stand_in._modules()[name]
    offered = {each for each in vars(where) if not each.startswith("_")}
    unknown = {each for each in offered if not known(f"{name}.{each}")}
    assert unknown <= {"scipy", "current", "note"}, "the last two are its own bookkeeping"
