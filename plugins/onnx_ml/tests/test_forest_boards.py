"""Test forests on a microcontroller without an FPU: integer thresholds from tables in flash."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ml_networks import by_onnxruntime, one_node, side_by_side
from test_forests import _MODES, rows, trees, weights

ROOT = Path(__file__).resolve().parents[3]
FIRMWARE = ROOT / "examples/firmware"

needs_tools = pytest.mark.skipif(
    not all(map(shutil.which, ("make", "arm-none-eabi-gcc", "qemu-system-arm"))),
    reason="make, arm-none-eabi-gcc or qemu-system-arm is not installed",
)


def forests() -> dict:
    """Return forests with sums and averages, one or several values per leaf, NaN to either
    branch."""
    found = {}
    for aggregate, targets, most in (("SUM", 1, 1), ("AVERAGE", 3, 2), ("SUM", 2, 1)):
        for missing in (False, True):
            forest = trees(targets, 16, _MODES[:4], missing=missing)
            found[f"{aggregate}{targets}{missing}"] = one_node(
                "TreeEnsembleRegressor",
                [rows(9)],
                **forest["nodes"],
                **weights("target", forest, targets, most),
                n_targets=targets,
                aggregate_function=aggregate,
                base_values=[0.5, -2.0, 1000.0][:targets],
            )
    return found


@pytest.mark.slow
@needs_tools
def test_a_board_gives_what_onnxruntime_gives(tmp_path):
    model = side_by_side(forests())
    feeds = {info.name: rows(9) for info in model.graph.input}
    wanted = by_onnxruntime(model, feeds)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "net.npz", **feeds, **{f"out:{k}": v for k, v in wanted.items()})
    command = ["make", "-s", "-C", str(FIRMWARE), "check", "APP=any_network", "TOLERANCE=1e-6"]
    command += ["BOARD=cortex-m0plus", f"MODEL={tmp_path}/net.onnx", f"BUILD={tmp_path}/build"]
    command += [f"INPUTS={tmp_path}/net.npz", f"PYTHON={sys.executable}"]
    command += [f"TVMRT={sys.executable} -m tvmrt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("within") == len(wanted)


@pytest.mark.slow
@needs_tools
def test_the_example_s_forest_takes_3_kilobytes(tmp_path):
    pytest.importorskip("skl2onnx")
    example = str(ROOT / "examples/forest/forest.py")
    subprocess.run([sys.executable, example, str(tmp_path)], check=True)
    command = [sys.executable, "-m", "tvmrt", "compile", f"{tmp_path}/iris.onnx", "--json"]
    command += ["-o", f"{tmp_path}/iris.tar", "--target", "cortex-m0plus"]
    command += ["--interface-api", "c"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    code = report["footprint"]["run_code_bytes"]["default"]
    assert code + report["weights_bytes"] < 3 << 10
