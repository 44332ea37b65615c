"""Post-processing of a detector: data-dependent work, two outputs, after a real detector."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from custom_case import compiled, example, onnx_model, run
from onnx import TensorProto, helper, numpy_helper

import tvmrt

DETECTOR = "fastestdet_f32"
SCALARS = {"most": 12, "threshold": 0.4, "overlap": 0.45}

node = helper.make_node


def post_process(head: str) -> onnx.NodeProto:
    return node(
        "DetectionPostProcess", [head], ["boxes", "count"], "post", domain="example.detection",
        **SCALARS,
    )  # fmt: skip


def reference_result(head: np.ndarray) -> tuple[np.ndarray, int]:
    """Compute boxes with ONNX operators in onnxruntime: decoding, then NonMaxSuppression."""
    ort = pytest.importorskip("onnxruntime")
    classes, rows, columns = head.shape[1] - 5, *head.shape[2:]
    row, column = np.divmod(np.arange(rows * columns), columns)
    constants = {
        "sizes": np.array([1, 4, classes], np.int64),
        "flat": np.array([1, 5 + classes, -1], np.int64),
        "grid": np.stack([column, row]).astype(np.float32)[None],
        "extent": np.array([columns, rows], np.float32).reshape(1, 2, 1),
        "half": np.array(0.5, np.float32),
        "power": np.array([0.6], np.float32),
        "rest": np.array([0.4], np.float32),
        "two": np.array([2, 2], np.int64),
        "most": np.array(SCALARS["most"], np.int64),
        "overlap": np.array(SCALARS["overlap"], np.float32),
        "threshold": np.array(SCALARS["threshold"], np.float32),
    }
    nodes = [
        node("Reshape", ["head", "flat"], ["cells"]),
        node("Split", ["cells", "sizes"], ["object", "box", "classes"], axis=1),
        node("Split", ["box", "two"], ["place", "size"], axis=1),
        node("Tanh", ["place"], ["offset"]),
        node("Add", ["offset", "grid"], ["moved"]),
        node("Div", ["moved", "extent"], ["centre"]),
        node("Sigmoid", ["size"], ["sides"]),
        node("Mul", ["sides", "half"], ["reach"]),
        node("Sub", ["centre", "reach"], ["low"]),
        node("Add", ["centre", "reach"], ["high"]),
        node("Concat", ["low", "high"], ["corners"], axis=1),
        node("Transpose", ["corners"], ["boxes"], perm=[0, 2, 1]),
        node("ReduceMax", ["classes"], ["best"], axes=[1]),
        node("ArgMax", ["classes"], ["kind"], axis=1),
        node("Pow", ["object", "power"], ["a"]),
        node("Pow", ["best", "rest"], ["b"]),
        node("Mul", ["a", "b"], ["scores"]),
        node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "threshold"], ["kept"]),
    ]
    outputs = ["boxes", "scores", "kind", "kept"]
    graph = helper.make_graph(
        nodes, "judge",
        [helper.make_tensor_value_info("head", TensorProto.FLOAT, head.shape)],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(a, k) for k, a in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = ort.InferenceSession(model.SerializeToString())
    boxes, scores, kind, kept = session.run(None, {"head": head})
    chosen = kept[:, 2]
    rows_found = np.column_stack(
        [boxes[0][chosen], scores[0, 0][chosen], kind[0, 0][chosen].astype(np.float32)]
    )
    expected = np.zeros((SCALARS["most"], 6), np.float32)
    expected[: len(chosen)] = rows_found
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
