"""Measure int8 networks with convolutions over time: instructions per multiply-accumulate.

Networks are built here with random weights, in the shapes that keyword spotting and sensor
networks use: residual blocks (TC-ResNet), depthwise-separable layers (streaming wake words),
causal dilated layers (TCN) and long depthwise kernels (MatchboxNet). Time is an axis of its own,
or the height or the width of an image. QEMU counts the instructions of one inference; outputs
are compared with onnxruntime's. ``--check`` exits 1 above the limits.

    python tests/bench/firmware/temporal.py [NETWORK ...] [--target cortex-m55 ...] [--check]
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from pathlib import Path

import bench_firmware
import onnx
from own_networks import _Network, _quantised, example, golden

# Instructions per multiply-accumulate.
LIMITS = {"cortex-m55": 1.0}
TIME = {"": lambda n: (n,), "_rows": lambda n: (n, 1), "_columns": lambda n: (1, n)}


class _Temporal(_Network):
    """A chain of layers over time; ``place`` returns the extents of a window of n time steps."""

    def __init__(self, channels: int, steps: int, place, seed: int) -> None:
        super().__init__((1, channels, *place(steps)), seed)
        self.place, self.steps, self.macs = place, steps, 0

    def over(self, out: int, kernel: int, stride=1, dilation=1, depthwise=False, relu=True,
             causal=False) -> None:  # fmt: skip
        """Add a convolution over time; the stride divides the length, rounded up."""
        reach = (kernel - 1) * dilation
        out_steps = (self.steps - 1) // stride + 1
        total = max((out_steps - 1) * stride + reach + 1 - self.steps, 0)
        begin = total if causal else total // 2
        ones = self.place(1)
        axis = len(ones) - 1 if len(ones) == 1 else self.place(2).index(2)
        pads = [[begin if i == axis else 0 for i in range(len(ones))],
                [total - begin if i == axis else 0 for i in range(len(ones))]]  # fmt: skip
        strides = [stride if i == axis else 1 for i in range(len(ones))]
        dilations = [dilation if i == axis else 1 for i in range(len(ones))]
        groups = self.channels if depthwise else 1
        weight = self._weight(out, self.channels // groups, *self.place(kernel))
        self.add("Conv", weight, self._weight(out), kernel_shape=self.place(kernel), group=groups,
                 strides=strides, dilations=dilations, pads=pads[0] + pads[1])  # fmt: skip
        self.steps = out_steps
        self.macs += self.steps * out * (self.channels // groups) * kernel
        self.channels = out
        if relu:
            self.add("Relu")

    def separable(self, out: int, kernel: int, stride: int = 1, dilation: int = 1) -> None:
        self.over(self.channels, kernel, stride, dilation, depthwise=True)
        self.over(out, 1)

    def add_to(self, before: str) -> None:
        self.add("Add", before)
        self.add("Relu")


def tc_resnet(place) -> _Temporal:
    """Residual blocks of kernels of 9 over 40 mel channels."""
    net = _Temporal(40, 98, place, 11)
    net.over(16, 3)
    for channels in (24, 32, 48):
        before, wide, steps = net.last, net.channels, net.steps
        net.over(channels, 9, 2)
        net.over(channels, 9, relu=False)
        body, after = net.last, net.steps
        net.last, net.channels, net.steps = before, wide, steps
        net.over(channels, 1, 2)
        side = net.last
        net.last, net.steps = body, after
        net.add_to(side)
    net.head(12)
    return net


def wake_word(place) -> _Temporal:
    """Depthwise-separable layers over 40 mel channels."""
    net = _Temporal(40, 124, place, 12)
    for out, kernel in ((128, 5), (128, 5), (128, 9), (32, 9)):
        net.separable(out, kernel)
    net.head(3)
    return net


def separable3(place) -> _Temporal:
    """Small depthwise-separable layers with kernels of 3, some of them strided."""
    net = _Temporal(40, 100, place, 13)
    net.over(64, 3, 2)
    for stride in (1, 2, 1, 1):
        net.separable(64, 3, stride)
    net.head(10)
    return net


def tcn(place) -> _Temporal:
    """Causal layers whose dilation doubles, with residual adds."""
    net = _Temporal(20, 128, place, 14)
    net.over(32, 1)
    for dilation in (1, 2, 4, 8):
        before = net.last
        net.over(32, 3, 1, dilation, causal=True)
        net.over(32, 3, 1, dilation, causal=True, relu=False)
        net.add_to(before)
    net.head(8)
    return net


def dilated_separable(place) -> _Temporal:
    """Depthwise layers whose dilation doubles."""
    net = _Temporal(40, 100, place, 15)
    net.over(48, 5, 2)
    for dilation in (1, 2, 4):
        net.separable(48, 5, 1, dilation)
    net.head(12)
    return net


def matchbox(place) -> _Temporal:
    """Long depthwise kernels, of 11 to 29."""
    net = _Temporal(64, 128, place, 16)
    net.separable(128, 11, 2)
    for kernel in (13, 15, 17):
        net.separable(64, kernel)
    net.separable(128, 29)
    net.head(30)
    return net


def sensors(place) -> _Temporal:
    """Convolutions of few channels: an accelerometer's and a gyroscope's."""
    net = _Temporal(6, 128, place, 17)
    for out, kernel, stride in ((16, 7, 2), (24, 5, 2), (32, 3, 1)):
        net.over(out, kernel, stride)
    net.head(6)
    return net


FORMS = (tc_resnet, wake_word, separable3, tcn, dilated_separable, matchbox, sensors)
NETWORKS = {form.__name__ + name: (form, place) for form in FORMS for name, place in TIME.items()}


def build(name: str) -> tuple[onnx.ModelProto, int]:
    """Return an int8 network and its multiply-accumulates."""
    form, place = NETWORKS[name]
    net = form(place)
    return _quantised(net.model()), net.macs


def measure(name: str, target: str, steps: bool = False) -> tuple[float, float]:
    """Return a network's instructions per multiply-accumulate and its largest error."""
    model, macs = build(name)
    inputs = example(model, 99)
    network = bench_firmware.Network(name, model, inputs, golden(model, inputs))
    with tempfile.TemporaryDirectory() as folder:
        row = bench_firmware.measure(network, target, Path(folder), None, steps, None)
    return row["instructions"] / macs, row["error"]


def main() -> int:
    parser = argparse.ArgumentParser(description="Costs of networks over time on microcontrollers")
    parser.add_argument("networks", nargs="*", help="names (default: all)")
    parser.add_argument("--target", action="append", choices=bench_firmware.TARGETS)
    parser.add_argument("--steps", action="store_true", help="instructions of each function")
    parser.add_argument("--check", action="store_true", help="exit 1 above the limits")
    options = parser.parse_args()
    high = False
    for name in options.networks or NETWORKS:
        for target in options.target or LIMITS:
            found, error = measure(name, target, options.steps)
            high |= found > LIMITS.get(target, math.inf)
            print(f"{name:28} {target:12} {found:6.2f} instructions per MAC  error {error:.2g}",
                  flush=True)  # fmt: skip
    return int(options.check and high)


if __name__ == "__main__":
    sys.exit(main())
