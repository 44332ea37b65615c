"""Single 8-bit layers against onnxruntime: chains of equal layers, both measured in turn in one
run. Layers whose bytes differ say so: where a processor has no VNNI, onnxruntime's sums of products
of uint8 and int8 saturate, and those of u8s8 with them.

Run from the repository root: python tests/bench/kernels/bench_i8.py [part of a layer's name ...]
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "kernels"))

from i8_case import FLAGS, Shape, int8_range, layer, random_bytes, usable_formats
from kernel_build import build, pointer

from tvmrt.compiler.codegen.c.formatting import initializer
from tvmrt.compiler.codegen.window.choose_i8 import find_overflow, with_tile
from tvmrt.compiler.codegen.window.layer_i8 import ConstantsI8, VariantI8
from tvmrt.compiler.codegen.window.packing_i8 import pack, pad_channels
from tvmrt.compiler.codegen.window.plan_i8 import PlanI8, make_plan
from tvmrt.compiler.codegen.window.print_i8 import (
    amx_members,
    layer_members,
    tile_definitions,
    tile_headers,
)
from tvmrt.compiler.codegen.window.tiles_i8 import FORMATS

ONE, TWO, NONE = (1, 1), (2, 2), ((0, 0), (0, 0))


def dense(size: int, in_c: int, out_c: int, k: int) -> Shape:
    pad = (((k - 1) // 2, (k - 1) // 2),) * 2
    return Shape(in_c=in_c, out_c=out_c, size=(size, size), kernel=(k, k), pad=pad)


def depthwise(size: int, c: int, k: int = 3) -> Shape:
    pad = (((k - 1) // 2, (k - 1) // 2),) * 2
    return Shape(in_c=c, out_c=c, groups=c, size=(size, size), kernel=(k, k), pad=pad)


# Each chain is the listed layers, repeated until it has eight.
CHAINS = {
    "3x3 56x56 64": [dense(56, 64, 64, 3)],
    "3x3 14x14 256": [dense(14, 256, 256, 3)],
    "3x3 7x7 512": [dense(7, 512, 512, 3)],
    "1x1 28x28 256": [dense(28, 256, 256, 1)],
    "1x1 7x7 1024": [dense(7, 1024, 1024, 1)],
    "1x1 56x56 24-144-24": [dense(56, 24, 144, 1), dense(56, 144, 24, 1)],
    "1x1 14x14 96-576-96": [dense(14, 96, 576, 1), dense(14, 576, 96, 1)],
    "3x3 32x32 16": [dense(32, 16, 16, 3)],
    "3x3 8x8 64": [dense(8, 64, 64, 3)],
    "1x1 25x5 64": [Shape(in_c=64, out_c=64, size=(25, 5), kernel=ONE, pad=NONE)],
    "dw 3x3 56x56 128": [depthwise(56, 128)],
    "dw 3x3 14x14 512": [depthwise(14, 512)],
    "dw 3x3 28x28 144": [depthwise(28, 144)],
    "dw 5x5 14x14 240": [depthwise(14, 240, 5)],
    "dw 3x3 25x5 64": [Shape(in_c=64, out_c=64, groups=64, size=(25, 5))],
    "dense 1x1024x1024": [Shape(in_c=1024, out_c=1024, size=ONE, kernel=ONE, pad=NONE)],
    "dense 1x128x128": [Shape(in_c=128, out_c=128, size=ONE, kernel=ONE, pad=NONE)],
    "matmul 128x256x256": [Shape(in_c=256, out_c=256, size=(1, 128), kernel=ONE, pad=NONE)],
}
# Input signed, weights signed, zero point of the weights. The weights of u8u8 are distributed like
# those of networks: only the
# largest do not fit into int8 once their zero point is taken off; those of u8uni are uniform.
TYPES = {
    "u8s8": (False, True, 0),
    "s8s8": (True, True, 0),
    "u8u8": (False, False, 121),
    "u8uni": (False, False, 121),
}
LENGTH = 8


def network(
    shapes: list[Shape], weights: list[np.ndarray], types: tuple[bool, bool, int], scale: float
) -> bytes:
    """Return the chain as QLinearConv nodes."""
    x_type = np.int8 if types[0] else np.uint8
    zero = np.array(0 if types[0] else 128, x_type)
    constants = [
        numpy_helper.from_array(np.array(1, np.float32), "one"),
        numpy_helper.from_array(np.array(scale, np.float32), "ws"),
        numpy_helper.from_array(zero, "zx"),
        numpy_helper.from_array(np.array(types[2], weights[0].dtype), "zw"),
    ]
    nodes = []
    for i, (shape, w) in enumerate(zip(shapes, weights)):
        constants.append(numpy_helper.from_array(w, f"w{i}"))
        names = [f"t{i}", "one", "zx", f"w{i}", "ws", "zw", "one", "zx"]
        (top, bottom), (left, right) = shape.pad
        nodes.append(
            helper.make_node(
                "QLinearConv",
                names,
                [f"t{i + 1}"],
                pads=[top, left, bottom, right],
                group=shape.groups,
            )
        )
    kind = TensorProto.INT8 if types[0] else TensorProto.UINT8
    first, last = shapes[0], shapes[-1]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("t0", kind, [1, first.in_c, *first.size])],
        [helper.make_tensor_value_info(f"t{len(shapes)}", kind, [1, last.out_c, *last.out])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def plan_of(fmt: str, constants: ConstantsI8) -> PlanI8:
    """Return the plan of a layer in a weight format, row by row."""
    variant = VariantI8(constants.layer, FORMATS[fmt])
    variant = replace(variant, overflow=find_overflow(variant, constants))
    choice = with_tile(variant)
    return make_plan(replace(choice, shifted=variant.shifts(constants) is not None))


def layer_structs(i: int, plan: PlanI8) -> str:
    members, text = layer_members(plan), ""
    if plan.amx is not None:
        text = f"static const tvmrt_conv_i8_amx amx{i} = {initializer(amx_members(plan.amx))};\n"
        members["amx"] = f"&amx{i}"
    return f"{text}static const tvmrt_conv_i8 conv{i} = {initializer(members)};"


def chain_source(plans: list[PlanI8]) -> str:
    definitions = dict.fromkeys(line for plan in plans for line in tile_definitions(plan))
    headers = dict.fromkeys(header for plan in plans for header in tile_headers(plan))
    includes = "\n".join(f"#include <tvm/runtime/kernels/{header}>" for header in headers)
    structs = "\n".join(layer_structs(i, plan) for i, plan in enumerate(plans))
    calls = "\n".join(
        f"  {{ const tvmrt_conv_i8_data d = {{b[{i % 2}], w[{i}], bias[{i}], scale[{i}], "
        f"shift[{i}], b[{(i + 1) % 2}], r,"
        f" NULL, NULL, 1}};\n    if (tvmrt_conv_i8_run(&conv{i}, &d) != 0) return -1; }}"
        for i in range(len(plans))
    )
    return f"""
#define TVMRT_I8_FORMAT {plans[0].variant.fmt.macro}
#include <tvm/runtime/kernels/depthwise_i8.h>
{includes}
{chr(10).join(definitions)}
{structs}
int run(void** b, const int8_t** w, const int32_t** bias, const float** scale, const int32_t**
shift,
        const tvmrt_i8_range* r);
int run(void** b, const int8_t** w, const int32_t** bias, const float** scale, const int32_t**
shift,
        const tvmrt_i8_range* r) {{
{calls}
  return 0;
}}
"""


class Ours:
    """The chain with our kernels."""

    def __init__(
        self, fmt: str, shapes: list[Shape], weights: list[np.ndarray], types: tuple, scale: float
    ) -> None:
        zero = 0 if types[0] else 128
        kind = np.int8 if types[0] else np.uint8
        layers = [layer(s, types[0], zero, threads=1) for s in shapes]
        layers = [replace(each, window=each.window.in_longest_rows()) for each in layers]
        constants = [ConstantsI8(each, w, types[2]) for each, w in zip(layers, weights)]
        plans = [plan_of(fmt, each) for each in constants]
        packed = [pack(plan, each) for plan, each in zip(plans, constants)]
        scales = [pad_channels(plan, np.float32(scale)) for plan in plans]
        most = max(
            max(int(np.prod(s.size)) * s.in_c, int(np.prod(s.out)) * s.out_c) for s in shapes
        )
        self.buffers = [np.zeros(most, kind) for _ in range(2)]
        self.range = int8_range(zero, types[0])
        self.keep = [packed, scales]

        def table(arrays: list) -> ctypes.Array:
            return (ctypes.c_void_p * len(arrays))(
                *(None if a is None else a.ctypes.data for a in arrays)
            )

        self.arguments = [
            table(self.buffers),
            table([p.weights for p in packed]),
            table([p.bias for p in packed]),
            table(scales),
            table([p.shift for p in packed]),
            pointer(self.range),
        ]
        folder = Path(tempfile.gettempdir()) / "tvmrt_bench_i8"
        folder.mkdir(exist_ok=True)
        self.library = build(folder, chain_source(plans), FLAGS[fmt])

    def __call__(self) -> None:
        self.library.run(*self.arguments)


def measure(name: str, fmt: str, types: str, rounds: int = 15) -> None:
    shapes = (CHAINS[name] * LENGTH)[:LENGTH]
    rng = np.random.default_rng(1)
    kinds = TYPES[types]
    weights = [
        random_bytes(rng, kinds[1], (s.out_c, s.in_c // s.groups, *s.kernel)) for s in shapes
    ]
    if types == "u8u8":
        weights = [((w.astype(int) * 2 + 121) // 3).clip(5, 240).astype(np.uint8) for w in weights]
        for w in weights:
            w.reshape(-1)[w.size // 2] = 255
    scale = 0.01 / np.sqrt(weights[0][0].size)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(
        network(shapes, weights, kinds, scale), options, providers=["CPUExecutionProvider"]
    )
    ours = Ours(fmt, shapes, weights, kinds, scale)
    x = random_bytes(rng, kinds[0], (1, shapes[0].in_c, *shapes[0].size))
    binding = session.io_binding()
    binding.bind_cpu_input("t0", x)
    binding.bind_output(f"t{LENGTH}")
    np.copyto(ours.buffers[0][: x.size], x.transpose(0, 2, 3, 1).reshape(-1))
    ours()
    session.run_with_iobinding(binding)
    y = binding.copy_outputs_to_cpu()[0]
    mine = ours.buffers[LENGTH % 2][: y.size].reshape(y.transpose(0, 2, 3, 1).shape)
    same = np.array_equal(mine, y.transpose(0, 2, 3, 1))
    calls = [lambda: session.run_with_iobinding(binding), ours]
    times: list[list[float]] = [[], []]
    repeats = []
    for call in calls:
        start = time.perf_counter()
        call()
        repeats.append(max(1, int(0.004 / (time.perf_counter() - start))))
    for _ in range(rounds):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            for _ in range(repeats[i]):
                call()
            times[i].append((time.perf_counter() - start) / repeats[i] / LENGTH * 1e6)
    macs = sum(w.size * int(np.prod(s.out)) for s, w in zip(shapes, weights)) / LENGTH
    ort, us = np.array(times)
    print(
        f"{name:22s} {types} {fmt:8s} ort {ort.min():8.2f} us  ours {us.min():8.2f} us  "
        f"speed {ort.min() / us.min():5.2f} (median {np.median(ort / us):5.2f})  "
        f"{macs / us.min() / 1e3:6.1f} GMAC/s"
        f"{'' if same else '  DIFFERENT'}"
    )


def main(words: list[str]) -> None:
    fmt = next((w[4:] for w in words if w.startswith("fmt=")), usable_formats()[-1])
    words = [w for w in words if not w.startswith("fmt=")]
    for name in CHAINS:
        for types in TYPES:
            if all(word in f"{name} {types}" for word in words):
                measure(name, fmt, types)


if __name__ == "__main__":
    main(sys.argv[1:])
