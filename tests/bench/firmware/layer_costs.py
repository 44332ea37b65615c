"""Measure instructions per multiply-accumulate: layers x element types x processors.

A ``.tflite`` network has one layer of each kind, each with its own input. It is compiled for each
processor in int8, 16x8 (int16 activations, int8 weights) and float32. QEMU counts the
instructions of each layer, which are divided by the multiply-accumulates that contribute to its
output, padding included. A Cortex-M33 executes what a Cortex-M4 does.

A layer is too expensive if it costs more than FACTOR times its neighbour, a layer that differs in
the one property that the name of the layer states, or more than the same layer in float32. Then
the exit code is 1. EXCEPTIONS has the known ones, each with its reason.

    python tests/bench/firmware/layer_costs.py [--target cortex-m4 ...] [--type int8 ...]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import bench_firmware
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "support"))
import boards
from tflite_case import Net

import tvmrt

TARGETS = ("cortex-m0plus", "cortex-m4", "cortex-m55", "riscv32")
TYPES = ("int8", "int16", "float32")
FACTOR = 4
BOARDS = {**boards.BOARDS, **boards.MORE_BOARDS}


@dataclass(frozen=True)
class Layer:
    """A layer of the table; sizes are (height, width). ``neighbour``: a name in LAYERS."""

    neighbour: str
    operator: str = "CONV_2D"
    size: tuple[int, int] = (12, 12)
    channels: tuple[int, int] = (16, 16)
    kernel: tuple[int, int] = (3, 3)
    stride: int = 1
    dilation: int = 1
    groups: int = 1
    batch: int = 1
    causal: bool = False

    @property
    def depthwise(self) -> bool:
        return self.operator == "DEPTHWISE_CONV_2D"

    @property
    def out(self) -> tuple[int, int]:
        if self.operator == "TRANSPOSE_CONV":
            return self.size[0] * self.stride, self.size[1] * self.stride
        return -(-self.size[0] // self.stride), -(-self.size[1] // self.stride)

    @property
    def macs(self) -> int:
        pixels = self.size if self.operator == "TRANSPOSE_CONV" else self.out
        window = np.prod(self.kernel) * self.channels[0] // self.groups
        return int(self.batch * np.prod(pixels) * window * self.channels[1])


LAYERS = {
    "dense": Layer("dense"),
    "2groups": Layer("dense", groups=2),
    "4groups": Layer("dense", groups=4),
    "depthwise": Layer("dense", "DEPTHWISE_CONV_2D", groups=16),
    "depthwise5x5": Layer("dense", "DEPTHWISE_CONV_2D", groups=16, kernel=(5, 5)),
    "multiplier2": Layer("depthwise", "DEPTHWISE_CONV_2D", groups=16, channels=(16, 32)),
    "multiplier8": Layer("depthwise", "DEPTHWISE_CONV_2D", groups=3, channels=(3, 24)),
    "conv1d": Layer("dense", size=(1, 128), kernel=(1, 9)),
    "causal": Layer("conv1d", size=(1, 128), kernel=(1, 9), dilation=2, causal=True),
    "dilated": Layer("dense", dilation=2),
    "stride2": Layer("dense", size=(24, 24), stride=2),
    "3channels": Layer("dense", channels=(3, 16)),
    "odd": Layer("dense", channels=(15, 17)),
    "pointwise": Layer("dense", kernel=(1, 1), channels=(32, 32)),
    "transposed": Layer("dense", "TRANSPOSE_CONV", size=(6, 6), stride=2),
    "batch": Layer("dense", size=(6, 6), batch=4),
    "connected": Layer("dense", "FULLY_CONNECTED", size=(1, 1), channels=(256, 64), kernel=(1, 1)),
}  # fmt: skip

# Patterns of "layer type target" that may cost more, with the reason.
EXCEPTIONS = {
    "transposed int* *": "three of four products of stride 2 are with zeros between the pixels",
    "4groups int8 cortex-m55": "the four outputs of a group do not fill a vector of 16 products",
    "4groups int16 cortex-m*": "a window of each group is copied for four outputs",
    "depthwise int16 cortex-m55": "each product takes a load and two more instructions",
}


def network(dtype: str) -> bytes:
    """Return the file with all layers."""
    net, rng = Net(), np.random.default_rng(7)
    for name, layer in LAYERS.items():
        _add(net, rng, name, layer, dtype)
    return net.data()


def _add(net: Net, rng: np.random.Generator, name: str, layer: Layer, dtype: str) -> None:
    """Add a layer whose steps in C are called y_NAME, y_NAME_2 and so on."""
    scales = {} if dtype == "float32" else {"scale": 0.05}
    outputs = {} if dtype == "float32" else {"scale": 0.08}
    (ic, oc), (height, width) = layer.channels, layer.size
    connected = layer.operator == "FULLY_CONNECTED"
    x = net.input(
        (layer.batch, ic) if connected else (layer.batch, height, width, ic), dtype,
        name=f"x_{name}", **scales,
    )  # fmt: skip
    y = net.output(
        (layer.batch, oc) if connected else (layer.batch, *layer.out, oc), dtype,
        name=f"y_{name}", **outputs,
    )  # fmt: skip
    axis = 3 if layer.depthwise else 0
    shape = (1, *layer.kernel, oc) if axis else (oc, *layer.kernel, ic // layer.groups)
    w = _constant(net, rng, (oc, ic) if connected else shape, axis, dtype)
    bias = _bias(net, rng, oc, dtype)
    if layer.causal:
        reach = (layer.kernel[1] - 1) * layer.dilation
        padded = net.tensor((1, 1, width + reach, ic), dtype, name=f"y_{name}_pad", **scales)
        pads = net.const(np.int32([[0, 0], [0, 0], [reach, 0], [0, 0]]))
        net.op("PAD", [x, pads], [padded], options="PadOptions")
        x = padded
    if connected:
        net.op("FULLY_CONNECTED", [x, w, bias], [y], options="FullyConnectedOptions")
        return
    fields = {"strideH": layer.stride, "strideW": layer.stride, "padding": int(layer.causal)}
    if layer.operator == "TRANSPOSE_CONV":
        extents = net.const(np.int32([layer.batch, *layer.out, oc]))
        net.op("TRANSPOSE_CONV", [extents, w, x, bias], [y], 3, "TransposeConvOptions", **fields)
        return
    fields |= {"dilationHFactor": layer.dilation, "dilationWFactor": layer.dilation}
    if layer.depthwise:
        fields["depthMultiplier"] = oc // ic
    options = "DepthwiseConv2DOptions" if layer.depthwise else "Conv2DOptions"
    net.op(layer.operator, [x, w, bias], [y], 1, options, **fields)


def _constant(net: Net, rng: np.random.Generator, shape, axis: int, dtype: str) -> int:
    """Return random weights with a scale for each channel."""
    w = rng.integers(-90, 90, shape)
    if dtype == "float32":
        return net.const((w * 0.01).astype(np.float32))
    return net.const(w.astype(np.int8), np.full(shape[axis], 0.01), 0, axis)


def _bias(net: Net, rng: np.random.Generator, channels: int, dtype: str) -> int:
    b = rng.integers(-900, 900, channels)
    if dtype == "float32":
        return net.const((b * 0.001).astype(np.float32))
    return net.const(b.astype(np.int32 if dtype == "int8" else np.int64), np.full(channels, 5e-4))


def measure(target: str, dtype: str) -> dict[str, float]:
    """Return the instructions per multiply-accumulate of each layer."""
    board = BOARDS[target]
    library = tvmrt.compile(
        network(dtype), target=target, interface_api="c", unpacked_api=True, module_name="net"
    )
    inputs = {each.name: np.ones(each.shape, each.dtype) for each in library.summary.inputs}
    total = dict.fromkeys(LAYERS, 0)
    with tempfile.TemporaryDirectory() as folder:
        boards.build_network(board, library, Path(folder))
        boards.write_inputs(library, inputs, Path(folder))
        for step, count in bench_firmware.count_steps(board, Path(folder), None, None):
            # y_NAME, y_NAME_2 ...; those of the operator that becomes several have no such name
            total[step.split("_")[1] if step.startswith("y_") else "transposed"] += count
    return {name: total[name] / layer.macs for name, layer in LAYERS.items()}


def expensive(costs: dict[tuple[str, str], dict[str, float]]) -> Iterator[str]:
    """Yield a line for each layer that costs too much; ``costs`` by (target, type)."""
    for (target, dtype), row in costs.items():
        floats = costs.get((target, "float32"), {})
        for name, cost in row.items():
            if any(fnmatch(f"{name} {dtype} {target}", pattern) for pattern in EXCEPTIONS):
                continue
            neighbour = LAYERS[name].neighbour
            if cost > FACTOR * row[neighbour]:
                yield f"{name} {dtype} {target}: {cost:.2f}, {neighbour} takes {row[neighbour]:.2f}"
            if cost > floats.get(name, np.inf):
                yield f"{name} {dtype} {target}: {cost:.2f}, float32 takes {floats[name]:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Costs of layers on microcontrollers")
    parser.add_argument("--target", action="append", choices=sorted(BOARDS))
    parser.add_argument("--type", action="append", choices=TYPES)
    options = parser.parse_args()
    costs: dict[tuple[str, str], dict[str, float]] = {}
    types = options.type or TYPES
    print("instructions per multiply-accumulate")
    for target in options.target or TARGETS:
        print(f"{target:14}" + "".join(f"{dtype:>9}" for dtype in types))
        for dtype in types:
            costs[target, dtype] = measure(target, dtype)
        for name in LAYERS:
            row = (costs[target, dtype][name] for dtype in types)
            print(f"  {name:12}" + "".join(f"{cost:9.2f}" for cost in row), flush=True)
    for pattern, reason in EXCEPTIONS.items():
        print(f"exception: {pattern}: {reason}")
    found = list(expensive(costs))
    print("\n".join(f"too expensive: {line}" for line in found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
