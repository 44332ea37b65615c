"""Extreme untrusted input values, under the address and undefined-behaviour sanitizers.

Indices and lengths at the limits of their types, NaN and infinities: a network computes a result,
or raises IndexError with operator, node and operand (an error code on boards). It never reads out
of bounds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from hostile_networks import ARITHMETIC, NETWORKS, feeds
from onnx.reference import ReferenceEvaluator

import tvmrt
from tvmrt.libinfo import find_include_path

HERE = Path(__file__).resolve().parent
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=all -O0".split()
BOARDS = {"narrow": "host", "board": "cortex-m4"}
SHORT = ("gather_int64", "roi_align", "max_unpool", "max_pool", "reducemax_1")


def sanitisers() -> str:
    """Return libraries to preload before Python; skip the test if gcc lacks sanitizers."""
    found = []
    for name in ("libasan.so", "libubsan.so"):
        try:
            command = ["gcc", f"-print-file-name={name}"]
            path = subprocess.run(
                command, capture_output=True, text=True, check=True
            ).stdout.strip()
        except OSError:
            path = name
        if not Path(path).is_absolute():
            pytest.skip(f"gcc has no {name} here")
        found.append(path)
    return ":".join(found)


def compiler(folder: Path) -> str:
    """Return gcc with the sanitizers."""
    script = folder / "cc"
    script.write_text(f'#!/bin/sh\nexec gcc "$@" {" ".join(FLAGS)}\n')
    script.chmod(0o755)
    return str(script)


def build_libraries(names, networks, folder: Path) -> None:
    cc = compiler(folder)
    for name in names:
        library = tvmrt.compile(networks[name], cc=cc)
        library.export_library(folder / f"{name}.so")


def build_board(names, networks, folder: Path, build: str) -> None:
    """Build the firmware C of all networks as one shared library."""
    for name in names:
        library = tvmrt.compile(
            networks[name], target=BOARDS[build], runtime="crt", executor="aot", module_name=name,
            interface_api="c", unpacked_api=True,
        )  # fmt: skip
        library.export(folder / build)
    sources = [str(p) for p in sorted((folder / build).glob("*.c"))]
    includes = [f"-I{p}" for p in (folder / build, *find_include_path())]
    command = ["gcc", "-fPIC", "-shared", *FLAGS, *includes, *sources, "-lm"]
    subprocess.run([*command, "-o", str(folder / f"{build}.so")], check=True)


def run_sanitised(names, networks, folder: Path, count: int, builds=("library", *BOARDS)):
    """Return the results of every build: {(network, build, case): {output or "error": array}}."""
    loaded, plan, values = sanitisers(), {}, {}
    for build in builds:
        if build == "library":
            build_libraries(names, networks, folder)
        else:
            build_board(names, networks, folder, build)
    for seed, name in enumerate(names):
        graph = networks[name].graph
        plan[name] = {
            "builds": list(builds),
            "inputs": [v.name for v in graph.input],
            "outputs": [described(v) for v in graph.output],
        }
        for k, arrays in enumerate(feeds(networks[name], count, seed)):
            values.update({f"{name}|{k}|{i}": a for i, a in arrays.items()})
    (folder / "plan.json").write_text(json.dumps(plan))
    np.savez(folder / "feeds.npz", **values)
    python_sanitised(loaded, [str(HERE / "hostile_runner.py"), str(folder)])
    found: dict[tuple[str, str, str], dict[str, np.ndarray]] = {}
    with np.load(folder / "found.npz") as stored:
        for key in stored.files:
            name, build, case, output = key.split("|")
            found.setdefault((name, build, case), {})[output] = stored[key]
    return values, found


def python_sanitised(loaded: str, arguments: list[str], **more: str) -> None:
    """Run Python with the sanitizers loaded; on failure, show the end of its output."""
    environment = {**os.environ, "LD_PRELOAD": loaded, "ASAN_OPTIONS": "detect_leaks=0", **more}
    environment["TVM_NUM_THREADS"] = "2"
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def described(value) -> tuple[list[int], str]:
    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return [d.dim_value for d in tensor.shape.dim], dtype.name


def compare_builds(found) -> int:
    """Check that all builds agree, or all report an error. Return the number of errors."""
    refused = 0
    for (name, build, case), outputs in found.items():
        if build != "library":
            continue
        others = [found[name, other, case] for other in BOARDS]
        if "error" in outputs:
            text = str(outputs["error"])
            assert text.startswith("IndexError: "), (name, case, text)
            assert "is outside an extent of" in text, (name, case, text)
            assert all("error" in other for other in others), (name, case, text)
            refused += 1
            continue
        # even with extreme data, a fused multiply-add may be finite where two roundings overflow
        for other in others if int(case) % 2 else ():
            for key, array in outputs.items():
                np.testing.assert_allclose(
                    other[key], array, 1e-3, 1e-3, err_msg=f"{name}, case {case}"
                )
    return refused


@pytest.mark.slow
def test_indices_at_every_limit(tmp_path):
    _, found = run_sanitised(SHORT, NETWORKS, tmp_path, 12)
    assert compare_builds(found) >= 12


@pytest.mark.slow
def test_indices_at_every_limit_of_every_operator(tmp_path):
    _, found = run_sanitised(list(NETWORKS), NETWORKS, tmp_path, 40)
    assert compare_builds(found) >= 40


@pytest.mark.slow
def test_integers_wrap(tmp_path):
    """Sums and products wrap as in numpy; the mean is exact and rounded toward zero."""
    values, found = run_sanitised(list(ARITHMETIC), ARITHMETIC, tmp_path, 8, ("narrow",))
    for (name, _, case), outputs in found.items():
        graph = ARITHMETIC[name].graph
        arrays = {v.name: values[f"{name}|{case}|{v.name}"] for v in graph.input}
        if name.startswith("reducemean"):
            wanted = exact_mean(arrays["a"], int(name.split("_")[1]))
        elif name.startswith("gemm"):  # the reference evaluator computes it in float
            wanted = arrays["a"] @ arrays["b"] + arrays["c"]
        else:
            with np.errstate(all="ignore"):
                wanted = ReferenceEvaluator(ARITHMETIC[name]).run(None, arrays)[0]
        wrapped = np.asarray(wanted).astype(outputs["0"].dtype)
        np.testing.assert_array_equal(outputs["0"], wrapped, err_msg=f"{name}: {arrays}")


def exact_mean(x: np.ndarray, axis: int) -> np.ndarray:
    total = np.sum(x.astype(object), axis=axis, keepdims=True)
    toward_zero = abs(total) // x.shape[axis] * np.sign(total)
    return toward_zero.astype(x.dtype)


# operators with data-dependent reads, and those with NaN and infinities
SUITES = "elementwise indexing linear normalization pooling reduction resize special_values vision"


@pytest.mark.slow
@pytest.mark.parametrize("name", SUITES.split())
def test_operators_under_sanitisers(name, tmp_path):
    """Run the value tests under the sanitizers."""
    suite = str(HERE / f"test_{name}.py")
    arguments = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", suite]
    python_sanitised(sanitisers(), arguments, CC=compiler(tmp_path))
