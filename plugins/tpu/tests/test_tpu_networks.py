"""Test networks on the simulated accelerator: dynamic sizes, reduced precision, a hanging run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from any_size_case import EXECUTORS, check_on_device
from device_here import have
from onnx import parser
from sample_devices import run_library
from unary import HEADER, executor_of

import tvmrt


@pytest.fixture(autouse=True)
def tpu():
    have("tpu")


@pytest.mark.everyday(2)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", ["convolutions", "decoder"])
def test_whole_networks_at_all_sizes(name, executor, tmp_path):
    check_on_device("tpu", name, executor, tmp_path)


def test_hanging_run_times_out_in_the_waiting_call(tmp_path):
    fault = {"tpu": {"fault": "hang", "timeout_ms": 30}}
    model = parser.parse_model(HEADER + "g (float[4] x) => (float[4] y) { y = Relu(x) }")
    options = {"executor": "aot", "schedule": "async", "device_options": fault}
    tvmrt.compile(model, devices=["tpu"], **options).export_library(tmp_path / "n.so")
    net = executor_of(tvmrt.runtime.load_module(tmp_path / "n.so"), "aot")
    net.set_input("x", np.ones(4, np.float32))
    for _ in range(2):  # the second run is an ordinary one
        with pytest.raises(tvmrt.TVMError, match="did not end in time"):
            net.run()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "bound"),
    [("fp16", 0.01), ("int8", 0.05)],
)
def test_digits_keep_their_labels_in_reduced_precision(tmp_path, precision, bound):
    folder = Path(__file__).parents[3] / "examples" / "digits"
    with np.load(folder / "digits_test.npz") as data:
        images = (data["images"][:20, None, None] / 16).astype(np.float32)
        labels = data["labels"][:20]
    library = tvmrt.compile(
        folder / "digits_f32.onnx",
        devices=["tpu"],
        mixed_precision=precision,
        max_error=bound,
        calibration=[{"image": image} for image in images[:3]],
    )
    reduced = [row for row in library.summary.regions if row.precision]
    assert reduced
    assert all(row.error <= bound for row in reduced)
    library.export(tmp_path / "net.so")
    found = [run_library(tmp_path / "net.so", "graph", {"image": i})[0].argmax() for i in images]
    assert (np.array(found) == labels).mean() >= 0.95
