"""Real networks, compiled and run, compared with their golden outputs."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import golden_case as golden
import pytest

import tvmrt
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.libinfo import find_include_path
from tvmrt.runtime.executor import AotModule

if not golden.names():
    pytest.skip(
        "TVMRT_MODELS is not set: real networks with golden outputs are not tested",
        allow_module_level=True,
    )

EXECUTORS = {"graph": GraphModule, "aot": AotModule}
# The smallest networks are everyday tests. The slow tests run all of them, every fourth one with
# the other executor and compiler, too, and check every second one for this compiler's warnings.
EVERYDAY = 12
NAMES = golden.names()
SMALLEST = golden.smallest(EVERYDAY)
WAYS = [(name, "graph", "gcc") for name in SMALLEST] + [
    *(
        pytest.param(name, "graph", "gcc", marks=pytest.mark.slow)
        for name in NAMES
        if name not in SMALLEST
    ),
    *(pytest.param(name, "aot", "clang", marks=pytest.mark.slow) for name in NAMES[::4]),
]
COMPILERS = [(name, "gcc") for name in NAMES] + [
    pytest.param(name, "clang", marks=pytest.mark.slow) for name in NAMES[1::2]
]


@cache
def compiled(path: Path):
    """Compile the network for this machine with the AOT executor, once for several tests."""
    return tvmrt.compile(path, executor="aot")


@pytest.mark.parametrize(("network", "executor", "compiler"), WAYS)
def test_golden_outputs_and_the_same_bits_with_any_number_of_threads(
    models_dir: Path, tmp_path: Path, network: str, executor: str, compiler: str
):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    library = tvmrt.compile(models_dir / f"{network}.onnx", executor=executor, cc=compiler)
    library.export_library(tmp_path / "net.so")
    inputs, outputs = golden.load(models_dir, network)
    assert [t.name for t in library.summary.outputs] == list(outputs)
    configure = tvmrt.get_global_func("runtime.config_threadpool")
    factory = tvmrt.runtime.load_module(tmp_path / "net.so")
    alone: dict[str, bytes] = {}
    for threads in (1, 2, 3):
        configure(1, threads)
        session = EXECUTORS[executor](factory["default"](tvmrt.cpu(0)))
        session.set_input(**inputs)
        session.run()
        for i, (name, expected) in enumerate(outputs.items()):
            found = session.get_output(i).numpy()
            label = f"{name} with {threads} threads"
            golden.check(label, found, expected, golden.noise(models_dir, network))
            assert found.tobytes() == alone.setdefault(name, found.tobytes()), label


@pytest.mark.everyday(3)
@pytest.mark.parametrize("network", NAMES)
def test_memory_plan_is_within_five_percent_of_the_bound(models_dir: Path, network: str):
    summary = compiled(models_dir / f"{network}.onnx").summary
    assert summary.lower_bound_bytes <= summary.arena_bytes
    assert summary.arena_bytes <= 1.05 * summary.lower_bound_bytes


@pytest.mark.everyday(3)
@pytest.mark.parametrize(("network", "compiler"), COMPILERS)
def test_generated_c_has_no_warning(models_dir: Path, tmp_path: Path, network: str, compiler: str):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    library = compiled(models_dir / f"{network}.onnx")
    library.export_sources(tmp_path / "out")
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wmissing-prototypes", "-fsyntax-only"]
    includes = [f"-I{folder}" for folder in find_include_path()]
    sources = sorted(str(path) for path in (tmp_path / "out").glob("*.c"))
    command = [compiler, *strict, *library.target.flags, *includes, *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
