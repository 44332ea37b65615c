"""Products of two computed 8-bit operands on boards, compared with exact integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from boards import BOARDS, MORE_BOARDS, run_network
from onnx import TensorProto, helper, numpy_helper

import tvmrt

MACHINES = {**BOARDS, **MORE_BOARDS}
TYPES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}


@dataclass(frozen=True)
class Case:
    """A product [batch, rows, depth] x [batch, depth, columns]; the right operand is transposed in
    memory if ``swapped``; ``scale``: of the result of bytes, None for int32."""

    batch: int
    rows: int
    depth: int
    columns: int
    types: tuple[str, str]
    zeros: tuple[int, int]
    swapped: bool
    scale: float | None

    def operands(self, rng: np.random.Generator) -> list[np.ndarray]:
        right = (self.batch, self.depth, self.columns)
        if self.swapped:
            right = (self.batch, self.columns, self.depth)
        limits = (np.iinfo(kind) for kind in self.types)
        shapes = ((self.batch, self.rows, self.depth), right)
        return [
            rng.integers(limit.min, limit.max + 1, shape).astype(limit.dtype)
            for limit, shape in zip(limits, shapes)
        ]

    def product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        right = b.swapaxes(1, 2) if self.swapped else b
        sums = (a.astype(np.int64) - self.zeros[0]) @ (right.astype(np.int64) - self.zeros[1])
        if self.scale is None:
            return sums.astype(np.int32)
        steps = np.rint(sums.astype(np.float32) * np.float32(1 / np.float32(self.scale))) + 5
        return np.clip(steps, -128, 127).astype(np.int8)


def drawn_cases(seed: int, count: int) -> list[Case]:
    """Return cases of all kinds; sizes around the kernels' units, with remainders."""
    rng = np.random.default_rng(seed)
    cases = []
    for index in range(count):
        types = tuple(str(rng.choice(list(TYPES))) for _ in "ab")
        zeros = tuple(
            0 if rng.random() < 0.3 else int(rng.integers(np.iinfo(t).min, np.iinfo(t).max + 1))
            for t in types
        )
        rows, columns = (int(rng.choice([1, 2, 3, 4, 5, 7, 8, 13])) for _ in "mn")
        depth = int(rng.choice([1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 40, 130, 257]))
        columns = int(rng.choice([columns, 33, 66]))
        scale = None if index % 3 == 0 else float(rng.uniform(200, 4000))
        swapped = bool(rng.random() < 0.5)
        cases.append(Case(1 + index % 2, rows, depth, columns, types, zeros, swapped, scale))
    return cases


def network(cases: list[Case], operands: list[list[np.ndarray]]):
    """Return an ONNX network with a product for each case."""
    nodes, constants, inputs, outputs = [], [], [], []

    def constant(name: str, value: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(value, name))
        return name

    for i, (case, arrays) in enumerate(zip(cases, operands)):
        names = [f"a{i}", f"b{i}"]
        for name, array in zip(names, arrays):
            kind = TYPES[str(array.dtype)]
            inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
        zeros = [
            constant(f"{side}{i}_zero", np.array(zero, array.dtype))
            for side, zero, array in zip("ab", case.zeros, arrays)
        ]
        if case.swapped:
            nodes.append(helper.make_node("Transpose", [names[1]], [f"t{i}"], perm=[0, 2, 1]))
            names[1] = f"t{i}"
        y = f"y{i}"
        shape = (case.batch, case.rows, case.columns)
        if case.scale is None:
            nodes.append(helper.make_node("MatMulInteger", [*names, *zeros], [y]))
            outputs.append(helper.make_tensor_value_info(y, TensorProto.INT32, shape))
            continue
        one = constant(f"one{i}", np.float32(1))
        scale = constant(f"scale{i}", np.float32(case.scale))
        zero = constant(f"zero{i}", np.int8(5))
        quantized = [names[0], one, zeros[0], names[1], one, zeros[1], scale, zero]
        nodes.append(helper.make_node("QLinearMatMul", quantized, [y]))
        outputs.append(helper.make_tensor_value_info(y, TensorProto.INT8, shape))
    graph = helper.make_graph(nodes, "products", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    "board",
    ["cortex-m4", *(pytest.param(name, marks=pytest.mark.slow)
                    for name in ("cortex-m0plus", "cortex-m55", "riscv32", "rv32imac_zve32x"))],
)  # fmt: skip
def test_products_are_exact(board, tmp_path):
    cases, rng = drawn_cases(11, 24), np.random.default_rng(5)
    operands = [case.operands(rng) for case in cases]
    feeds = {f"{side}{i}": x for i, pair in enumerate(operands) for side, x in zip("ab", pair)}
    library = tvmrt.compile(
        network(cases, operands), target=board, interface_api="c", module_name="net"
    )
    outcome = run_network(MACHINES[board], library, feeds, tmp_path)
    code = "".join(path.read_text() for path in (tmp_path / "net").rglob("*_lib1.c"))
    assert "tvmrt_matmul_i8_dynamic(" not in code
    for i, (case, arrays) in enumerate(zip(cases, operands)):
        found, expected = outcome.outputs[f"y{i}"], case.product(*arrays)
        # boards without floating point requantise in integers, at most a step away
        allowed = 0 if case.scale is None or board in ("cortex-m4", "cortex-m55") else 1
        assert np.abs(found.astype(np.int64) - expected).max() <= allowed, case
