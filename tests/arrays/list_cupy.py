"""Writes cupy_surface.json: the names, keywords and types of ufuncs that CuPy and NumPy 2 have.

Run as `python tests/arrays/list_cupy.py` where CuPy can be imported; no GPU is needed. Names are
read from the library itself; the few signatures that it hides behind **kwargs are given below.
With `--too` what is there already is kept as far as this version has it, too: what is listed then
is what all versions have.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import numpy

HERE = Path(__file__).parent
NAMESPACES = ("", "linalg", "fft", "random", "lib.stride_tricks")

# Whose own names are listed besides: what moves data, counts memory and has streams.
OWN = (
    *("cupy", "cupy.cuda", "cupy.cuda.runtime", "cupy.random", "cupyx"),
    *("cupy.cuda.Device", "cupy.cuda.Event", "cupy.cuda.MemoryPool", "cupy.cuda.Stream"),
)
# Names that a module makes when they are first asked for.
LATE = {"cupy.random": ("Generator",)}
# Read in CuPy's source: what the function pops from its **kwargs.
HIDDEN = {
    "einsum": "*operands, dtype, optimize",
    "matmul": "x1, x2, /, out, *, casting, dtype, axes",
    "meshgrid": "*xi, indexing, sparse, copy",
    "pad": "array, pad_width, mode, *, constant_values, end_values, stat_length, reflect_type",
}
# Files, printing and Python code run per element: no kernel may use them.
REFUSED = {
    "array2string", "array_repr", "array_str", "apply_along_axis", "asnumpy", "base_repr",
    "binary_repr", "disp", "format_float_positional", "format_float_scientific", "frombuffer",
    "fromfile", "fromfunction", "fromiter", "fromstring", "genfromtxt", "get_printoptions",
    "iterable", "load", "loadtxt", "printoptions", "save", "savetxt", "savez", "savez_compressed",
    "set_printoptions", "typename", "vectorize", "bytes", "get_state", "set_state",
}  # fmt: skip


def parameters(text: str) -> str:
    """'a, axis=None, *, dtype=None' -> 'a, axis, *, dtype'."""
    names = []
    depth = 0
    word = ""
    for letter in text + ",":
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            name = word.partition("=")[0].partition(":")[0].split()
            if name and name[-1] not in ("self", "cls"):
                names.append(name[-1])
            word = ""
        else:
            word += letter
    return ", ".join(names)


def signature(function: Any) -> str | None:
    """The parameter names, from the signature or from the first line of a compiled docstring."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        line = (function.__doc__ or "").partition("\n")[0]
        inside = line.partition("(")[2].rpartition(")")[0]
        return parameters(inside) if "(" in line else None
    return ", ".join(_starred([p for p in found.parameters.values() if p.name != "self"]))


def _starred(found: list[inspect.Parameter]) -> list[str]:
    kinds = inspect.Parameter
    names: list[str] = []
    for p in found:
        if p.kind is kinds.KEYWORD_ONLY and not any(n.startswith("*") for n in names):
            names.append("*")
        prefix = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(p.kind, "")
        names.append(prefix + p.name)
    return names


def public(module: Any) -> list[str]:
    return sorted(name for name in dir(module) if not name.startswith("_"))


def namespace(cupy_part: Any, numpy_part: Any, ufunc: type) -> dict[str, dict[str, Any]]:
    functions: dict[str, str] = {}
    ufuncs: dict[str, str] = {}
    values: list[str] = []
    for name in public(cupy_part):
        if name in REFUSED or not hasattr(numpy_part, name):
            continue
        found = getattr(cupy_part, name)
        if isinstance(found, ufunc):
            ufuncs[name] = " ".join(loop for loop in found.types if "V" not in loop)
        elif inspect.ismodule(found):
            continue
        elif isinstance(found, type):
            if found is getattr(numpy_part, name):
                values.append(name)
        elif callable(found):
            text = HIDDEN.get(name) or signature(found)
            if text is not None:
                functions[name] = text
        elif isinstance(found, (int, float)) or found is None:
            values.append(name)
    return {"functions": functions, "ufuncs": ufuncs, "values": values}


def surface() -> dict[str, Any]:
    cupy = importlib.import_module("cupy")
    special = importlib.import_module("cupyx.scipy.special")
    scipy_special = importlib.import_module("scipy.special")
    result: dict[str, Any] = {"version": cupy.__version__, "namespaces": {}}
    for name in NAMESPACES:
        parts = (cupy, numpy)
        for step in filter(None, name.split(".")):
            parts = (getattr(parts[0], step), getattr(parts[1], step))
        result["namespaces"][name] = namespace(*parts, cupy.ufunc)
    result["special"] = namespace(special, scipy_special, cupy.ufunc)
    methods: dict[str, str] = {}
    attributes: list[str] = []
    for name in public(cupy.ndarray):
        found = getattr(cupy.ndarray, name)
        if callable(found):
            if hasattr(numpy.ndarray, name) or name in ("get",):
                methods[name] = signature(found) or ""
        elif hasattr(numpy.ndarray, name):
            attributes.append(name)
    result["ndarray"] = {"methods": methods, "attributes": attributes}
    flags = importlib.import_module("cupy._core.flags").Flags
    result["flags"] = [name for name in public(flags) if hasattr(numpy.empty(0).flags, name)]
    generator = importlib.import_module("cupy.random._generator_api").Generator
    result["generator"] = {
        name: signature(getattr(generator, name))
        for name in public(generator)
        if hasattr(numpy.random.Generator, name)
    }
    result["own"] = {name: own(name) for name in OWN}
    return result


def own(path: str) -> list[str]:
    """The public names of a module or class that NumPy has not."""
    found: Any = importlib.import_module(path.partition(".")[0])
    for step in path.split(".")[1:]:
        found = getattr(found, step)
    names = {*public(found), *(name for name in LATE.get(path, ()) if hasattr(found, name))}
    return [name for name in sorted(names) if path != "cupy" or not hasattr(numpy, name)]


def common(old: Any, new: Any, path: str = "") -> Any:
    """What two surfaces have both. Types of a ufunc that differ stand side by side: `new | old`."""
    if isinstance(new, dict):
        both = [name for name in new if name in old]
        return {name: common(old[name], new[name], f"{path}/{name}") for name in both}
    if isinstance(new, list):
        return [name for name in new if name in old]
    if old == new:
        return new
    if path == "/version":
        return f"{old}, {new}"
    return f"{new} | {old}" if "/ufuncs/" in path else _parameters_of_both(old, new)


def _parameters_of_both(old: str, new: str) -> str:
    """By position as long as they are the same ones, by name what stands elsewhere."""
    a, b = old.split(", "), new.split(", ")
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))
    named = [name for name in b[same:] if name in a and name not in ("*", "/")]
    star = ["*"] if named and "*" not in b[:same] else []
    return ", ".join([*b[: min(same, len(b))], *star, *named])


if __name__ == "__main__":
    there, found = HERE / "cupy_surface.json", surface()
    if "--too" in sys.argv:
        found = common(json.loads(there.read_text(encoding="utf-8")), found)
    text = json.dumps(found, indent=1, sort_keys=True)
    there.write_text(text + "\n", encoding="utf-8")
