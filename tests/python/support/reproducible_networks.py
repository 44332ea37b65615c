"""Networks that together use all kernels of floats, for tests of equal bits."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx
from onnx import helper
from onnx_graph import model

node = helper.make_node
RNG = np.random.default_rng(11)


def normal(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.7).astype(np.float32)


X = normal(1, 12, 9, 11)
PICTURE = normal(1, 3, 12, 12)
TEN = {"hidden_size": 10}
ROWS = normal(3, 83)
SHORT = normal(5, 7)
STEPS = normal(6, 2, 13)
ONE = normal(1, 300)
POSITIVE = np.abs(normal(3, 83)) + np.float32(0.1)
MANY = normal(17, 130)
BIAS = normal(83)

# Name: node attributes and inputs; the first is the network's, the others are weights.
LAYERS = {
    "conv": ("Conv", [X, normal(19, 12, 3, 3), normal(19)], {"pads": [1, 1, 1, 1]}),
    "conv of few channels": ("Conv", [PICTURE, normal(8, 3, 5, 5)], {"strides": [2, 2]}),
    "conv of groups": ("Conv", [X, normal(8, 6, 3, 3), normal(8)], {"group": 2}),
    "conv of one row": ("Conv", [normal(1, 10, 40), normal(7, 10, 3)], {"dilations": [2]}),
    "conv with gaps": (
        "Conv", [X, normal(5, 12, 2, 3)], {"dilations": [1, 2], "pads": [2, 0, 0, 2]}
    ),
    "depthwise": ("Conv", [X, normal(12, 1, 3, 3), normal(12)], {"group": 12, "pads": [1] * 4}),
    "depthwise, multiplier 2": ("Conv", [X, normal(24, 1, 5, 5)], {"group": 12, "pads": [2] * 4}),
    "transposed conv": ("ConvTranspose", [X, normal(12, 5, 3, 3), normal(5)], {"strides": [2, 2]}),
    "one row": ("Gemm", [ONE, normal(300, 20), normal(20)], {}),
    "many rows": ("MatMul", [MANY, normal(130, 33)], {}),
    "one column": ("MatMul", [MANY, normal(130, 1)], {}),
    "matrices": ("MatMul", [normal(2, 3, 70), normal(2, 70, 9)], {}),
    "softmax": ("Softmax", [ROWS], {"axis": -1}),
    "softmax of few": ("Softmax", [SHORT], {"axis": -1}),
    "softmax of 25": ("Softmax", [normal(3, 25)], {"axis": -1}),
    "softmax of columns": ("Softmax", [ROWS.reshape(83, 3)], {"axis": 0}),
    "softmax of short columns": ("Softmax", [SHORT], {"axis": 0}),
    "log softmax": ("LogSoftmax", [ROWS], {"axis": -1}),
    "layer norm": ("LayerNormalization", [ROWS, normal(83), BIAS], {}),
    "layer norm of 300": ("LayerNormalization", [ONE, normal(300)], {}),
    "instance norm": ("InstanceNormalization", [X, normal(12), normal(12)], {}),
    "local response": ("LRN", [X], {"size": 5}),
    "mean": ("ReduceMean", [MANY], {"axes": [1], "keepdims": 0}),
    "mean of columns": ("ReduceMean", [MANY], {"axes": [0], "keepdims": 0}),
    "mean of all": ("ReduceMean", [MANY], {"keepdims": 0}),
    "norm": ("ReduceL2", [MANY], {"axes": [1], "keepdims": 0}),
    "log of a sum": ("ReduceLogSumExp", [MANY], {"axes": [1], "keepdims": 0}),
    "global pool": ("GlobalAveragePool", [X], {}),
    "average pool": ("AveragePool", [X], {"kernel_shape": [3, 3], "pads": [1] * 4}),
    "norm pool": ("LpPool", [X], {"kernel_shape": [2, 2], "p": 2}),
    "lstm": ("LSTM", [STEPS, normal(1, 40, 13), normal(1, 40, 10), normal(1, 80)], TEN),
    "gru": ("GRU", [STEPS, normal(1, 30, 13), normal(1, 30, 10)], TEN),
    "rnn": ("RNN", [STEPS, normal(1, 10, 13), normal(1, 10, 10)], TEN),
    "cumulative sum": ("CumSum", [ROWS, np.int64(1)], {}),
    "resize": ("Resize", [X, None, np.float32([1, 1, 1.7, 2.3])], {"mode": "linear"}),
    "cubic resize": ("Resize", [X, None, np.float32([1, 1, 1.7, 2.3])], {"mode": "cubic"}),
    "power": ("Pow", [POSITIVE, np.float32(1.7)], {}),
    "prelu": ("PRelu", [ROWS, normal(1)], {}),
}  # fmt: skip
FUNCTIONS = (
    "Erf", "Tanh", "Sigmoid", "Exp", "Softplus", "Elu", "Selu", "HardSwish", "Sin", "Cos",
    "Tan", "Atan", "Sinh", "Cosh", "Asinh", "Softsign", "Celu",
)  # fmt: skip
OF_POSITIVE = ("Log", "Sqrt", "Reciprocal")


INTEGERS = {
    "integer conv": (X, normal(10, 12, 3, 3) * np.float32(0.2), 1),
    "integer depthwise": (X, normal(12, 1, 3, 3), 12),
    "integer conv of one column": (X, normal(10, 12, 9, 1) * np.float32(0.2), 1),
}


def _quantized_layer(nodes: list, weights: dict, x: str, y: str, w: np.ndarray, group: int) -> None:
    """Append a convolution between QuantizeLinear and DequantizeLinear, with a ReLU."""
    scales = np.abs(w).max(axis=(1, 2, 3)) / np.float32(127)
    weights[f"{y}_w"] = np.round(w / scales[:, None, None, None]).astype(np.int8)
    weights[f"{y}_s"], weights[f"{y}_z"] = scales, np.zeros(len(w), np.int8)
    nodes += [
        node("QuantizeLinear", [x, "scale", "zero"], [f"{y}_q"]),
        node("DequantizeLinear", [f"{y}_q", "scale", "zero"], [f"{y}_x"]),
        node("DequantizeLinear", [f"{y}_w", f"{y}_s", f"{y}_z"], [f"{y}_f"], axis=0),
        node("Conv", [f"{y}_x", f"{y}_f"], [f"{y}_c"], group=group),
        node("Relu", [f"{y}_c"], [f"{y}_r"]),
        node("QuantizeLinear", [f"{y}_r", "scale", "zero"], [f"{y}_o"]),
        node("DequantizeLinear", [f"{y}_o", "scale", "zero"], [y]),
    ]


# Networks of several layers each, so that kernels are compiled once.
GROUPS = {
    "windows": [name for name in LAYERS if "conv" in name or "depthwise" in name or "pool" in name],
    "products": ["one row", "many rows", "one column", "matrices", "lstm", "gru", "rnn"],
    "rows": [name for name in LAYERS if "softmax" in name or "norm" in name or "mean" in name],
    "integers": [],
    "rest": ["local response", "log of a sum", "cumulative sum", "resize", "cubic resize", "power",
             "prelu"],
}  # fmt: skip


@cache
def network(group: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return the network of a group, whose outputs are its layers, and its inputs."""
    nodes, inputs, weights, outputs = [], {}, {}, []
    for number, name in enumerate(GROUPS[group]):
        kind, (x, *rest), attributes = LAYERS[name]
        inputs[f"x{number}"] = x
        names = [f"x{number}"]
        for i, w in enumerate(rest):
            names.append("" if w is None else f"w{number}_{i}")
            if w is not None:
                weights[names[-1]] = np.asarray(w)
        outputs.append(name.replace(" ", "_").replace(",", ""))
        nodes.append(node(kind, names, [outputs[-1]], **attributes))
    if group == "products":  # both operands are computed: many rows, and few
        inputs |= {"many": MANY, "few": ROWS}
        for name in ("many", "few"):
            nodes.append(node("Transpose", [name], [f"{name}_columns"]))
            nodes.append(node("MatMul", [name, f"{name}_columns"], [f"{name}_similarities"]))
            outputs.append(f"{name}_similarities")
    if group == "integers":
        weights |= {"scale": np.float32(0.03), "zero": np.int8(-7)}
        for number, (name, (x, w, groups)) in enumerate(INTEGERS.items()):
            inputs[f"x{number}"] = x
            outputs.append(name.replace(" ", "_"))
            _quantized_layer(nodes, weights, f"x{number}", outputs[-1], w, groups)
    if group == "rest":
        inputs |= {"x": ROWS, "p": POSITIVE}
        nodes += [node(each, ["x"], [each]) for each in FUNCTIONS]
        for each in ("Sin", "Cos"):  # beyond the range of the fast reduction, too
            nodes += [node("Mul", ["x", "million"], [f"{each}_angle"])]
            nodes += [node(each, [f"{each}_angle"], [f"{each}_far"])]
        weights["million"] = np.float32(1.3e6)
        outputs += ["Sin_far", "Cos_far"]
        nodes += [node(each, ["p"], [each]) for each in OF_POSITIVE]
        # a polynomial, where a compiler could fuse products and sums
        nodes += [node("Mul", ["x", "p"], ["xp"]), node("Add", ["xp", "x"], ["polynomial"])]
        outputs += [*FUNCTIONS, *OF_POSITIVE, "polynomial"]
    return model(nodes, inputs, outputs, weights, opset=17), inputs


def check_equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Compare all layers' bits, but for the sign of zeros and for NaN."""
    assert list(found) == list(expected)
    equal = {
        name: int((one.reshape(expected[name].shape) == expected[name]).sum())
        for name, one in found.items()
    }
    wrong = {
        name: f"{equal[name]} of {e.size}" for name, e in expected.items() if equal[name] != e.size
    }
    assert not wrong, f"elements with the same bits: {wrong}"
