"""Test ``tvmrt device test``: skeletons pass the kit, and the kit finds faults of devices."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from device_mutations import SOURCE
from device_plugin import built
from mutant_runs import build

from tvmrt.compiler.devices.skeleton import write_skeleton
from tvmrt.conformance import CHECKS, run_checks

TVMRT = [sys.executable, "-m", "tvmrt"]


def run_kit(target, *checks) -> tuple[int, dict[str, dict]]:
    """Run ``tvmrt device test`` and return its exit code and its findings by subject."""
    options = [word for check in checks for word in ("--check", check)]
    done = subprocess.run(
        [*TVMRT, "device", "test", str(target), "--json", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    findings = json.loads(done.stdout)["findings"] if done.stdout else []
    return done.returncode, {row["subject"]: row for row in findings}


@pytest.fixture
def skeleton(tmp_path):
    """Return a function that writes the source of a new device with the requested changes."""

    def write(name="gate", python=False, **changes) -> Path:
        files = write_skeleton(name, tmp_path, python)
        source = files[0]
        text = source.read_text()
        for old, new in changes.get("edits", ()):
            assert old in text
            text = text.replace(old, new)
        source.write_text(text)
        return source

    return write


@pytest.mark.slow
def test_skeleton_passes_every_check(skeleton):
    code, found = run_kit(built(skeleton()))
    assert code == 0, found
    # it needs devices that start runs
    assert {row["check"] for row in found.values()} == set(CHECKS) - {"asynchronous"}
    assert found["Relu"]["passed"]


@pytest.mark.slow
def test_skeleton_test_passes(skeleton):
    """Run the test that comes with the skeleton, in both languages."""
    source = skeleton("fresh_one", python=True)
    command = [sys.executable, "-m", "pytest", "-q", f"test_{source.stem}.py"]
    done = subprocess.run(command, cwd=source.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_new_plugin_folder_is_built_without_other_changes(tmp_path):
    if shutil.which("meson") is None:
        pytest.skip("meson is not on the path")
    tree, root = tmp_path / "tree", Path(__file__).parents[3]
    hidden = shutil.ignore_patterns(".*", "__pycache__", "docs")
    shutil.copytree(root, tree, ignore=hidden)
    write_skeleton("in_the_tree", tree / "plugins")
    options = ["-Dpython=disabled", "-Dtests=disabled", "-Dplugins=in_the_tree"]
    subprocess.run(["meson", "setup", "build", *options], cwd=tree, check=True)
    plugin = tree / "build" / "src_runtime" / "libtvmrt_device_in_the_tree.so"
    command = ["ninja", "-C", "build", "-j2", str(plugin.relative_to(tree / "build"))]
    subprocess.run(command, cwd=tree, check=True)
    code, found = run_kit(plugin, "operators")
    assert code == 0, found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cpu", "ccompiler"])
def test_device_of_the_package_passes_the_operators(name):
    code, found = run_kit(name, "operators", "faults")
    assert code == 0, found
    assert {"Add", "Sub", "Mul"} <= set(found)


@pytest.mark.slow
def test_wrong_results_are_found(skeleton):
    source = skeleton(edits=[("x[i] < 0 ? 0 : x[i]", "x[i] < 1 ? 0 : x[i]")])
    code, found = run_kit(built(source), "operators")
    assert code == 1
    assert "of the largest value" in found["Relu"]["detail"]


@pytest.mark.slow
def test_wrong_results_of_a_python_device_are_found(skeleton):
    source = skeleton(python=True, edits=[("np.maximum(inputs[0], 0)", "inputs[0][:1] * 2")])
    code, found = run_kit(source, "operators")
    assert code == 1
    assert not found["Relu"]["passed"]


DEVICE = """\
import numpy as np
from tvmrt import devices

def padded(a, b):
    rank = max(a.ndim, b.ndim)
    return [x.reshape((1,) * (rank - x.ndim) + x.shape) for x in (a, b)]

@devices.register
class Mistaken(devices.PythonDevice):
    name = "mistaken"

    def supports(self, node):
        return None if node.op in ("add", "matmul") else "it computes add and matmul only"

    def compute(self, node, inputs):
        a, b, *bias = inputs
        right = self.right if node.op == "add" else np.matmul
        return sum(bias, (self.{mistake} if node.op == "{op}" else right)(a, b))

    def right(self, a, b):
        return a + b

    def leading_axes(self, a, b):
        if b.ndim > a.ndim or b.size > a.size:
            x, y = padded(a, b)
            first = next((i for i, n in enumerate(x.shape) if n > 1), x.ndim)
            if 0 < first < y.ndim and x.shape[first:] == y.shape[first:]:
                return np.broadcast_to(x + y[:1], y.shape).copy()
        return a + b

    def first_batch(self, a, b):
        return a @ (b[:1] if b.ndim == 3 and a.ndim > 1 else b)

    def skipped_zeros(self, a, b):
        far = np.isinf(a)
        return np.where(far, 0, a) @ b + np.where(far, a, 0) @ np.where(b == 0, 1, b)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "op", "subject"),
    [
        ("right", "add", ""),
        ("leading_axes", "add", "Add"),
        ("first_batch", "matmul", "MatMul"),
        ("skipped_zeros", "matmul", "MatMul"),
    ],
)
def test_rare_forms_of_operands_are_drawn(tmp_path, mistake, op, subject):
    """Each device errs for one form: a broadcast, a batch, a product of infinity and 0."""
    source = tmp_path / "mistaken.py"
    source.write_text(DEVICE.replace("{mistake}", mistake).replace("{op}", op))
    code, found = run_kit(source, "operators")
    wrong = {row["subject"] for row in found.values() if not row["passed"]} - {"Graphs"}
    assert wrong == ({subject} if subject else set()), found
    assert code == bool(subject)


@pytest.mark.slow
def test_crash_is_a_finding(skeleton):
    source = skeleton(edits=[("    float* y = data(", "    float* y = 0; (void)data(")])
    code, found = run_kit(built(source), "operators")
    assert code == 1
    assert "SIGSEGV" in found["process"]["detail"]


@pytest.mark.slow
def test_leak_is_found(skeleton):
    source = skeleton(edits=[("  free(device_graph);\n", "  (void)device_graph;\n")])
    more = "memset(region->device_graph = malloc(1 << 9), 1, 1 << 9);\n  return 0;\n  return"
    source.write_text(
        source.read_text().replace(
            "  return region->device_graph", f"  {more} region->device_graph"
        )
    )
    code, found = run_kit(built(source), "leaks")
    assert code == 1
    assert found["runs"]["passed"]
    assert not found["loads and runs"]["passed"]


@pytest.mark.slow
def test_shared_state_of_threads_is_found(skeleton):
    edits = [
        ("#include <stdlib.h>", "#include <stdlib.h>\n#include <unistd.h>"),
        ("static float* data(", "static float shared[1 << 16];\nstatic float* data("),
        ("y[i] = x[i] < 0 ? 0 : x[i]; /* NaN stays */", "shared[i] = x[i] < 0 ? 0 : x[i];\n"
         "    usleep(5000);\n"
         "    memcpy(y, shared, (size_t)size * 4);"),
    ]  # fmt: skip
    code, found = run_kit(built(skeleton(edits=edits)), "threads")
    assert code == 1
    assert "differs" in found["runs at the same time"]["detail"]


def test_unknown_operator_must_be_refused(skeleton):
    source = skeleton(edits=[('strcmp(node->op, "relu") != 0', "0")])
    code, found = run_kit(built(source), "faults")
    assert code == 1
    assert not found["an unknown operator"]["passed"]


def test_operators_that_no_network_reaches_are_listed(skeleton):
    source = skeleton(edits=[('{"relu", NULL}', '{"relu", "no_such_operator", NULL}')])
    code, found = run_kit(built(source), "operators")
    assert code == 0
    assert "no case reaches no_such_operator" in found["not tested"]["detail"]


@pytest.mark.slow
def test_correct_device_passes_every_check(tmp_path):
    """It has weights, queues, and memory of its own."""
    folder = tmp_path / "device"
    plugin = build(folder, SOURCE.read_text(encoding="utf-8"))
    code, found = run_kit(plugin)
    assert code == 0, found
    assert {row["check"] for row in found.values()} == set(CHECKS)
    assert found["not tested"]["detail"] == "nothing"


@pytest.mark.slow
def test_other_seeds_draw_other_networks(tmp_path):
    plugin = build(tmp_path / "device", SOURCE.read_text(encoding="utf-8"))
    found = [run_checks(str(plugin), ["operators"], only=["MatMul"], seed=n) for n in (2, 3)]
    assert all(row.passed for rows in found for row in rows)
    assert found[0] != found[1]


@pytest.mark.slow
def test_device_without_supported_operators_fails(skeleton):
    source = skeleton(edits=[('{"relu", NULL}', '{"no_such_operator", NULL}')])
    code, found = run_kit(built(source), "operators")
    assert code == 1
    assert "takes nothing" in found["claims"]["detail"]
