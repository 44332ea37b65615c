"""Compare single float layers with ONNX Runtime, interleaved in one process.

Each contender runs a chain of equal layers (so that a peer's change of layout at the ends is
spread over them), one call a turn, for several rounds. Printed are the best times of one layer,
their ratio (above 1: faster than ONNX Runtime) and the speed reached. Tiles are those that the
compiler chooses for this processor. Run it when nothing else runs:

    python tests/bench/kernels/bench_f32.py [--rounds N] [--cc gcc] [--only TEXT]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "kernels"))
import kernel_build as kb

from tvmrt.compiler.codegen.c.formatting import initializer
from tvmrt.compiler.codegen.geometry import Window
from tvmrt.compiler.codegen.target import Target, get_target
from tvmrt.compiler.codegen.window.layer_f32 import LayerF32

packing = kb.packing


@dataclass(frozen=True)
class Layer:
    """A square convolution with bias and ReLU; depthwise if groups equals its channels."""

    in_channels: int
    out_channels: int
    size: tuple[int, int]
    kernel: tuple[int, int] = (3, 3)
    stride: int = 1
    depthwise: bool = False

    @property
    def pads(self) -> tuple[int, int]:
        return self.kernel[0] // 2, self.kernel[1] // 2

    @property
    def out(self) -> tuple[int, int]:
        return tuple(
            (s + 2 * p - k) // self.stride + 1 for s, p, k in zip(self.size, self.pads, self.kernel)
        )

    @property
    def window(self) -> int:
        return self.kernel[0] * self.kernel[1] * (1 if self.depthwise else self.in_channels)

    @property
    def macs(self) -> int:
        return self.out[0] * self.out[1] * self.out_channels * self.window


def same(
    channels: int, size: int, kernel: int = 3, repeat: int = 8, depthwise: bool = False
) -> list[Layer]:
    return [Layer(channels, channels, (size, size), (kernel, kernel), 1, depthwise)] * repeat


CHAINS: dict[str, list[Layer]] = {
    "3x3 56x56 64": same(64, 56),
    "3x3 14x14 256": same(256, 14),
    "3x3 7x7 512": same(512, 7),
    "1x1 28x28 256": same(256, 28, 1),
    "1x1 7x7 1024": same(1024, 7, 1),
    "dw3 112x112 32": same(32, 112, depthwise=True),
    "dw3 56x56 128": same(128, 56, depthwise=True),
    "dw3 14x14 512": same(512, 14, depthwise=True),
    "dw3 7x7 960": same(960, 7, depthwise=True),
    "dw3 s2 112x112 96": [Layer(96, 96, (112, 112), (3, 3), 2, True)],
    "dw5 14x14 480": same(480, 14, 5, depthwise=True),
    "1x1 56x56 24-144-24": [Layer(24, 144, (56, 56), (1, 1)), Layer(144, 24, (56, 56), (1, 1))] * 4,
    "1x1 14x14 96-576-96": [Layer(96, 576, (14, 14), (1, 1)), Layer(576, 96, (14, 14), (1, 1))] * 4,
    "3x3 s2 224 3-32": [Layer(3, 32, (224, 224), (3, 3), 2)],
    "7x7 s2 224 3-64": [Layer(3, 64, (224, 224), (7, 7), 2)],
    "resnet8 32x32 16": same(16, 32),
    "resnet8 16x16 32": same(32, 16),
    "resnet8 8x8 64": same(64, 8),
    "ds-cnn 1x1 25x5 64": [Layer(64, 64, (25, 5), (1, 1))] * 8,
    "ds-cnn dw3 25x5 64": [Layer(64, 64, (25, 5), (3, 3), 1, True)] * 8,
}


def weights_of(layers: list[Layer]) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    made = []
    for layer in layers:
        per_group = 1 if layer.depthwise else layer.in_channels
        w = rng.standard_normal((layer.out_channels, per_group, *layer.kernel), np.float32)
        made.append(
            (w / np.float32(layer.window**0.5), rng.standard_normal(layer.out_channels, np.float32))
        )
    return made


def conv_model(layers: list[Layer], weights: list[tuple[np.ndarray, np.ndarray]]) -> bytes:
    nodes, constants, last = [], [], "x"
    for i, (layer, (w, b)) in enumerate(zip(layers, weights)):
        constants += [numpy_helper.from_array(w, f"w{i}"), numpy_helper.from_array(b, f"b{i}")]
        pads = [*layer.pads, *layer.pads]
        group = layer.in_channels if layer.depthwise else 1
        strides = [layer.stride] * 2
        nodes.append(
            helper.make_node(
                "Conv", [last, f"w{i}", f"b{i}"], [f"c{i}"], pads=pads, group=group, strides=strides
            )
        )
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"y{i}"]))
        last = f"y{i}"
    first, end = layers[0], layers[-1]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, first.in_channels, *first.size])
    y = helper.make_tensor_value_info(last, TensorProto.FLOAT, [1, end.out_channels, *end.out])
    graph = helper.make_graph(nodes, "chain", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def layer_code(i: int, layer: Layer, machine: Target) -> tuple[str, object]:
    """Return one static function and its tiles."""
    head = f"static int layer{i}(const float* x, const float* w, const float* b, float* y) {{\n"
    window = Window(
        1, (1, *layer.size), (1, *layer.out), layer.in_channels, layer.out_channels,
        (1, *layer.kernel), (1, layer.stride, layer.stride), pad=(0, *layer.pads),
    )  # fmt: skip
    if layer.depthwise:
        kernel, planned = "depthwise_f32", LayerF32.depthwise(window, layer.in_channels)
        tiles = packing.choose_depthwise(planned.window, layer.in_channels, machine)
    else:
        kernel = "conv_f32"
        planned = LayerF32.conv(window, layer.in_channels, layer.out_channels, 1)
        step = layer.in_channels * layer.stride
        row = planned.window.out[2]
        tiles = packing.choose_tiles(row, layer.out_channels, layer.window, machine, step)
    members = initializer(planned.members(0, "0.0f", "INFINITY"))
    return (
        f"""{head}
  static const {tiles.c_type} tiles = {tiles.initializer()};
  static const tvmrt_layer_f32 layer = {members};
  return tvmrt_{kernel}(&layer, &tiles, &(const tvmrt_data_f32){{x, w, b, NULL, y, NULL, NULL}});
}}""",
        tiles,
    )


def conv_chain(
    layers: list[Layer],
    weights: list[tuple[np.ndarray, np.ndarray]],
    machine: Target,
    folder: Path,
    cc: str,
) -> tuple[Callable[[], object], np.ndarray, np.ndarray, str]:
    """Return a call that runs our chain, its input and output (channels last), and the chosen
    tiles."""
    made = [layer_code(i, layer, machine) for i, layer in enumerate(layers)]
    tiles = [tile for _, tile in made]
    calls = "\n".join(
        f"  if (layer{i}({'ab'[i % 2]}, w[{2 * i}], w[{2 * i + 1}], {'ba'[i % 2]}) != 0) return -1;"
        for i in range(len(layers))
    )
    source = "\n".join(
        [
            "#include <math.h>\n#include <tvm/runtime/kernels/conv_f32.h>",
            "#include <tvm/runtime/kernels/depthwise_f32.h>",
            *kb.unique_definitions(tiles),
            *(text for text, _ in made),
            f"int chain(float* a, float* b, const float** w);\n"
            f"int chain(float* a, float* b, const float** w) {{\n{calls}\n  return 0;\n}}",
        ]
    )
    library = kb.build(
        folder, source, [*kb.OPTIMISE, "-march=native", "-mprefer-vector-width=512"], cc
    )
    packed = []
    for layer, (w, b), tile in zip(layers, weights, tiles):
        if layer.depthwise:
            packed += [packing.pack_depthwise(w, tile.lanes), packing.pad_channels(b, tile.lanes)]
        else:
            packed += [packing.pack_conv(w, tile), packing.pack_bias(b, tile)]
    packed = [aligned(p) for p in packed]
    floats = max(
        max(la.in_channels * la.size[0] * la.size[1], la.out_channels * la.out[0] * la.out[1])
        for la in layers
    )
    a, b = aligned(np.zeros(floats, np.float32)), aligned(np.zeros(floats, np.float32))
    table = (kb.ctypes.c_void_p * len(packed))(*(p.ctypes.data for p in packed))
    chain, pa, pb = library.chain, kb.pointer(a), kb.pointer(b)
    keep = (packed, a, b)

    def call() -> object:
        return chain(pa, pb, table) or keep

    return (
        call,
        a,
        (a if len(layers) % 2 == 0 else b),
        ", ".join(sorted({describe(t) for t in tiles})),
    )


def describe(tile: object) -> str:
    if isinstance(tile, packing.DepthwiseTile):
        return tile.name().removeprefix("tvmrt_depthwise_f32_")
    return f"{tile.lanes}x{tile.vectors}x{'+'.join(map(str, tile.widths))}/{tile.blocks_per_group}"


def aligned(array: np.ndarray) -> np.ndarray:
    """Return a copy that starts on a cache line."""
    memory = np.empty(array.size + 16, np.float32)
    start = -memory.ctypes.data % 64 // 4
    memory[start : start + array.size] = array
    return memory[start : start + array.size]


def session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def best_times(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    """Return the best seconds of each call; the calls take turns."""
    best = [float("inf")] * len(calls)
    repeats = []
    for call in calls:
        call()
        start = time.perf_counter()
        call()
        repeats.append(max(1, int(2e-3 / max(1e-7, time.perf_counter() - start))))
    for _ in range(rounds):
        for i, call in enumerate(calls):
            for _ in range(2):
                start = time.perf_counter()
                for _ in range(repeats[i]):
                    call()
                best[i] = min(best[i], (time.perf_counter() - start) / repeats[i])
    return best


def bench_convolutions(machine: Target, folder: Path, cc: str, rounds: int, only: str) -> None:
    print(f"{'layer':22} {'ort us':>9} {'ours us':>9} {'speed':>6} {'GFLOP/s':>8}  tiles")
    for name, layers in CHAINS.items():
        if only not in name:
            continue
        weights = weights_of(layers)
        peer = session(conv_model(layers, weights))
        call, ours_in, ours_out, tiles = conv_chain(layers, weights, machine, folder, cc)
        first, end = layers[0], layers[-1]
        x = (
            np.random.default_rng(1)
            .standard_normal((1, first.in_channels, *first.size))
            .astype(np.float32)
        )
        ours_in[: x.size] = x.transpose(0, 2, 3, 1).reshape(-1)
        expected = peer.run(None, {"x": x})[0]
        call()
        got = ours_out[: expected.size].reshape(1, *end.out, end.out_channels).transpose(0, 3, 1, 2)
        np.testing.assert_allclose(
            got, expected, rtol=1e-3, atol=1e-3 * float(np.abs(expected).max())
        )
        peer_s, ours_s = best_times([lambda: peer.run(None, {"x": x}), call], rounds)  # noqa: B023
        flops = 2e-9 * sum(layer.macs for layer in layers)
        each = 1e6 / len(layers)
        print(
            f"{name:22} {peer_s * each:9.2f} {ours_s * each:9.2f} {peer_s / ours_s:6.2f}"
            f" {flops / ours_s:8.1f}  {tiles}",
            flush=True,
        )


@dataclass(frozen=True)
class Operator:
    """One ONNX node on random inputs, and the equivalent C: op(x, w, y)."""

    node: onnx.NodeProto
    inputs: tuple[tuple[int, ...], ...]
    code: str
    packed: packing.Tiles | None = None
    channels_last: bool = False


def matmul_code(
    batch: int, m: int, n: int, k: int, order: str, machine: Target
) -> tuple[str, packing.Tiles]:
    tiles = packing.choose_tiles(m, n, k, machine)
    stride = {"PACKED": 0, "ROWS": n, "COLUMNS": k}[order]
    return (
        f"""
#include <math.h>
#include <tvm/runtime/kernels/matmul_f32.h>
{chr(10).join(kb.unique_definitions([tiles]))}
int op(const float* x, const float* w, float* y);
int op(const float* x, const float* w, float* y) {{
  static const tvmrt_tiles_f32 tiles = {tiles.initializer()};
  static const tvmrt_matmul_f32_layer layer = {{
      .batch = {{1, {batch}}}, .m = {m}, .n = {n}, .k = {k}, .a_batch = {{0, {m * k}}},
      .b_batch = {{0, {k * n}}}, .y_batch = {{0, {m * n}}}, .a_stride = {k}, .b_stride = {stride},
      .y_stride = {n}, .lo = -INFINITY, .hi = INFINITY, .b_order = TVMRT_B_{order}}};
  const tvmrt_data_f32 data = {{x, w, NULL, NULL, y, NULL, NULL}};
  return tvmrt_matmul_f32(&layer, &tiles, &data);
}}""",
        tiles,
    )


def operators(machine: Target) -> dict[str, Operator]:
    node = helper.make_node
    pool = """
#include <tvm/runtime/kernels/pool.h>
int op(const float* x, const float* w, float* y);
int op(const float* x, const float* w, float* y) {
  static const tvmrt_pool_layer layer = {%s};
  (void)w;
  return tvmrt_pool_f32(&layer, x, y, NULL, NULL);
}"""
    rows = """
#include <tvm/runtime/kernels/op/norm.h>
int op(const float* x, const float* w, float* y);
int op(const float* x, const float* w, float* y) { (void)w; %s }"""
    one = "{1, 1, 1}"
    maxpool = pool % (
        ".kind = TVMRT_POOL_MAX, .channels = 64, .window = {.batch = 1, "
        ".in = {1, 112, 112}, .out = {1, 56, 56}, "
        f".kernel = {{1, 3, 3}}, .stride = {{1, 2, 2}}, .dilation = {one}, "
        ".pad = {0, 1, 1}, .x_stride = 64, .y_stride = 64}, .pad_end = {0, 1, 1}"
    )
    average = pool % (
        ".kind = TVMRT_POOL_AVERAGE, .channels = 2048, .window = {.batch = 1, "
        f".in = {{1, 7, 7}}, .out = {one}, "
        f".kernel = {{1, 7, 7}}, .stride = {one}, .dilation = {one}, "
        ".x_stride = 2048, .y_stride = 2048}"
    )
    lrn = rows % (
        "static const tvmrt_lrn_f32_layer layer = {.pixels = 729, .channels = 256,"
        " .x_stride = 256, .y_stride = 256,"
        " .size = 5, .alpha = 1e-4f, .beta = 0.75f, .bias = 1.0f};"
        " return tvmrt_lrn_f32(&layer, x, y);"
    )
    norm = rows % (
        "static const tvmrt_layer_norm_f32_layer layer = {128, 256, 256, 256, 1e-5f, 1};"
        " return tvmrt_layer_norm_f32(&layer, x, w, NULL, y);"
    )
    cases = {
        "max pool 3x3 s2 112 64": Operator(
            node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
            ((1, 64, 112, 112),),
            maxpool,
            channels_last=True,
        ),
        "global average 7x7 2048": Operator(
            node("GlobalAveragePool", ["x"], ["y"]), ((1, 2048, 7, 7),), average, channels_last=True
        ),
        "lrn 27x27 256": Operator(
            node("LRN", ["x"], ["y"], size=5, alpha=1e-4, beta=0.75, bias=1.0),
            ((1, 256, 27, 27),),
            lrn,
            channels_last=True,
        ),
        "softmax 128x1000": Operator(
            node("Softmax", ["x"], ["y"], axis=-1),
            ((128, 1000),),
            rows % "return tvmrt_softmax_f32(tvmrt_softmax_f32_task, 0, x, y, 128, 1000, 1);",
        ),
        "layer norm 128x256": Operator(
            node("LayerNormalization", ["x", "w"], ["y"], axis=-1), ((128, 256), (256,)), norm
        ),
    }
    for name, (batch, m, n, k, order) in {
        "dense 1x1024x1024": (1, 1, 1024, 1024, "PACKED"),
        "dense 1x4096x4096": (1, 1, 4096, 4096, "PACKED"),
        "dense 1x64x10": (1, 1, 10, 64, "PACKED"),
        "dense 128x256x1024": (1, 128, 1024, 256, "PACKED"),
        "matmul 64x64x64": (1, 64, 64, 64, "ROWS"),
        "matmul 8x128x64x128": (8, 128, 128, 64, "ROWS"),
        "matmul 8x128x128x64": (8, 128, 64, 128, "ROWS"),
        "matmul 1x256x256": (1, 1, 256, 256, "ROWS"),
    }.items():
        code, tiles = matmul_code(batch, m, n, k, order, machine)
        lead = (batch,) if batch > 1 else ()
        cases[name] = Operator(
            node("MatMul", ["x", "w"], ["y"]),
            ((*lead, m, k), (*lead, k, n)),
            code,
            tiles if order == "PACKED" else None,
        )
    return cases


def operator_session(case: Operator, arrays: list[np.ndarray]) -> onnxruntime.InferenceSession:
    """Return a session of the single node; a right operand that tvmrt packs is a constant there,
    too."""
    value = helper.make_tensor_value_info
    constants = [numpy_helper.from_array(arrays[1], "w")] if case.packed else []
    names = ["x", "w"][: len(arrays) - len(constants)]
    graph = helper.make_graph(
        [case.node],
        "operator",
        [value(name, TensorProto.FLOAT, a.shape) for name, a in zip(names, arrays)],
        [value("y", TensorProto.FLOAT, None)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return session(model.SerializeToString())


def bench_operators(machine: Target, folder: Path, cc: str, rounds: int, only: str) -> None:
    print(f"\n{'operator':24} {'ort us':>9} {'ours us':>9} {'speed':>6}")
    for name, case in operators(machine).items():
        if only not in name:
            continue
        rng = np.random.default_rng(2)
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in case.inputs]
        peer = operator_session(case, arrays)
        feeds = dict(zip([i.name for i in peer.get_inputs()], arrays))
        expected = peer.run(None, feeds)[0]
        last = (lambda a: np.moveaxis(a, 1, -1)) if case.channels_last else (lambda a: a)
        x = aligned(np.ascontiguousarray(last(arrays[0])).reshape(-1))
        w = arrays[1] if len(arrays) > 1 else np.zeros(1, np.float32)
        w = aligned(packing.pack_matmul(w, case.packed) if case.packed else w.reshape(-1))
        y = aligned(np.zeros(expected.size, np.float32))
        op = kb.build(
            folder, case.code, [*kb.OPTIMISE, "-march=native", "-mprefer-vector-width=512"], cc
        ).op
        px, pw, py = kb.pointer(x), kb.pointer(w), kb.pointer(y)
        assert op(px, pw, py) == 0
        np.testing.assert_allclose(
            y.reshape(last(expected).shape),
            last(expected),
            rtol=1e-3,
            atol=1e-4 * float(np.abs(expected).max()),
        )
        peer_s, ours_s = best_times(
            [lambda: peer.run(None, feeds), lambda: op(px, pw, py)],  # noqa: B023
            rounds,
        )
        print(
            f"{name:24} {peer_s * 1e6:9.2f} {ours_s * 1e6:9.2f} {peer_s / ours_s:6.2f}", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cc", default="gcc")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    machine = get_target("native")
    with tempfile.TemporaryDirectory() as folder:
        bench_convolutions(machine, Path(folder), options.cc, options.rounds, options.only)
        bench_operators(machine, Path(folder), options.cc, options.rounds, options.only)


if __name__ == "__main__":
    main()
