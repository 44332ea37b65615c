"""The committed digits networks and the script that trains them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
NETWORKS = ["digits_f32", "digits_int8"]


def _test_set(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(folder / "digits_test.npz") as data:
        return (data["images"][:, None, None] / 16).astype(np.float32), data["labels"]


def _accuracy(folder: Path, network: str) -> float:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(folder / f"{network}.onnx"))
    images, labels = _test_set(folder)
    best = [session.run(None, {"image": image})[0].argmax() for image in images]
    return float(np.mean(np.array(best) == labels))


@pytest.mark.parametrize("network", NETWORKS)
def test_committed_network_reads_97_percent_of_the_test_digits(network):
    assert _accuracy(DIGITS, network) >= 0.97


@pytest.mark.parametrize("network", NETWORKS)
def test_networks_are_interchangeable(network):
    model = onnx.load(DIGITS / f"{network}.onnx")
    onnx.checker.check_model(model, full_check=True)
    ends = [*model.graph.input, *model.graph.output]
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in ends}
    assert shapes == {"image": [1, 1, 8, 8], "probabilities": [1, 10]}
    assert {v.type.tensor_type.elem_type for v in ends} == {onnx.TensorProto.FLOAT}


@pytest.mark.parametrize("network", NETWORKS)
def test_every_layer_has_a_name_of_its_own(network):
    names = [node.name for node in onnx.load(DIGITS / f"{network}.onnx").graph.node]
    assert all(names)
    assert len(set(names)) == len(names)


def test_int8_network_keeps_weights_as_int8_per_channel():
    constants = {c.name: c for c in onnx.load(DIGITS / "digits_int8.onnx").graph.initializer}
    for layer, channels in [("conv1", 8), ("conv2", 16), ("depthwise", 16), ("dense", 10)]:
        assert constants[f"{layer}_weight_quantised"].data_type == onnx.TensorProto.INT8
        assert list(constants[f"{layer}_weight_scale"].dims) == [channels]


@pytest.mark.slow
def test_demo_reports_accuracy_and_memory(tmp_path):
    command = [sys.executable, DIGITS / "demo.py", "--folder", tmp_path, "--seconds", "0.05"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shares = [float(share) for share in re.findall(r"accuracy +([\d.]+)% of 600", done.stdout)]
    assert len(shares) == 2
    assert min(shares) >= 97
    for network in NETWORKS:
        assert f"{network}.onnx" in done.stdout
        assert (tmp_path / f"{network}.so").is_file()


@pytest.mark.slow
def test_training_script_makes_networks_as_good_as_the_committed_ones(tmp_path):
    pytest.importorskip("sklearn")
    subprocess.run([sys.executable, DIGITS / "train.py", tmp_path], check=True, timeout=600)
    images, labels = _test_set(DIGITS)
    new_images, new_labels = _test_set(tmp_path)
    np.testing.assert_array_equal(new_images, images)
    np.testing.assert_array_equal(new_labels, labels)
    for network in NETWORKS:
        assert _accuracy(tmp_path, network) >= 0.97
