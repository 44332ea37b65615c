"""Copies of the source tree without some plug-ins, each installed into its own environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_SCRIPT = "import sys\nfrom tvmrt.cli import main\nsys.exit(main())\n"


@dataclass(frozen=True)
class Tree:
    """A copy of the sources, and a Python environment with it installed."""

    folder: Path
    python: Path

    def run(self, *words: str | Path, timeout: int = 900) -> subprocess.CompletedProcess[str]:
        """Run this tree's Python with these arguments in the folder of the tree."""
        command = [str(self.python), *map(str, words)]
        inherited = Path(sys.executable).parent
        path = os.pathsep.join([str(self.python.parent), str(inherited), os.environ["PATH"]])
        env = {**os.environ, "PATH": path, "CCACHE_NOHASHDIR": "1"}
        for name in ("PYTHONPATH", "PYTEST_ADDOPTS", "TVMRT_PLUGINS", "TVMRT_TIME_LIMITS"):
            env.pop(name, None)
        env = {name: value for name, value in env.items() if not name.startswith("PYTEST_XDIST")}
        return subprocess.run(
            command, cwd=self.folder, env=env, timeout=timeout, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def ran(self, *words: str | Path, timeout: int = 900) -> str:
        """Run Python successfully and return its output."""
        done = self.run(*words, timeout=timeout)
        assert done.returncode == 0, f"{words}:\n{done.stdout[-20_000:]}"
        return done.stdout


@cache
def sources() -> tuple[str, ...]:
    """Return the repository's files that are present and not ignored; none without git."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    names = [name for name in done.stdout.split("\0") if name]
    return tuple(name for name in names if (ROOT / name).is_file())


def copied(folder: Path, without: tuple[str, ...]) -> Path:
    """Copy the sources without the given folders into a new repository."""
    skipped = tuple(f"{name}/" for name in without)
    for name in sources():
        if not name.startswith(skipped):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def installed(folder: Path, environment: Path, cross: tuple[str, ...] = ()) -> Tree:
    """Build the tree and install it into a new environment with the packages of this one.

    Without pip and network access: ``meson install`` puts the package where pip would.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    scheme = {"base": str(environment), "platbase": str(environment)}
    site = Path(
        sysconfig.get_path(
            "purelib", "venv" if "venv" in sysconfig.get_scheme_names() else "posix_prefix", scheme
        )
    )
    python = environment / "bin" / "python"
    tree = Tree(folder, python)
    # added to the path, so that .pth files of editable installations are not read
    (site / "inherited.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    meson = shutil.which("meson")
    assert meson is not None
    ninja = str(folder / "build")
    for words in (
        ["setup", ninja, str(folder), "-Dpython=enabled", "-Dtests=disabled", *cross],
        ["compile", "-C", ninja],
        ["install", "-C", ninja, "--no-rebuild", "--destdir", str(environment / "stage")],
    ):
        done = tree.run("-c", _MESON, meson, *words)
        assert done.returncode == 0, done.stdout
    (package,) = (environment / "stage").rglob("*-packages/tvmrt")
    shutil.move(str(package), site / "tvmrt")
    shutil.rmtree(environment / "stage")
    version = (folder / "python" / "tvmrt" / "VERSION").read_text(encoding="utf-8").strip()
    info = site / f"tvmrt-{version}.dist-info"
    info.mkdir()
    metadata_text = metadata.distribution("tvmrt").read_text(
        "METADATA"
    )  # from the same pyproject.toml
    (info / "METADATA").write_text(metadata_text or "", encoding="utf-8")
    script = environment / "bin" / "tvmrt"
    script.write_text(f"#!{python}\n{_SCRIPT}", encoding="utf-8")
    script.chmod(0o755)
    return tree


# The build takes the package folder from the Python that runs meson.
_MESON = (
    "import sys; sys.argv = sys.argv[1:]; from mesonbuild.mesonmain import main; sys.exit(main())"
)
