"""Sources and the tests nearest to them, for ``tests/mutation`` and ``./run test --changed``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
COMPILER = "python/tvmrt/compiler"


@dataclass(frozen=True)
class Package:
    """Sources that are changed, and the tests of them, nearest folders first."""

    sources: Sequence[str]
    tests: Sequence[str]


PACKAGES = {
    "ir": Package([f"{COMPILER}/ir/**/*.py"], ["tests/python/ir", "tests/python/dims"]),
    "transform": Package([f"{COMPILER}/transform/*.py"], ["tests/python/transform"]),
    "planner": Package(
        [f"{COMPILER}/planner/*.py"], ["tests/python/planner", "tests/python/transform"]
    ),
    "frontend": Package(
        [f"{COMPILER}/frontend/**/*.py"], ["tests/python/frontend", "tests/python/ops"]
    ),
    "codegen": Package(
        [f"{COMPILER}/codegen/**/*.py"], ["tests/python/codegen", "tests/python/kernels"]
    ),
    "partition": Package([f"{COMPILER}/partition/*.py"], ["tests/python/devices"]),
    "kernels": Package(["include/tvm/runtime/kernels/**/*.h"], ["tests/python/kernels"]),
    "src_runtime": Package(
        ["src_runtime/**/*.c", "src_backend/*.c"], ["tests/python/runtime", "tests/compat"]
    ),
    "readers": Package(
        [f"src_runtime/{name}.c" for name in ("base/*", "firmware/graph/*", "executors/graph*")],
        ["tests/compat", "tests/python/fuzz", "tests/python/runtime"],
    ),
}  # fmt: skip


def tests_of(package: Package, path: Path) -> list[str]:
    """Return the files of tests, those with a word of the source file's name first."""
    words = {word for word in path.stem.split("_") if len(word) > 2}
    files = [p for folder in package.tests for p in sorted((ROOT / folder).rglob("test_*.py"))]
    near = {p: len(words & {*p.stem.split("_")}) for p in files}
    return [str(p.relative_to(ROOT)) for p in sorted(files, key=lambda p: -near[p])]


def nearest(source: str) -> list[str]:
    """Return the files of tests of the package, plug-in or folder that a source file is part of,
    nearest first; none if no folder of tests is called like it."""
    parts = [*PurePosixPath(source).parts, "", "", ""]
    folder = f"tests/python/{parts[3 if source.startswith(COMPILER) else 2]}"
    package = Package([], [f"plugins/{parts[1]}/tests" if parts[0] == "plugins" else folder])
    for each in PACKAGES.values():
        if any(ROOT / source in ROOT.glob(pattern) for pattern in each.sources):
            package = each
            break
    return tests_of(package, Path(source))
