"""The float transposed convolution against onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import kernel_build as kb
import kernel_reference as ref
import numpy as np
import pytest

from tvmrt.codegen.c.text import initializer
from tvmrt.codegen.window.layer_f32 import LayerF32
from tvmrt.codegen.window.plan import Window

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
packing = kb.packing
INFINITY = float("inf")


@dataclass(frozen=True)
class Case:
    """A ConvTranspose node; `size` has 1 to 3 dimensions, pads are those of ONNX."""

    name: str
    channels: tuple[int, int]
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...] = ()
    output_padding: tuple[int, ...] = ()
    group: int = 1
    batch: int = 1
    bounds: tuple[float, float] = (-INFINITY, INFINITY)
    residual: bool = False
    epilogue: bool = False
    wider: tuple[int, int] = (0, 0)

    @property
    def rank(self) -> int:
        return len(self.size)

    @property
    def out(self) -> tuple[int, ...]:
        dilations = self.dilations or (1,) * self.rank
        extra = self.output_padding or (0,) * self.rank
        return tuple(
            (self.size[i] - 1) * self.strides[i]
            + (self.kernel[i] - 1) * dilations[i]
            + 1
            + extra[i]
            - self.pads[i]
            - self.pads[i + self.rank]
            for i in range(self.rank)
        )

    def tiles(self, machine: kb.Machine) -> packing.Tiles:
        rows = packing.phase_pixels(self.out[-1], self.strides[-1])
        window = int(np.prod(self.kernel)) * self.channels[0] // self.group
        return packing.choose_tiles(rows, self.channels[1] // self.group, window, machine)


CASES = [
    Case("2x2-s2", (16, 24), (6, 7), (2, 2), (2, 2), (0, 0, 0, 0)),
    Case("3x3-s2", (9, 20), (5, 8), (3, 3), (2, 2), (1, 1, 1, 1), residual=True, bounds=(0.0, 4.0)),
    Case("3x3-s2-extra", (9, 20), (5, 8), (3, 3), (2, 2), (1, 1, 1, 1), output_padding=(1, 1)),
    Case("4x4-s2", (5, 33), (9, 17), (4, 4), (2, 2), (1, 1, 1, 1), epilogue=True),
    Case("3x3-s1", (7, 18), (8, 9), (3, 3), (1, 1), (1, 1, 1, 1)),
    Case("full", (7, 18), (4, 5), (3, 3), (1, 1), (0, 0, 0, 0), batch=2),
    Case("stride-beyond-kernel", (4, 6), (4, 5), (2, 2), (3, 3), (0, 0, 0, 0)),
    Case("dilated", (6, 10), (6, 7), (3, 3), (2, 2), (2, 1, 1, 2), dilations=(2, 3)),
    Case("groups", (8, 12), (5, 6), (3, 3), (2, 2), (0, 1, 1, 0), group=4),
    Case("1d", (8, 17), (20,), (6,), (4,), (1, 1)),
    Case("3d", (4, 9), (3, 4, 5), (2, 3, 3), (2, 1, 2), (0, 1, 1, 0, 1, 0)),
    Case("wider", (8, 17), (5, 6), (4, 4), (2, 2), (1, 1, 1, 1), wider=(3, 4), batch=2),
    Case("heavy-crop", (3, 5), (4, 4), (5, 5), (2, 2), (4, 4, 3, 3)),
]

BUILDS = {
    name: kb.BUILDS[name]
    for name in ("native", "native-clang", "avx2", "plain-O2", "three-tasks", "sanitised")
}


def expected_of(case: Case, x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The node on onnxruntime, [batch][channels][size]."""
    attributes: dict[str, object] = {
        "strides": case.strides,
        "pads": case.pads,
        "group": case.group,
    }
    if case.dilations:
        attributes["dilations"] = case.dilations
    if case.output_padding:
        attributes["output_padding"] = case.output_padding
    node = onnx.helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)
    value = onnx.helper.make_tensor_value_info
    constants = [onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(bias, "b")]
    graph = onnx.helper.make_graph(
        [node],
        "transposed",
        [value("x", onnx.TensorProto.FLOAT, x.shape)],
        [value("y", onnx.TensorProto.FLOAT, None)],
        constants,
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})[0]


def function(index: int, case: Case, tiles: packing.Tiles) -> str:
    """C that runs one case: run_<index>(x, w, bias, residual, y, ctx)."""
    arguments = (
        "const float* x, const float* w, const float* b, const float* r, float* y, const float* ctx"
    )
    y_stride = case.channels[1] + case.wider[1]

    def dims(values: tuple[int, ...], fill: int) -> tuple[int, ...]:
        return (*[fill] * (3 - case.rank), *values)

    window = Window(
        case.batch,
        dims(case.size, 1),
        dims(case.out, 1),
        case.channels[0] + case.wider[0],
        y_stride,
        dims(case.kernel, 1),
        dims(case.strides, 1),
        dims(case.dilations or (1,) * case.rank, 1),
        dims(case.pads[: case.rank], 0),
    )
    layer = LayerF32.transposed(window, *case.channels, case.group)
    members = initializer(layer.members(case.channels[1], *map(kb.c_float, case.bounds)))
    epilogue = f"add_{index}" if case.epilogue else "NULL"
    define = f"""
static void add_{index}(float* out, int64_t pixel, int pixels, int channel, int channels,
    const void* ctx) {{
  const float* each = (const float*)ctx + pixel * {case.channels[1]} + channel;
  for (int p = 0; p < pixels; p++)
    for (int c = 0; c < channels; c++) out[p * {y_stride} + c] += each[p * {case.channels[1]} + c];
}}"""
    return f"""{define if case.epilogue else ""}
int run_{index}({arguments});
int run_{index}({arguments}) {{
  static const tvmrt_tiles_f32 tiles = {tiles.initializer()};
  static const tvmrt_layer_f32 layer = {members};
  return tvmrt_conv_transpose_f32(&layer, &tiles,
      &(const tvmrt_data_f32){{x, w, b, r, y, {epilogue}, ctx}});
}}
"""


@pytest.mark.everyday(2)
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_conv_transpose_equals_onnxruntime(case: Case, build: str, build_folder: Path) -> None:
    cc, flags, machine = BUILDS[build]
    if not kb.has_compiler(cc):
        pytest.skip(f"{cc} is not installed")
    all_tiles = [each.tiles(machine) for each in CASES]
    head = ["#include <math.h>", "#include <tvm/runtime/kernels/conv_transpose_f32.h>"]
    functions = [function(i, each, all_tiles[i]) for i, each in enumerate(CASES)]
    library = kb.build(
        build_folder,
        "\n".join([*head, *kb.unique_definitions(all_tiles), *functions]),
        flags,
        cc,
    )
    index = CASES.index(case)
    tiles = all_tiles[index]

    rng = np.random.default_rng(7)
    x = rng.standard_normal((case.batch, case.channels[0], *case.size)).astype(np.float32)
    w = rng.standard_normal(
        (case.channels[0], case.channels[1] // case.group, *case.kernel)
    ).astype(np.float32)
    bias = rng.standard_normal(case.channels[1]).astype(np.float32)
    expected = np.moveaxis(expected_of(case, x, w, bias), 1, -1)
    assert expected.shape[1:-1] == case.out
    residual = rng.standard_normal(expected.shape).astype(np.float32) if case.residual else None
    each = rng.standard_normal(expected.shape).astype(np.float32)
    expected = np.clip(expected + (0 if residual is None else residual), *case.bounds)
    expected = expected + (each if case.epilogue else 0)

    last = np.moveaxis(x, 1, -1)
    wide_x = np.full((*last.shape[:-1], last.shape[-1] + case.wider[0]), np.nan, np.float32)
    wide_x[..., : last.shape[-1]] = last
    x_memory, _ = kb.guarded(wide_x, np.nan)
    y_memory, y_whole = kb.guarded(
        np.full((*expected.shape[:-1], expected.shape[-1] + case.wider[1]), 7.0, np.float32)
    )
    packed = packing.pack_conv_transpose(w, tiles, case.group)
    arrays = (
        x_memory,
        packed,
        packing.pack_bias(bias, tiles, case.group),
        residual,
        y_memory,
        each,
    )
    assert library[f"run_{index}"](*(kb.pointer(array) for array in arrays)) == 0
    assert kb.guards_intact(y_whole)
    assert (y_memory[..., case.channels[1] :] == 7.0).all()
    window = int(np.prod(case.kernel)) * case.channels[0]
    np.testing.assert_allclose(y_memory[..., : case.channels[1]], expected, **ref.tolerance(window))
