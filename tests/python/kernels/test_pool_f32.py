"""Float pooling against onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import kernel_build as kb
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@dataclass(frozen=True)
class Case:
    """A pooling node; `size` has 1 to 3 dimensions, pads are those of ONNX."""

    name: str
    op: str
    channels: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...] = ()
    ceil_mode: int = 0
    count_include_pad: int = 0
    p: int = 2
    batch: int = 1
    wider: tuple[int, int] = (0, 0)


CASES = [
    Case("max-3x3-s2", "MaxPool", 33, (13, 14), (3, 3), (2, 2), (1, 1, 1, 1)),
    Case("max-2x2", "MaxPool", 16, (8, 8), (2, 2), (2, 2), (0, 0, 0, 0), batch=2),
    Case("max-ceil", "MaxPool", 5, (10, 11), (3, 3), (2, 2), (0, 0, 0, 0), ceil_mode=1),
    Case("max-dilated", "MaxPool", 20, (15, 14), (3, 2), (1, 2), (2, 1, 2, 1), dilations=(2, 3)),
    Case("max-1d", "MaxPool", 7, (30,), (4,), (3,), (1, 2)),
    Case("max-3d", "MaxPool", 18, (5, 6, 7), (2, 3, 2), (2, 1, 2), (1, 1, 0, 0, 1, 1)),
    Case("average-exclude", "AveragePool", 21, (9, 9), (3, 3), (1, 1), (1, 1, 1, 1)),
    Case(
        "average-include",
        "AveragePool",
        21,
        (9, 9),
        (3, 3),
        (2, 1),
        (1, 1, 1, 0),
        count_include_pad=1,
    ),
    Case("average-ceil", "AveragePool", 9, (9, 12), (3, 3), (2, 2), (0, 0, 0, 0), ceil_mode=1),
    Case("average-3d", "AveragePool", 6, (5, 4, 6), (3, 2, 2), (1, 1, 2), (1, 0, 0, 1, 1, 1)),
    Case("average-global", "AveragePool", 100, (14, 15), (14, 15), (1, 1), (0, 0, 0, 0), batch=2),
    Case("max-global", "MaxPool", 100, (7, 7), (7, 7), (1, 1), (0, 0, 0, 0)),
    Case("l2", "LpPool", 12, (8, 12), (3, 3), (2, 2), (1, 1, 1, 1), p=2),
    Case("l1", "LpPool", 12, (8, 8), (2, 2), (2, 2), (0, 0, 0, 0), p=1),
    Case("l3", "LpPool", 12, (8, 8), (2, 2), (2, 2), (0, 0, 0, 0), p=3),
    Case("wider", "MaxPool", 11, (8, 8), (3, 3), (2, 2), (1, 1, 1, 1), wider=(5, 2)),
]

BUILDS = {
    name: kb.BUILDS[name]
    for name in ("native", "native-clang", "avx2", "sse2-O2", "three-tasks", "sanitised")
}


def expected_of(case: Case, x: np.ndarray) -> np.ndarray:
    """The node on onnxruntime, [batch][channels][size]."""
    attributes: dict[str, object] = {
        "kernel_shape": case.kernel,
        "strides": case.strides,
        "pads": case.pads,
    }
    if case.ceil_mode:
        attributes["ceil_mode"] = 1
    if case.dilations:
        attributes["dilations"] = case.dilations
    if case.op == "AveragePool":
        attributes["count_include_pad"] = case.count_include_pad
    if case.op == "LpPool":
        attributes["p"] = case.p
    node = onnx.helper.make_node(case.op, ["x"], ["y"], **attributes)
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node],
        "pool",
        [value("x", onnx.TensorProto.FLOAT, x.shape)],
        [value("y", onnx.TensorProto.FLOAT, None)],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})[0]


def kind(case: Case) -> str:
    if case.op == "AveragePool":
        return "TVMRT_POOL_AVERAGE_PADDED" if case.count_include_pad else "TVMRT_POOL_AVERAGE"
    return {"MaxPool": "TVMRT_POOL_MAX", "LpPool": "TVMRT_POOL_LP"}[case.op]


def function(index: int, case: Case, out: tuple[int, ...]) -> str:
    """C that runs one case: run_<index>(x, y)."""
    rank = len(case.size)

    def dims(values: tuple[int, ...], fill: int) -> str:
        return kb.triple([*[fill] * (3 - rank), *values])

    return f"""
int run_{index}(const float* x, float* y);
int run_{index}(const float* x, float* y) {{
  static const tvmrt_pool_layer layer = {{
      .kind = {kind(case)}, .p = {case.p}, .channels = {case.channels},
      .window = {{.batch = {case.batch}, .in = {dims(case.size, 1)}, .out = {dims(out, 1)},
      .kernel = {dims(case.kernel, 1)},
      .stride = {dims(case.strides, 1)}, .dilation = {dims(case.dilations or (1,) * rank, 1)},
      .pad = {dims(case.pads[:rank], 0)},
      .x_stride = {case.channels + case.wider[0]}, .y_stride = {case.channels + case.wider[1]}}},
      .pad_end = {dims(case.pads[rank:], 0)}}};
  return tvmrt_pool_f32(&layer, x, y, NULL, NULL);
}}
"""


@pytest.fixture(scope="module")
def inputs() -> list[tuple[np.ndarray, np.ndarray]]:
    """Input and onnxruntime's output of every case."""
    rng = np.random.default_rng(6)
    arrays = [
        rng.standard_normal((case.batch, case.channels, *case.size)).astype(np.float32)
        for case in CASES
    ]
    return [(x, expected_of(case, x)) for case, x in zip(CASES, arrays)]


@pytest.mark.everyday(1)
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_pool_equals_onnxruntime(
    case: Case, build: str, inputs: list[tuple[np.ndarray, np.ndarray]], build_folder: Path
) -> None:
    cc, flags, _ = BUILDS[build]
    if not kb.has_compiler(cc):
        pytest.skip(f"{cc} is not installed")
    functions = [function(i, each, inputs[i][1].shape[2:]) for i, each in enumerate(CASES)]
    source = "\n".join(["#include <tvm/runtime/kernels/pool.h>", *functions])
    library = kb.build(build_folder, source, flags, cc)
    index = CASES.index(case)
    x, expected = (np.moveaxis(array, 1, -1) for array in inputs[index])

    wide_x = np.full((*x.shape[:-1], case.channels + case.wider[0]), np.nan, np.float32)
    wide_x[..., : case.channels] = x
    x_memory, _ = kb.guarded(wide_x, np.nan)
    y_memory, y_whole = kb.guarded(
        np.full((*expected.shape[:-1], case.channels + case.wider[1]), 7.0, np.float32)
    )
    assert library[f"run_{index}"](kb.pointer(x_memory), kb.pointer(y_memory)) == 0
    assert kb.guards_intact(y_whole)
    assert (y_memory[..., case.channels :] == 7.0).all()
    np.testing.assert_allclose(y_memory[..., : case.channels], expected, rtol=2e-6, atol=1e-6)
