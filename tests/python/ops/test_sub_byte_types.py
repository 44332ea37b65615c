"""Types of 8 bits and fewer: conversion in both directions, data movement, memory layout."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from differences.exact_reference import evaluators
from nn_case import run_compiled
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import tvmrt
from tvmrt.cli import main

FLOATS = {
    "FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn,
    "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "FLOAT8E5M2": ml_dtypes.float8_e5m2,
    "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "FLOAT8E8M0": ml_dtypes.float8_e8m0fnu,
    "FLOAT4E2M1": ml_dtypes.float4_e2m1fn,
}
INTEGERS = {
    "INT4": ml_dtypes.int4,
    "UINT4": ml_dtypes.uint4,
    "INT2": ml_dtypes.int2,
    "UINT2": ml_dtypes.uint2,
}
KINDS = {**FLOATS, **INTEGERS}
BITS = {"FLOAT4E2M1": 4, "INT4": 4, "UINT4": 4, "INT2": 2, "UINT2": 2}  # 8 of the others


def every(kind: str) -> np.ndarray:
    """Return all values of a type; an odd number of packed ones, so that a byte is half empty."""
    if kind in INTEGERS:
        info = ml_dtypes.iinfo(KINDS[kind])
        return np.resize(np.arange(info.min, info.max + 1), (3, 7)).astype(KINDS[kind])
    codes = np.arange(1 << BITS.get(kind, 8), dtype=np.uint8)
    return codes.view(KINDS[kind]).reshape(-1, 4)


class Net:
    """Nodes of one network, so that many cases share a library."""

    def __init__(self, opset: int = 25) -> None:
        self.opset, self.nodes, self.inputs, self.outputs = opset, [], {}, []
        self.constants: list[onnx.TensorProto] = []

    def input(self, array: np.ndarray) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = array
        return name

    def constant(self, *numbers: int) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(np.int64(numbers), name))
        return name

    def node(self, op: str, *inputs: str, kind: str, **attrs) -> str:
        """Add a node whose result, of the given ONNX type, is an output."""
        name = f"y{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attrs))
        code = getattr(TensorProto, kind)
        self.outputs.append(helper.make_tensor_value_info(name, code, None))
        return name

    def cast(self, x: str, kind: str, **attrs) -> str:
        return self.node("Cast", x, kind=kind, to=getattr(TensorProto, kind), **attrs)

    def model(self) -> onnx.ModelProto:
        inputs = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in self.inputs.items()
        ]
        graph = helper.make_graph(self.nodes, "small", inputs, self.outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])

    def check(self, folder) -> None:
        """Compare with ONNX's reference evaluator bitwise, except for NaN payloads. Its casts to
        integers of 4 and 2 bits, which the standard's text contradicts, are exact arithmetic."""
        model = self.model()
        with np.errstate(all="ignore"):
            wanted = ReferenceEvaluator(model, new_ops=evaluators()).run(None, self.inputs)
        found = run_compiled(model, self.inputs, folder)
        for info, result, node in zip(self.outputs, wanted, self.nodes):
            golden, got = np.asarray(result), found[info.name]
            assert (got.dtype, got.shape) == (golden.dtype, golden.shape), node
            label = f"{node.op_type} {node.attribute}"
            a, b = got.astype(np.float32), golden.astype(np.float32)
            np.testing.assert_array_equal(a, b, label)
            assert (np.signbit(a) == np.signbit(b))[~np.isnan(b)].all(), label


def test_every_code_decodes_to_its_value(tmp_path):
    net = Net()
    for kind in KINDS:
        x = net.input(every(kind))
        net.cast(x, "FLOAT")
        net.cast(x, "DOUBLE")
    net.check(tmp_path)


def ties() -> np.ndarray:
    """Return values near those of all types, ties between them, and values far out of range."""
    rng = np.random.default_rng(5)
    found = [
        np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1e9, -1e9, 3e38, 1e-40, -1e-45, 2**-127])
    ]
    for kind in FLOATS:
        if kind == "FLOAT8E8M0":
            continue
        numbers = np.sort(every(kind).astype(np.float32).reshape(-1))
        numbers = numbers[np.isfinite(numbers)]
        middle = (numbers[1:] + numbers[:-1]) / 2
        found += [
            numbers,
            middle,
            np.nextafter(middle, np.float32(9e9)),
            numbers * np.float32(1.07),
        ]
    found.append((rng.standard_normal(64) * 10.0 ** rng.uniform(-38, 38, 64)).astype(np.float32))
    return np.concatenate(found).astype(np.float32)


def test_floats_round_to_the_nearest_code(tmp_path):
    net = Net()
    x = net.input(ties())
    for kind in FLOATS:
        for saturate in (0, 1):
            for rounding in ("up", "down", "nearest") if kind == "FLOAT8E8M0" else ("up",):
                net.cast(x, kind, saturate=saturate, round_mode=rounding)
    net.check(tmp_path)


def test_values_of_other_types(tmp_path):
    net = Net()
    whole = np.arange(-20, 21)
    for dtype in ("int8", "int64", "uint8", "float16", "float64", "bool"):
        x = net.input(whole.astype(dtype))
        for kind in ("INT4", "UINT2", "FLOAT8E4M3FN"):
            net.cast(x, kind)
    halves = net.input(np.linspace(-7.9, 7.9, 41, dtype=np.float32))
    for kind in INTEGERS:
        net.cast(halves, kind)
        x = net.input(every(kind))
        for to in ("INT32", "UINT8", "FLOAT16", "BOOL"):
            net.cast(x, to)
    net.check(tmp_path)


def test_casts_between_sub_byte_types(tmp_path):
    net, pairs = Net(), []
    for kind in KINDS:
        x = net.input(every(kind))
        for to in ("INT4", "UINT2", "FLOAT8E4M3FNUZ", "FLOAT4E2M1"):
            numbers = every(kind).astype(np.float32)
            if to == kind or (to in INTEGERS and not (np.abs(numbers) < 1e9).all()):
                continue  # ONNX does not define casts of NaN and of values out of range
            limit = np.inf if to in INTEGERS else np.float32(ml_dtypes.finfo(KINDS[to]).max)
            golden = np.clip(numbers, -limit, limit)
            golden = np.rint(golden).astype(np.int32) if to in INTEGERS else golden
            pairs.append((net.cast(x, to), golden.astype(KINDS[to]), f"{kind} to {to}"))
    found = run_compiled(net.model(), net.inputs, tmp_path)
    for name, golden, label in pairs:
        np.testing.assert_array_equal(
            found[name].astype(np.float32), golden.astype(np.float32), label
        )


def test_moves_keep_element_bits(tmp_path):
    net = Net()
    for kind in KINDS:
        x = net.input(every(kind))
        rows, columns = every(kind).shape
        net.node("Identity", x, kind=kind)
        net.node("Transpose", x, kind=kind, perm=[1, 0])
        net.node("Reshape", x, net.constant(columns, rows), kind=kind)
        net.node("Flatten", x, kind=kind, axis=0)
        wide = net.node("Unsqueeze", x, net.constant(1), kind=kind)
        net.node("Squeeze", wide, kind=kind)
        value = onnx.numpy_helper.from_array(every(kind)[-1:, :1].reshape(1), "v")
        net.node("Constant", kind=kind, value=value)
        if kind != "FLOAT8E8M0":
            net.node("ConstantOfShape", net.constant(3), kind=kind, value=value)
    net.check(tmp_path)


def test_intermediates_and_results_twice(tmp_path):
    """A tensor that is read as float, is also an output, and has two output names."""
    net = Net()
    x = net.input(np.linspace(-9, 9, 35, dtype=np.float32).reshape(5, 7))
    for kind in ("INT4", "UINT2", "FLOAT8E5M2", "FLOAT4E2M1"):
        small = net.node("CastLike", x, net.input(every(kind)), kind=kind)
        turned = net.node("Transpose", small, kind=kind, perm=[1, 0])
        net.node("Identity", small, kind=kind)
        net.node("Identity", turned, kind=kind)
        net.node("CastLike", turned, x, kind="FLOAT")
    net.check(tmp_path)


QUANTIZED = ("INT4", "UINT4", "INT2", "UINT2", "FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT4E2M1")
FORMS = (((), {}), ((8,), {"axis": 1}), ((3, 8), {"axis": 0, "block_size": 2}))


@pytest.mark.parametrize("form", FORMS, ids=["tensor", "axis", "blocks"])
def test_quantize_and_dequantize(form, tmp_path):
    shape, attrs = form
    net = Net()
    rng = np.random.default_rng(7)
    x = net.input(rng.standard_normal((6, 8), np.float32) * 4)
    for kind in QUANTIZED:
        scale = net.input(rng.uniform(0.2, 1.5, shape).astype(np.float32))
        point = rng.integers(0, 2, shape) if kind in INTEGERS else np.zeros(shape)
        zero = net.input(np.asarray(point).astype(KINDS[kind]))
        q = net.node("QuantizeLinear", x, scale, zero, kind=kind, **attrs)
        net.node("DequantizeLinear", q, scale, zero, kind="FLOAT", **attrs)
        to = getattr(TensorProto, kind)
        net.node("QuantizeLinear", x, scale, kind=kind, output_dtype=to, **attrs)
    net.check(tmp_path)


@pytest.fixture(scope="module")
def passed_on(tmp_path_factory):
    """Return an executor of a network that returns its inputs, one of each type."""
    net = Net()
    for kind in (*KINDS, "BFLOAT16"):
        array = every(kind) if kind in KINDS else np.zeros((3, 7), ml_dtypes.bfloat16)
        net.node("Identity", net.input(array), kind=kind)
    path = tmp_path_factory.mktemp("passed") / "passed.so"
    library = tvmrt.compile(net.model(), executor="graph")
    library.export_library(path)
    module = tvmrt.runtime.load_module(str(path))
    return tvmrt.contrib.graph_executor.GraphModule(module["default"](tvmrt.cpu(0)))


def test_memory_is_packed(passed_on):
    for i, kind in enumerate(KINDS):
        array = every(kind)
        size = (array.size * BITS.get(kind, 8) + 7) // 8
        passed_on.set_input(f"x{i}", array)
        passed_on.run()
        given, made = passed_on.get_input(f"x{i}"), passed_on.get_output(i)
        assert (given.nbytes, made.nbytes) == (size, size), kind
        np.testing.assert_array_equal(made.numpy().view(np.uint8), array.view(np.uint8), kind)


def test_codes_and_bytes_of_memory_as_inputs(passed_on):
    names = list(KINDS)
    for kind in FLOATS:
        codes = every(kind).view(np.uint8)
        passed_on.set_input(f"x{names.index(kind)}", codes)
        passed_on.run()
        found = passed_on.get_output(names.index(kind)).numpy()
        np.testing.assert_array_equal(found.view(np.uint8), codes, kind)
    # 21 elements in 11 bytes, the first in the lowest bits
    memory = np.arange(0x10, 0x1B, dtype=np.uint8)
    passed_on.set_input(f"x{names.index('UINT4')}", memory)
    passed_on.run()
    found = passed_on.get_output(names.index("UINT4")).numpy().astype(np.uint8).reshape(-1)
    np.testing.assert_array_equal(found[:4], [0, 1, 1, 1])
    np.testing.assert_array_equal(found, np.stack([memory & 15, memory >> 4], 1).reshape(-1)[:21])
    with pytest.raises(
        ValueError, match=r"an array of shape \(10,\) does not match the tensor's shape \(3, 7\)"
    ):
        passed_on.set_input(f"x{names.index('UINT4')}", memory[:10])


def test_bfloat16_as_bits_of_uint16(passed_on):
    numbers = np.linspace(-3, 3, 21).reshape(3, 7).astype(ml_dtypes.bfloat16)
    for given in (numbers, numbers.view(np.uint16), numbers.astype(np.float32)):
        passed_on.set_input(f"x{len(KINDS)}", given)
        passed_on.run()
        found = passed_on.get_output(len(KINDS)).numpy()
        assert found.dtype == ml_dtypes.bfloat16
        np.testing.assert_array_equal(found, numbers)


def test_the_command_takes_bits_of_uint16(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "bits",
        [helper.make_tensor_value_info("x", TensorProto.BFLOAT16, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    graph.node.insert(0, helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT))
    graph.node[1].input[:] = ["f", "f"]
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    tvmrt.compile(model).export_library(tmp_path / "net.so")
    bits = np.array([1.5, -3], ml_dtypes.bfloat16).view(np.uint16)
    np.savez(tmp_path / "in.npz", x=bits)
    files = [str(tmp_path / name) for name in ("net.so", "in.npz", "out.npz")]
    assert main(["run", files[0], "--inputs", files[1], "--outputs", files[2]]) in (0, None)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["y"], [3, -6])
