"""Windows emulated by Wine: the runtime and programs built with MinGW, and their execution."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import tvmrt

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "examples" / "digits"
COMPILER = "x86_64-w64-mingw32-gcc"
# C tests of library loading, threads, file writing and calls.
C_TESTS = ("executors", "thread_stress", "invalid_calls")
FIXTURES = ("graph", "const", "flat", "aot", "aot_pools", "plain", "llvm")


def need(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


def compile_network(name: str, folder: Path, **options) -> Path:
    need(COMPILER)
    path = folder / f"{name}.dll"
    tvmrt.compile(DIGITS / f"{name}.onnx", target="x86_64-windows", **options).export(path)
    return path


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build the runtime, the C example program and some C tests; return the folder."""
    need(f"{COMPILER}-posix", "meson", "ninja", "wine")
    build = tmp_path_factory.mktemp("windows")
    cross = str(ROOT / "packaging" / "cross" / "x86_64-windows.ini")
    setup = ["meson", "setup", str(build), str(ROOT), "--cross-file", cross, "-Dpython=disabled"]
    subprocess.run([*setup, "--buildtype=plain"], check=True, stdout=subprocess.DEVNULL)
    programs = ["run_network", *(f"test_{name}" for name in C_TESTS)]
    files = [f"{name}.exe" for name in programs] + [f"fixture_{name}.dll" for name in FIXTURES]
    table = (build / "src_runtime" / "plugins.txt").read_text().splitlines()
    plugins = sorted({line.split()[1] for line in table if line and line[0] != "#"})
    targets = [*(f"tests/c/{f}" for f in files), *(f"src_runtime/{name}" for name in plugins)]
    subprocess.run(["ninja", "-C", str(build), *targets], check=True)
    return build


@pytest.fixture(scope="module")
def wine(built, tmp_path_factory):
    """Run a program in Wine and return its output."""
    prefix = tmp_path_factory.mktemp("wine")
    libraries = [
        built / "src_runtime",
        *sorted(Path("/usr/lib/gcc/x86_64-w64-mingw32").glob("*-posix")),
    ]
    path = ";".join(f"Z:{folder}" for folder in [*libraries, Path("/usr/x86_64-w64-mingw32/lib")])
    variables = {"WINEPREFIX": str(prefix), "WINEDEBUG": "-all", "WINEPATH": path}
    variables["TMPDIR"] = str(prefix)  # where Wine leaves the folder of its socket
    for fixture in (built / "tests" / "c").glob("fixture_*.dll"):
        variables[fixture.stem.upper()] = str(fixture)

    def run(*command: str, code: int = 0, level: str = "") -> str:
        done = subprocess.run(
            ["wine", *command],
            env={**run.environment, "TVMRT_LEVEL": level},
            capture_output=True,
            timeout=600,
            check=False,
        )
        said = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
        assert done.returncode == code, said
        return said.replace("\r", "")

    run.environment = {**os.environ, **variables}
    subprocess.run(["wineboot", "--init"], env=run.environment, capture_output=True, check=False)
    yield run
    subprocess.run(["wineserver", "-k"], env=run.environment, check=False)
