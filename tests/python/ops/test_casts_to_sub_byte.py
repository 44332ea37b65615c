"""Casts of all types to int4, uint4, int2 and uint2, against exact arithmetic.

The standard's pages on these types ask for the lowest bits of the nearest integer, ties to even.
Integers keep their lowest bits, as in every cast to a narrower integer.
"""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import onnx
import pytest
from crt_program import run_archive
from onnx import TensorProto, helper, numpy_helper

import tvmrt

TARGETS = {"INT4": (4, True), "UINT4": (4, False), "INT2": (2, True), "UINT2": (2, False)}
FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz",
          "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn")  # fmt: skip
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool",
            "int4", "uint2")  # fmt: skip
CRT_TYPES = ("float32", "float64", "float16", "int8", "uint16", "int64", "bool")
NUMBERS = [
    *np.arange(-20, 20, 0.25), 0.49999997, 0.50000006, 2.4999998, 100.0, -100.5, 127.5, 1e4, -1e4,
    65504.0, 2.0**24 + 2, 2.0**31, -(2.0**31), 2.0**40 + 1, 2.0**52 + 5, 2.0**63, 1e10, -1e10,
    3.4e38, 1e300, 1e-45, -0.0, np.inf, -np.inf, np.nan,
]  # fmt: skip


def values(source: str) -> np.ndarray:
    """Return numbers of a type: ties, negative ones, some out of range, and NaN."""
    dtype = np.dtype(getattr(ml_dtypes, source, source))
    if source in FLOATS:
        with np.errstate(all="ignore"):
            return np.asarray(NUMBERS).astype(dtype)
    if source in ("bool", "int4", "uint2"):
        return (np.arange(16) % (2 if source == "bool" else 4)).astype(dtype)
    ends = np.iinfo(dtype)
    whole = [n for n in (*range(-20, 40), 1 << 40, ends.min, ends.max, ends.max - 5)]
    return np.array([n for n in whole if ends.min <= n <= ends.max], dtype)


def exact(x: np.ndarray, bits: int, signed: bool) -> list[int]:
    """Return the integers that the standard's text asks for."""
    found = []
    for each in x.reshape(-1):
        number = int(each) if x.dtype.kind in "iub" else float(each)
        whole = round(Fraction(number)) if np.isfinite(float(number)) else 0
        code = whole % (1 << bits)
        found.append(code - (1 << bits) if signed and code >> (bits - 1) else code)
    return found


def network(sources, op: str = "Cast", constant: bool = False, in_function: bool = False):
    """Return casts of every source to every target, the feeds, and the right results (as int32)."""
    nodes, inputs, weights, outputs, feeds, right = [], [], [], [], {}, {}
    for source in sources:
        x = values(source)
        if constant:
            weights.append(numpy_helper.from_array(x, source))
        else:
            kind = helper.np_dtype_to_tensor_dtype(x.dtype)
            inputs.append(helper.make_tensor_value_info(source, kind, x.shape))
            feeds[source] = x
        for target, (bits, signed) in TARGETS.items():
            code, name = getattr(TensorProto, target), f"{source}_{target}".lower()
            call = {"op_type": f"To{target}", "domain": "mine"} if in_function else {"op_type": op}
            attributes = {"to": code} if op == "Cast" and not in_function else {}
            operands = [source, target] if op == "CastLike" else [source]
            nodes.append(helper.make_node(inputs=operands, outputs=[name], **call, **attributes))
            nodes.append(helper.make_node("Cast", [name], [f"{name}_y"], to=TensorProto.INT32))
            outputs.append(helper.make_tensor_value_info(f"{name}_y", TensorProto.INT32, x.shape))
            right[f"{name}_y"] = exact(x, bits, signed)
    types = {name: helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name)) for name in TARGETS}
    if op == "CastLike":
        weights += [numpy_helper.from_array(np.zeros(1, d), name) for name, d in types.items()]
    opsets = [helper.make_opsetid("", 25), helper.make_opsetid("mine", 1)]
    functions = [
        helper.make_function(
            "mine", f"To{target}", ["a"], ["b"],
            [helper.make_node("Cast", ["a"], ["b"], to=getattr(TensorProto, target))], opsets[:1],
        )
        for target in (TARGETS if in_function else ())
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "casts", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=13)
    return model, feeds, right


def check(model: onnx.ModelProto, feeds, right, **options) -> None:
    outputs = tvmrt.load(model, cache=False, **options)(feeds)
    for name, golden in right.items():
        assert outputs[name].tolist() == golden, name


@pytest.mark.everyday(1)
@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_casts_round_to_nearest_even_and_keep_low_bits(executor):
    check(*network((*FLOATS, *INTEGERS)), executor=executor)


def test_cast_like_equals_cast():
    check(*network((*FLOATS, *INTEGERS), "CastLike"))


@pytest.mark.parametrize("op", ["Cast", "CastLike"])
def test_constants_fold_to_the_run_time_values(op):
    check(*network((*FLOATS, *INTEGERS), op, constant=True))


@pytest.mark.parametrize("constant", [False, True])
def test_functions_cast_as_nodes_do(constant):
    check(*network(FLOATS, constant=constant, in_function=True))


def test_text_is_cast_as_its_number():
    """Text of a whole number keeps the lowest bits of the number."""
    text = ["0", "7", "8", "-9", "15", "16", "100"]
    for target, (bits, signed) in TARGETS.items():
        nodes = [
            helper.make_node("Cast", ["x"], ["q"], to=getattr(TensorProto, target)),
            helper.make_node("Cast", ["q"], ["y"], to=TensorProto.INT32),
        ]
        graph = helper.make_graph(
            nodes, "text",
            [helper.make_tensor_value_info("x", TensorProto.STRING, [len(text)])],
            [helper.make_tensor_value_info("y", TensorProto.INT32, [len(text)])],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
        found = np.asarray(tvmrt.load(model, cache=False)(np.array(text, object)))
        assert found.tolist() == exact(np.array([float(t) for t in text]), bits, signed), target


@pytest.mark.slow
def test_casts_in_a_c_program(tmp_path):
    model, feeds, right = network(CRT_TYPES)
    library = tvmrt.compile(model, target="host", runtime="crt", executor="aot",
                            interface_api="c", module_name="net")  # fmt: skip
    found = run_archive(library, feeds, tmp_path)
    for (name, golden), array in zip(right.items(), found.values(), strict=True):
        assert array.reshape(-1).tolist() == golden, name
