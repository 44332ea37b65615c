"""The sweep of exported networks (tests/sweep): its comparison, and two of its networks."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "sweep"))

import check_network
import sweep
from entries import Input

pytest.importorskip("onnxruntime")


def _folder(tmp_path: Path, body: str, *sizes: int) -> Path:
    """Return a folder as the exporter writes it."""
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 18]> g (float[n] x) => (float[m] y) {{ {body} }}'
    )
    onnx.save(model, tmp_path / "network.onnx")
    arrays = {f"{i}:x": np.arange(n, dtype=np.float32) for i, n in enumerate(sizes)}
    np.savez(tmp_path / "inputs.npz", **arrays)
    (tmp_path / "sizes.json").write_text(json.dumps([{"n": n} for n in sizes]))
    return tmp_path


def test_sizes_that_onnxruntime_refuses_are_not_counted(tmp_path):
    halves = "s = Constant<value_ints = [2, -1]>() r = Reshape(x, s) y = ReduceSum<keepdims = 0>(r)"
    found = sweep.result_of("halves", "script", _folder(tmp_path, halves, 4, 5, 64))
    assert (found.state, found.right, found.count) == ("right", 2, 2), found


def test_a_network_that_onnxruntime_does_not_load_is_skipped(tmp_path):
    found = sweep.result_of("none", "script", _folder(tmp_path, "y = NoSuchOperator(x)", 4))
    assert found.state == "skipped"
    assert "NoSuchOperator" in found.text


def test_a_network_that_cannot_be_exported_is_skipped(tmp_path):
    (tmp_path / "skipped.txt").write_text("torch: no such operator")
    found = sweep.result_of("none", "dynamo", tmp_path)
    assert (found.state, found.text) == ("skipped", "torch: no such operator")
    assert sweep.summary([found])[-1] == "0 of 0 right at every size; 0 wrong; 0 refused; 1 skipped"


@pytest.mark.parametrize(
    ("found", "shaken", "text"),
    [
        ([1.0, 1000.5], [], ""),
        ([1.0, 1010.0], [], "differs by 0.01"),
        ([1.0, 1010.0], [[1.0, 1009.0]], ""),
        ([1.0], [], "is float32[1] instead of float32[2]"),
        ([1.0], [[1.0, 2.0, 3.0]], ""),
        ([1.0, np.nan], [], "differs by inf"),
    ],
    ids=["rounding", "different", "unstable", "shape", "unstable-shape", "nan"],
)
def test_differences(found, shaken, text):
    expected = [np.array([1.0, 1000.0], np.float32)]
    others = [[np.array(each, np.float32)] for each in shaken]
    said = check_network.first_difference([np.array(found, np.float32)], expected, others)
    assert text in said if text else said == ""


def test_inputs_of_a_size():
    mask = Input(("batch", "past + length"), "mask")
    assert mask.axes() == {0: "batch", 1: "past + length"}
    drawn = mask.draw(np.random.default_rng(0), {"batch": 3, "past": 2, "length": 5})
    assert drawn.shape == (3, 7)
    assert drawn[0].all() and (drawn[:, 0] == 1).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["recommender", "lstm_tagger"])
def test_a_network_is_exported_and_compared(name, tmp_path):
    for package in ("torch", "torchvision", "transformers", "timm", "onnxscript"):
        pytest.importorskip(package)
    import export_entry

    entry = export_entry.load_entries()[name]
    folder = export_entry.exported(tmp_path, entry, "script")
    assert not (folder / "skipped.txt").exists()
    (path,) = folder.glob("*.onnx")
    written = path.stat().st_mtime_ns
    assert export_entry.exported(tmp_path, entry, "script") == folder
    assert path.stat().st_mtime_ns == written
    found = sweep.result_of(name, "script", folder)
    assert (found.state, found.count) == ("right", 4), found
