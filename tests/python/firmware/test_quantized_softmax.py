"""Softmax of bytes on boards: one step from real numbers, equal on all processors."""

from __future__ import annotations

import numpy as np
import pytest
from boards import BOARDS, run_network
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.compiler.ir import get_op
from tvmrt.compiler.ir.quantized_softmax import exponentials, factor_of

# rows and their length, type and scale of x, scale, zero point and type of y
CASES = [
    ((300, 1), "int8", 0.05, 1 / 256, -128, "int8"),
    ((8, 5, 7), "uint8", 0.3, 1 / 255, 0, "uint8"),
    ((2, 4, 33), "int8", 0.9, 0.004, -128, "int8"),
    ((2, 1000), "uint8", 0.0002, 0.00025, 3, "uint8"),
    ((5, 64), "int8", 0.11, 0.0078, 100, "int8"),
]


def operands() -> list[np.ndarray]:
    rng, arrays = np.random.default_rng(4), []
    for shape, kind, *_ in CASES:
        limits = np.iinfo(kind)
        x = rng.integers(limits.min, limits.max + 1, shape).astype(kind)
        x[:1] = rng.integers(limits.max - 3, limits.max + 1, x[:1].shape)  # nearly equal elements
        arrays.append(x)
    return arrays


def exact_steps(x: np.ndarray, case: tuple) -> np.ndarray:
    """Return softmax in float64, divided by the scale of the result and limited to its type."""
    _, _, scale, y_scale, zero, kind = case
    real = np.exp((x.astype(np.float64) - x.max(-1, keepdims=True).astype(np.float64)) * scale)
    steps = real / real.sum(-1, keepdims=True) / y_scale + zero
    return np.minimum(steps, np.iinfo(kind).max)


def evaluated(x: np.ndarray, case: tuple) -> np.ndarray:
    """Return what the operator computes."""
    _, _, scale, y_scale, zero, to = case
    factor, bits = factor_of(float(np.float32(y_scale)))
    attrs = {"factor": factor, "bits": bits, "y_zero": zero, "to": to}
    (found,) = get_op("qsoftmax").evaluate([x, exponentials(float(np.float32(scale)))], attrs)
    return found


def network():
    """Return an ONNX network with dequantize, softmax, quantize for each case."""
    nodes, constants, inputs, outputs = [], [], [], []
    for i, (shape, kind, scale, y_scale, zero, to) in enumerate(CASES):
        values = {"s": np.float32(scale), "z": np.zeros((), kind), "t": np.float32(y_scale),
                  "y": np.array(zero, to)}  # fmt: skip
        constants += [numpy_helper.from_array(v, f"{name}{i}_") for name, v in values.items()]
        nodes += [
            helper.make_node("DequantizeLinear", [f"x{i}", f"s{i}_", f"z{i}_"], [f"a{i}"]),
            helper.make_node("Softmax", [f"a{i}"], [f"b{i}"], axis=-1),
            helper.make_node("QuantizeLinear", [f"b{i}", f"t{i}_", f"y{i}_"], [f"y{i}"]),
        ]
        types = (getattr(TensorProto, each.upper()) for each in (kind, to))
        for name, t, infos in zip("xy", types, (inputs, outputs)):
            infos.append(helper.make_tensor_value_info(f"{name}{i}", t, shape))
    graph = helper.make_graph(nodes, "softmax", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    "board",
    ["cortex-m4", *(pytest.param(name, marks=pytest.mark.slow)
                    for name in ("cortex-m0plus", "cortex-m55", "riscv32"))],
)  # fmt: skip
def test_bytes_are_a_step_from_real_numbers_and_equal_on_all_boards(board, tmp_path):
    arrays = operands()
    library = tvmrt.compile(network(), target=board, interface_api="c", module_name="net")
    feeds = {f"x{i}": x for i, x in enumerate(arrays)}
    outcome = run_network(BOARDS[board], library, feeds, tmp_path)
    code = "".join(path.read_text() for path in (tmp_path / "net").rglob("*_lib1.c"))
    assert code.count("tvmrt_softmax_i8_rows(") == len(CASES)
    for i, (x, case) in enumerate(zip(arrays, CASES)):
        found = outcome.outputs[f"y{i}"]
        assert np.abs(found - exact_steps(x, case)).max() <= 1, case
        np.testing.assert_array_equal(found, evaluated(x, case), str(case))


def test_results_of_any_row_are_a_step_from_real_numbers():
    rng = np.random.default_rng(9)
    for _ in range(300):
        scale, y_scale = 2.0 ** rng.uniform(-12, 2), 2.0 ** rng.uniform(-12, 0)
        kind = str(rng.choice(["int8", "uint8"]))
        limits = np.iinfo(kind)
        spread = int(rng.integers(1, 257))
        x = rng.integers(limits.max - spread + 1, limits.max + 1, (4, int(rng.integers(1, 600))))
        case = (x.shape, kind, scale, y_scale, 0, "uint8")
        found = evaluated(x.astype(kind), case)
        assert np.abs(found - exact_steps(x, case)).max() <= 1, case
