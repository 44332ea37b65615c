"""Integer convolutions in groups and with a depth multiplier on boards: the bits of onnxruntime,
and the same instructions for every input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from boards import BOARDS, run_network
from onnx import helper
from onnx_graph import model

import tvmrt

SEEDS = range(24)  # layers of a network
TARGETS = ("cortex-m4", "cortex-m55", "cortex-m0plus", "riscv32", "rv32imac_zve32x")


@dataclass(frozen=True)
class Conv:
    """A random layer; sizes are of one or two axes."""

    rng: np.random.Generator
    in_c: int
    out_c: int
    groups: int
    size: tuple[int, ...]
    batch: int
    attributes: dict[str, list[int]]
    signed: bool

    @classmethod
    def random(cls, seed: int) -> Conv:
        rng = np.random.default_rng(seed)

        def one(*values):
            return values[rng.integers(len(values))]

        if seed % 2:
            groups = int(rng.integers(2, 7))
            in_c, out_c = groups, groups * one(2, 3, 4, 8)
        else:
            groups = one(2, 3, 4)
            in_c, out_c = groups * one(2, 4, 8, int(rng.integers(2, 20))), groups * one(1, 4, 5, 8)
        axes = one(1, 2, 2)
        kernel = one([1] * axes, [3] * axes, [3] * axes, rng.integers(1, 6, axes).tolist())
        stride = one([1] * axes, [2] * axes, [1] * axes)
        pads = [int(rng.integers(0, k)) for k in [*kernel, *kernel]]
        attributes = {
            "kernel_shape": kernel, "pads": pads, "strides": stride,
            "dilations": one([1] * axes, [1] * axes, [2] * axes),
        }  # fmt: skip
        if max(kernel) == 1:  # may overwrite its input
            attributes |= {"pads": [0] * 2 * axes, "strides": [1] * axes}
        size = tuple(rng.integers(9, 14, axes).tolist())
        return cls(rng, in_c, out_c, groups, size, one(1, 1, 2), attributes, bool(rng.integers(2)))

    def add(self, nodes: list, inputs: dict, weights: dict, name: str, after: str) -> str:
        """Add the layer, and the nodes ``after`` it; return the name of the result."""
        rng, kernel = self.rng, self.attributes["kernel_shape"]
        dtype, low = (np.int8, -128) if self.signed else (np.uint8, 0)
        shape = (self.batch, self.in_c, *self.size)
        inputs[f"{name}_x"] = rng.integers(low, low + 256, shape).astype(dtype)
        w = rng.integers(-100, 101, (self.out_c, self.in_c // self.groups, *kernel))
        wide = 40 / (74 * 58 * np.sqrt(w[0].size))
        weights |= {
            f"{name}_xs": np.float32(0.05), f"{name}_xz": dtype(low + rng.integers(256)),
            f"{name}_w": w.astype(np.int8), f"{name}_wz": np.zeros(self.out_c, np.int8),
            f"{name}_ws": rng.uniform(0.5, 1.5, self.out_c).astype(np.float32) * np.float32(wide),
            f"{name}_ys": np.float32(0.05), f"{name}_yz": dtype(low + rng.integers(100, 150)),
            f"{name}_b": rng.integers(-20000, 20000, self.out_c).astype(np.int32),
        }  # fmt: skip
        operands = [f"{name}_{each}" for each in "x xs xz w ws wz ys yz b".split()]
        last = f"{name}_y"
        nodes.append(
            helper.make_node("QLinearConv", operands, [last], group=self.groups, **self.attributes)
        )
        scale = [f"{name}_ys", f"{name}_yz"]
        if after == "add":
            out = [self.batch, self.out_c]
            for i, extent in enumerate(self.size):
                reach = (kernel[i] - 1) * self.attributes["dilations"][i] + 1
                pads = self.attributes["pads"][i] + self.attributes["pads"][i + len(self.size)]
                out.append((extent + pads - reach) // self.attributes["strides"][i] + 1)
            inputs[f"{name}_r"] = rng.integers(low, low + 256, out).astype(dtype)
            for each in (last, f"{name}_r"):
                nodes.append(helper.make_node("DequantizeLinear", [each, *scale], [f"{each}_f"]))
            nodes.append(helper.make_node("Add", [f"{last}_f", f"{name}_r_f"], [f"{name}_sum"]))
            last = f"{name}_out"
            nodes.append(helper.make_node("QuantizeLinear", [f"{name}_sum", *scale], [last]))
        elif after == "float":
            nodes.append(helper.make_node("DequantizeLinear", [last, *scale], [f"{name}_out"]))
            last = f"{name}_out"
        return last


def network():
    """Return a network of independent layers, and its inputs."""
    nodes, inputs, weights, results = [], {}, {}, []
    for seed in SEEDS:
        after = ("", "", "add", "float", "add")[seed % 5]
        results.append(Conv.random(seed).add(nodes, inputs, weights, f"n{seed}", after))
    return model(nodes, inputs, results, weights), inputs


@pytest.mark.parametrize(
    "target", [TARGETS[0], *(pytest.param(each, marks=pytest.mark.slow) for each in TARGETS[1:])]
)
def test_bits_are_those_of_onnxruntime(target, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    board = BOARDS[target]
    net, inputs = network()
    library = tvmrt.compile(
        net, target=target, interface_api="c", unpacked_api=True, module_name="net"
    )
    counts = []
    for number, feeds in enumerate((inputs, {k: np.zeros_like(v) for k, v in inputs.items()})):
        outcome = run_network(board, library, feeds, tmp_path / str(number), True)
        counts.append(outcome.instructions)
        session = ort.InferenceSession(net.SerializeToString())
        for name, golden in zip(outcome.outputs, session.run(list(outcome.outputs), feeds)):
            np.testing.assert_array_equal(outcome.outputs[name], golden, name)
    code = "".join(p.read_text() for p in (tmp_path / "0").rglob("*_lib1.c"))
    assert code.count("tvmrt_micro_select_group(") == len(SEEDS)
    if target == "cortex-m4":
        assert abs(counts[0] - counts[1]) <= 1  # as exact as the board's clock
