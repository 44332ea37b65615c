"""All node cases of the onnx package, and real networks, from the pack."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tvmrt
from tvmrt.plugins.kernel_pack import pack

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(pack.why_missing()), reason=pack.why_missing() or "-"),
]
ROOT = Path(__file__).parents[3]
MODELS = sorted(Path(os.environ.get("TVMRT_MODELS") or "/none").glob("*.onnx"))
MOST_OTHER_INTEGERS = 1e-2  # of the elements of a result: which of nearly equal floats is largest


def test_all_node_cases():
    """All cases pass that pass in compiled code."""
    command = [sys.executable, ROOT / "tests/python/onnx_suite/suite.py", "--kind", "node"]
    environment = {**os.environ, "TVMRT_TARGET": pack.TARGET}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.skipif(not MODELS, reason="TVMRT_MODELS names no networks")
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_real_network(path):
    golden = dict(np.load(path.with_suffix(".npz")))
    network = tvmrt.load(path, target=pack.TARGET, cache=False)
    results = network(**{each.name: golden[each.name] for each in network.inputs})
    if len(network.outputs) == 1:
        results = [results]
    for each, found in zip(network.outputs, results):
        expected = golden[f"out:{each.name}"]
        if expected.dtype.kind in "iu":
            assert np.mean(found != expected) <= MOST_OTHER_INTEGERS
        else:
            scale = max(float(np.abs(expected).max()), 1e-6)
            assert np.abs(found - expected).max() <= 1e-3 * scale
