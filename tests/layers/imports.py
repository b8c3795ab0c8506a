"""Reads who imports whom, in both languages, and says which imports point upward."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# One line per layer, lowest first: a file imports from its own line and the lines before it.
PYTHON_LAYERS = (
    (
        *("absent", "errors", "files", "dtypes", "typing", "sizes", "names", "devices", "layouts"),
        *("paths", "promotion", "torch_version"),
    ),
    ("arrays",),
    ("events",),
    ("core",),
    ("dispatch",),
    ("engine",),
    ("ops",),
    (
        *("amp", "autograd", "cuda", "distributions", "fft", "func", "linalg", "nn", "optim"),
        *("multiprocessing", "random", "serialization", "sparse", "signal", "special", "utils"),
        # What programs ask beside computing: torch's small modules.
        *("_subclasses", "__config__", "__future__", "accelerator", "backends", "bindings"),
        *("compiler", "cpu", "distributed", "eigenpairs", "foreach", "futures", "fx", "hub"),
        *(
            "jit",
            "mps",
            "onnx",
            "overrides",
            "quasirandom",
            "return_types",
        ),
        *("segments", "switches", "testing", "types", "version", "xpu"),
    ),
    # (torch has older names of the profiler in modules below it.)
    ("profiler", "autograd.profiler", "autograd.profiler_util"),
    ("observe",),
    ("session",),
    ("display",),
    # The real torch under observation: the one package that imports it.
    ("bridge",),
    ("", "cli", "__main__"),
)
TYPESCRIPT_LAYERS = (
    ("protocol",),
    ("model",),
    ("layout",),
    ("draw",),
    ("panels",),
    ("host",),
    ("entries", "index"),
)
ORACLE = "torch"
"""The package that only `bridge` imports, and only when somebody asks for it."""

# Packages that only some layers may name: what is below must run in a page without them.
FOREIGN = {
    "@jupyterlab/": ("host", "index"),
    "@lumino/": ("host", "index"),
    "@codemirror/": ("host", "index"),
    "react": ("panels", "host", "entries"),
}

IMPORT = re.compile(
    r"""(?:^|[;\s])(?:import|export)\s[^;'"`]*?\bfrom\s*(['"])(?P<a>[^'"]+)\1"""
    r"""|(?:^|[;\s])import\s*(['"])(?P<b>[^'"]+)\3"""
    r"""|\bimport\s*\(\s*(['"])(?P<c>[^'"]+)\5"""
    r"""|\bnew\s+URL\(\s*(['"])(?P<d>\.[^'"]+)\7""",
    re.MULTILINE,
)
COMMENT = re.compile(r"/\*.*?\*/|(?<![:'\"\w])//[^\n]*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Import:
    """`file` names `target` in line `line`; both are given by the part that has a layer."""

    file: Path
    line: int
    source: str
    target: str


@functools.cache
def import_statements(text: str) -> list[ast.Import | ast.ImportFrom]:
    """All imports of a file with this text; several tests ask for those of the whole package."""
    return [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Import | ast.ImportFrom)]


def layer_of(part: str, layers: tuple[tuple[str, ...], ...]) -> int | None:
    return next((index for index, names in enumerate(layers) if part in names), None)


def python_imports(package: Path) -> Iterator[Import]:
    """Every import of the package's own modules, those in functions and for types included."""
    name = package.name
    for file in sorted(package.rglob("*.py")):
        inner = file.relative_to(package).with_suffix("").parts
        source = "" if inner == ("__init__",) else part_of(inner)
        home = (name, *inner[:-1])
        for node in import_statements(file.read_text()):
            modules: list[str] = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            else:
                base = home[: len(home) - node.level + 1] if node.level else ()
                path = ".".join([*base, *([node.module] if node.module else [])])
                # `from ag_visual import core` names a module, `from ag_visual import sin` the top.
                modules = [f"{path}.{alias.name}" if path == name else path for alias in node.names]
            for module in modules:
                parts = module.split(".")
                if parts[0] == name:
                    found = len(parts) > 1 and is_module(package, parts[1])
                    target = part_of(tuple(parts[1:])) if found else ""
                    yield Import(file, node.lineno, source, target)


def naming_torch(package: Path) -> list[str]:
    """One sentence for each import of the real torch outside of `bridge`."""
    wrong = []
    for file in sorted(package.rglob("*.py")):
        if file.relative_to(package).parts[0] == "bridge":
            continue
        for node in import_statements(file.read_text()):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                named = [node.module]
            wrong += [
                f"{file}:{node.lineno}: imports {name}: only bridge may"
                for name in named
                if name.partition(".")[0] == ORACLE
            ]
    return wrong


def part_of(path: tuple[str, ...]) -> str:
    """What has a layer: the first name of a module's path, or more where these have one."""
    named = {name for names in PYTHON_LAYERS for name in names}
    longer = [".".join(path[:end]) for end in range(len(path), 1, -1)]
    return next((each for each in longer if each in named), path[0])


def circles(package: Path) -> list[str]:
    """The files that import each other around a circle, be it late or for types alone."""
    modules = {}
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package.parent).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = file
    graph: dict[str, set[str]] = {}
    for name, file in modules.items():
        named = graph[name] = set()
        for node in import_statements(file.read_text()):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                named |= {each if each in modules else node.module for each in inner}
        named &= modules.keys() - {name}

    def reached(name: str) -> set[str]:
        found: set[str] = set()
        waiting = [name]
        while waiting:
            new = graph[waiting.pop()] - found
            found |= new
            waiting += new
        return found

    return [name for name in sorted(graph) if name in reached(name)]


def is_module(package: Path, part: str) -> bool:
    return (package / part).is_dir() or (package / f"{part}.py").exists()


def typescript_imports(source: Path) -> Iterator[Import]:
    """Every import between the front end's folders, and of the packages that not all may name."""
    for file in sorted([*source.rglob("*.ts"), *source.rglob("*.tsx")]):
        inner = file.relative_to(source)
        part = inner.parts[0] if len(inner.parts) > 1 else inner.stem
        # Comments become blanks of the same length, so that lines keep their numbers.
        text = COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), file.read_text())
        for found in IMPORT.finditer(text):
            named = next(filter(None, found.group("a", "b", "c", "d")))
            line = text.count("\n", 0, found.start("a" if found["a"] else 0)) + 1
            if named.startswith("."):
                path = (file.parent / named).resolve().relative_to(source.resolve())
                target = path.parts[0] if path.parts else "index"
                yield Import(file, line, part, target)
            else:
                yield Import(file, line, part, named)


def upward(imports: Iterator[Import], layers: tuple[tuple[str, ...], ...]) -> list[str]:
    """One sentence per import that is not allowed, empty when the house stands."""
    wrong = []
    for each in imports:
        where = f"{each.file}:{each.line}"
        own = layer_of(each.source, layers)
        if own is None:
            wrong.append(f"{where}: '{each.source}' has no layer: give it one in {__name__}")
            continue
        other = layer_of(each.target, layers)
        if other is None:
            wrong += foreign(where, each)
        elif other > own:
            wrong.append(
                f"{where}: {each.source or 'the package itself'} (layer {own}) imports "
                f"{each.target or 'the package itself'} (layer {other}), which stands above it"
            )
    return wrong


def foreign(where: str, each: Import) -> list[str]:
    """Imports of packages; a folder of ours that has no layer does not get here by chance."""
    for prefix, allowed in FOREIGN.items():
        named = each.target == prefix or each.target.startswith((prefix, f"{prefix}-"))
        if named and each.source not in allowed:
            return [f"{where}: {each.source} imports {each.target}: only {', '.join(allowed)} may"]
    return []
