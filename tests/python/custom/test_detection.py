"""Post-processing of a detector: data-dependent work, two outputs, after a real detector."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from custom_case import compiled, example, onnx_model, run
from onnx import TensorProto, helper

import tvmrt

DETECTOR = "fastestdet_f32"
SCALARS = {"most": 12, "threshold": 0.4, "overlap": 0.45}


def post_process(head: str) -> onnx.NodeProto:
    return helper.make_node(
        "DetectionPostProcess", [head], ["boxes", "count"], "post", domain="example.detection",
        **SCALARS,
    )  # fmt: skip


def reference_result(head: np.ndarray) -> tuple[np.ndarray, int]:
    """Decode the boxes in numpy; onnxruntime's NonMaxSuppression chooses among them."""
    ort = pytest.importorskip("onnxruntime")
    rows, columns = head.shape[2:]
    row, column = np.divmod(np.arange(rows * columns), columns)
    cells = head.reshape(head.shape[1], -1).astype(np.float64)
    corner, extent = np.stack([column, row]), np.array([[columns], [rows]])
    centre = (np.tanh(cells[1:3]) + corner) / extent
    reach = 0.5 / (1 + np.exp(-cells[3:5]))
    boxes = np.concatenate([centre - reach, centre + reach]).T.astype(np.float32)
    scores = (cells[0] ** 0.6 * cells[5:].max(axis=0) ** 0.4).astype(np.float32)
    feeds = {"boxes": boxes[None], "scores": scores[None, None]}
    types = {"most": np.int64, "overlap": np.float32, "threshold": np.float32}
    limits = {name: np.array(SCALARS[name], dtype) for name, dtype in types.items()}
    node = helper.make_node("NonMaxSuppression", [*feeds, *limits], ["kept"])
    model = onnx_model([node], feeds, {"kept": "i8"}, limits)
    (kept,) = ort.InferenceSession(model.SerializeToString()).run(None, feeds)
    chosen = kept[:, 2]
    expected = np.zeros((SCALARS["most"], 6), np.float32)
    kinds = cells[5:].argmax(axis=0)
    expected[: len(chosen)] = np.column_stack([boxes, scores, kinds])[chosen]
    return expected, len(chosen)


def random_head(seed: int, objects: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    head = rng.random((1, 9, 6, 7), np.float32)
    head[:, 0] *= objects
    return head


@pytest.mark.parametrize("objects", [1.0, 0.5, 0.0], ids=["many", "some", "none"])
def test_boxes_match_onnxruntime_suppression(tmp_path, objects):
    head = random_head(3, objects)
    model = onnx_model([post_process("head")], {"head": head}, {"boxes": "f4", "count": "i4"})
    boxes, count = compiled(
        model, {"head": head}, tmp_path, operators=[example("detection").detection]
    )
    expected, number = reference_result(head)
    assert count.tolist() == [number]
    np.testing.assert_allclose(boxes, expected, 1e-4, 1e-5)


@pytest.mark.slow
def test_after_a_real_detector(models_dir: Path, tmp_path: Path):
    if not (models_dir / f"{DETECTOR}.onnx").is_file():
        pytest.skip(f"{DETECTOR} is not among the networks of TVMRT_MODELS")
    model = onnx.load(models_dir / f"{DETECTOR}.onnx")
    with np.load(models_dir / f"{DETECTOR}.npz") as data:
        arrays = dict(data)
    image = {k: v for k, v in arrays.items() if not k.startswith("out:")}
    (head,) = (v for k, v in arrays.items() if k.startswith("out:"))
    model.graph.node.append(post_process(model.graph.output[0].name))
    model.opset_import.append(helper.make_opsetid("example.detection", 1))
    del model.graph.output[:]
    for name, kind in (("boxes", TensorProto.FLOAT), ("count", TensorProto.INT32)):
        model.graph.output.append(helper.make_tensor_value_info(name, kind, None))
    library = tvmrt.compile(model, operators=[example("detection").detection])
    boxes, count = run(library, image, tmp_path)
    expected, number = reference_result(head)
    assert count.tolist() == [number]
    np.testing.assert_allclose(boxes, expected, 1e-3, 1e-3)
