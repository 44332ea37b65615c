"""Arithmetic, comparison, logic, conversion and activation operators."""

from __future__ import annotations

from math import erf

import numpy as np
import onnx
import onnx.parser
import pytest
from harness import Batch, case
from nn_case import run_compiled

import tvmrt

RNG = np.random.default_rng(11)
INT_TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SPECIAL = np.array([0.0, -0.0, 1.5, -2.5, 2.5, np.inf, -np.inf, np.nan], np.float32)


def f32(*shape, low=-3.0, high=3.0):
    return RNG.uniform(low, high, shape).astype(np.float32)


def ints(dtype, *shape, low=None, high=None):
    info = np.iinfo(dtype)
    low = info.min if low is None else low
    high = info.max if high is None else high
    return RNG.integers(low, high, shape, dtype, endpoint=True)


def bools(*shape):
    return RNG.random(shape) < 0.5


DOMAIN = {
    "Acos": (-1, 1),
    "Acosh": (1, 50),
    "Asin": (-1, 1),
    "Atanh": (-0.99, 0.99),
    "Log": (1e-6, 50),
    "Sqrt": (0, 9),
    "Reciprocal": (0.1, 5),
    "Tan": (-1.5, 1.5),
    "Erf": (-4, 4),
    "Sin": (-40, 40),
    "Cos": (-40, 40),
}
UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Neg Reciprocal Relu "
    "Round Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh"
).split()
EXACT_AT_SPECIAL = "Abs Ceil Floor Neg Relu Round Sign Sqrt".split()


def unary_cases():
    for op in UNARY:
        low, high = DOMAIN.get(op, (-3, 3))
        yield case("f32", op, [f32(2, 3, 37, low=low, high=high)], atol=1e-6)
    for op in UNARY:
        low, high = DOMAIN.get(op, (-3, 3))
        x = RNG.uniform(low, high, (5, 7))
        # the evaluators compute the error function in single precision only
        wanted = [np.vectorize(erf)(x)] if op == "Erf" else None
        yield case("f64", op, [x], rtol=1e-9, atol=1e-9, wanted=wanted)
    yield case("below-1", "Acosh", [np.array([0.9, -1, -1e19, -1e38, -np.inf], np.float32)])
    for op in EXACT_AT_SPECIAL:
        yield case("special", op, [SPECIAL], rtol=0, atol=0)
    for dtype in ("int8", "int32", "int64"):
        for op in ("Abs", "Neg", "Sign", "Relu"):
            yield case(dtype, op, [ints(dtype, 4, 9, low=-120)], rtol=0)


def angle_cases():
    """Return angles of all magnitudes, reduced exactly by the C library in float64."""
    sizes = 2.0 ** RNG.uniform(-30, 127.9, 2001) * RNG.choice([-1, 1], 2001)
    near = RNG.uniform(-1e6, 1e6, 67)
    known = [0.0, -0.0, np.inf, -np.inf, np.nan, 3e15, 1e16, 1e18, 1e30, 3e38, 1048576.0, 1048577.0]
    for name, numbers in (("any", [*sizes, *known]), ("near", near), ("one-far", [*near, 1e30])):
        x = np.array(numbers, np.float32)
        for op, function in (("Sin", np.sin), ("Cos", np.cos), ("Tan", np.tan)):
            with np.errstate(invalid="ignore"):
                wanted = function(x.astype(np.float64)).astype(np.float32)
            yield case(name, op, [x], rtol=5e-7, atol=0, wanted=[wanted])


ANGLE_BATCH = Batch(17, angle_cases())

UNARY_BATCH = Batch(17, unary_cases())

BINARY_SHAPES = (((3, 4), (3, 4)), ((2, 3, 1, 5), (4, 1)), ((5,), (2, 1)), ((), (3,)))


def binary_cases():
    for op in ("Add", "Sub", "Mul", "Div"):
        for a, b in BINARY_SHAPES:
            name = f"f32-{'x'.join(map(str, a))}-{'x'.join(map(str, b))}"
            yield case(name, op, [f32(*a), f32(*b, low=0.5)], rtol=1e-6)
        for dtype in INT_TYPES:
            high = 11 if op == "Mul" else None
            b = ints(dtype, 3, 5, low=1, high=high)
            yield case(dtype, op, [ints(dtype, 3, 5, low=0, high=high), b], rtol=0)
    for op in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"):
        for dtype in ("int32", "uint8", "int64"):
            a, b = (ints(dtype, 6, 5, low=0, high=3) for _ in "ab")
            yield case(dtype, op, [a, b], rtol=0)
        yield case("f32", op, [np.round(f32(6, 5)), np.round(f32(5))], rtol=0)
        yield case("special", op, [SPECIAL[:, None], SPECIAL], rtol=0)
    yield case("bool", "Equal", [bools(7), bools(7)], rtol=0)
    for op in ("And", "Or", "Xor"):
        yield case("bool", op, [bools(3, 7), bools(7)], rtol=0)
    yield case("bool", "Not", [bools(3, 7)], rtol=0)
    for dtype in ("int8", "uint16", "int64"):
        for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
            yield case(dtype, op, [ints(dtype, 9), ints(dtype, 9)], rtol=0)
        yield case(dtype, "BitwiseNot", [ints(dtype, 9)], rtol=0)
    for direction in ("LEFT", "RIGHT"):
        for dtype in ("uint8", "uint16", "uint32", "uint64"):
            bits = np.dtype(dtype).itemsize * 8
            by = ints(dtype, 12, low=0, high=bits - 1)
            name = f"{direction.lower()}-{dtype}"
            yield case(name, "BitShift", [ints(dtype, 12), by], rtol=0, direction=direction)


BINARY_BATCH = Batch(18, binary_cases())


def whole_powers():
    """Return exponents beyond float32 for each type; integer results wrap around as in numpy."""
    large = np.array([2**24 + 1, 2**31 - 1, -(2**24) - 1, 2**24 + 2, 0, -1, 3], np.int64)
    x = np.array([-1, -1, -1, -1, -1, -2, -3], np.float32)
    signs = np.array([-1, -1, -1, 1, 1, -0.5, -27], np.float32)
    for dtype in ("int32", "int64"):
        yield case(f"large-{dtype}", "Pow", [x, large.astype(dtype)], rtol=0, wanted=[signs])
        exponents = np.abs(large).astype(dtype.replace("int", "uint"))
        wanted = np.where(exponents % 2 == 1, -np.abs(x), np.abs(x)) ** np.minimum(exponents, 3)
        wanted = np.where(np.abs(x) == 1, np.where(exponents % 2, -1, 1), wanted)
        name = f"large-u{dtype}"
        yield case(name, "Pow", [x, exponents], rtol=0, wanted=[wanted.astype(np.float32)])
    base, power = np.float32([1.0000001, 0.99999994]), np.array([2**25 + 1] * 2)
    wanted = (base.astype(np.float64) ** power).astype(np.float32)
    yield case("close-to-1", "Pow", [base, power], rtol=2e-7, wanted=[wanted])
    special = [SPECIAL[:, None], np.array([-3, -2, 0, 1, 2, 2**24 + 1])]
    yield case("special-i64", "Pow", special, rtol=0)
    yield case("special-f64", "Pow", [special[0].astype(np.float64), special[1]], rtol=0)
    exact = np.array([-1.0, 3.0]), np.array([2**24 + 1, 1], np.int32)
    yield case("f64-i32", "Pow", [*exact], rtol=0)
    yield case("f32-f64", "Pow", [np.float32([-1, 2]), np.array([2**24 + 1, 0.5])], rtol=1e-7)
    for dtype in ("int32", "int64"):
        a = ints(dtype, 40)
        b = ints(dtype, 40, low=0, high=70)
        yield case(f"wraps-{dtype}", "Pow", [a, b], rtol=0, wanted=[np.power(a, b)])
    a, b = np.array([3, -3, 2, 0, 1, -1, 7], np.int32), np.array([2**32 + 1, 41, 40, 0, -5, -5, -1])
    wanted = [
        pow(int(n), int(p), 2**32) if p >= 0 else int(n) if abs(n) == 1 else 0 for n, p in zip(a, b)
    ]
    wanted = np.array(wanted).astype(np.uint32).view(np.int32)
    yield case("i32-i64", "Pow", [a, b], rtol=0, wanted=[wanted])


def number_cases():
    for op in ("Max", "Min", "Sum", "Mean"):
        yield case("three", op, [f32(2, 3), f32(3), f32(2, 1)], rtol=1e-6)
        yield case("one", op, [f32(4)], rtol=0)
    for op in ("Max", "Min"):
        for dtype in INT_TYPES:
            yield case(dtype, op, [ints(dtype, 9), ints(dtype, 9)], rtol=0)
        yield case("nan", op, [SPECIAL[:, None], SPECIAL[None, :]], rtol=0)
    for dtype in INT_TYPES:
        low = 1 if dtype.startswith("u") else -9
        b = ints(dtype, 20, low=1, high=9) * np.where(RNG.random(20) < 0.5, low // abs(low), 1)
        yield case(f"floor-{dtype}", "Mod", [ints(dtype, 20), b.astype(dtype)], rtol=0)
        a, b = ints(dtype, 20), b.astype(dtype)
        # onnxruntime converts to floating point here, which has fewer digits than int64
        yield case(f"trunc-{dtype}", "Mod", [a, b], rtol=0, fmod=1, wanted=[np.fmod(a, b)])
    yield case("trunc-f32", "Mod", [f32(20), f32(20, low=0.5)], rtol=1e-5, atol=1e-5, fmod=1)
    for exponent in (0.5, 1.0, 2.0, 3.0, 1.7, -1.0, -0.5, 0.0):
        x = f32(3, 5, low=0.1)
        constant = np.array(exponent, np.float32)
        yield case(f"to-{exponent}", "Pow", [x, constant], [1], rtol=2e-6)
    yield case("computed", "Pow", [f32(3, 5, low=0.1), f32(5)], rtol=2e-6)
    yield case("widens", "Pow", [f32(4), np.array([[1.0], [2.0]], np.float32)], [1], rtol=2e-6)
    yield case("square-wide", "Pow", [f32(4), np.full((3, 1), 2.0, np.float32)], [1], rtol=2e-6)
    yield case("f32-i64", "Pow", [f32(3, 5), ints("int64", 5, low=-3, high=4)], rtol=1e-5)
    yield case(
        "i32-i32", "Pow", [ints("int32", 9, low=-9, high=9), ints("int32", 9, low=0, high=5)]
    )
    yield case("i64-f32", "Pow", [ints("int64", 9, low=0, high=9), f32(9, low=0)], rtol=0)
    yield from whole_powers()
    low, high = np.array(-1, np.float32), np.array(2, np.float32)
    yield case("both", "Clip", [f32(40), low, high], [1, 2], rtol=0)
    yield case("low", "Clip", [f32(40), low], [1], rtol=0)
    yield case("high", "Clip", [f32(40), None, high], [2], rtol=0)
    yield case("computed", "Clip", [f32(40), low, high], rtol=0)
    yield case("crossed", "Clip", [f32(40), high, low], rtol=0)
    yield case("special", "Clip", [SPECIAL, low, high], [1, 2], rtol=0)
    for dtype in ("int8", "int32", "int64", "uint8", "uint64"):
        bounds = [np.array(n, dtype) for n in (3, 90)]
        yield case(dtype, "Clip", [ints(dtype, 30), *bounds], [1, 2], rtol=0)
    yield case("f32", "IsNaN", [SPECIAL])
    for positive, negative in ((1, 1), (1, 0), (0, 1), (0, 0)):
        yield case(
            f"{positive}{negative}",
            "IsInf",
            [SPECIAL],
            detect_positive=positive,
            detect_negative=negative,
        )
    yield case("f32", "Where", [bools(3, 1), f32(3, 5), f32(5)], rtol=0)
    yield case("i64", "Where", [bools(7), ints("int64", 7), np.array(3)], rtol=0)
    yield case("bool", "Where", [bools(7), bools(7), bools(7)], rtol=0)
    yield case("f32", "Identity", [f32(3)], rtol=0)
    yield case("plain", "Dropout", [f32(3, 4)], rtol=0)
    yield case("mask", "Dropout", [f32(3, 4)], outputs=2, rtol=0)


NUMBER_BATCH = Batch(21, number_cases())


def cast_cases():
    numbers = np.array([0, 1, -1, 2.5, -2.5, 100.9, -100.9, 126.5], np.float64)
    types = ("float32", "float64", "bool", *INT_TYPES)
    for source in types:
        for to in types:
            data = np.abs(numbers) if "u" in source + to and source != to else numbers
            code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to))
            yield case(f"{source}-{to}", "Cast", [data.astype(source)], rtol=0, to=code)
    yield case("u8", "CastLike", [f32(5, low=0), ints("uint8", 2)], rtol=0)
    yield case("f32", "CastLike", [ints("int32", 5), f32(1)], rtol=0)


CAST_BATCH = Batch(19, cast_cases())

ACTIVATIONS = (
    ("LeakyRelu", {}),
    ("LeakyRelu", {"alpha": 0.3}),
    ("Elu", {}),
    ("Elu", {"alpha": 0.4}),
    ("Selu", {}),
    ("Selu", {"alpha": 1.1, "gamma": 0.8}),
    ("Celu", {}),
    ("Celu", {"alpha": 2.5}),
    ("ThresholdedRelu", {}),
    ("ThresholdedRelu", {"alpha": 0.2}),
    ("HardSigmoid", {}),
    ("HardSigmoid", {"alpha": 0.3, "beta": 0.1}),
    ("HardSwish", {}),
    ("Mish", {}),
    ("Gelu", {}),
    ("Gelu", {"approximate": "tanh"}),
    ("Shrink", {}),
    ("Shrink", {"lambd": 1.0, "bias": 0.7}),
    ("Softmax", {}),
    ("Softmax", {"axis": 1}),
    ("LogSoftmax", {"axis": 0}),
    ("LogSoftmax", {}),
    ("Hardmax", {}),
    ("Hardmax", {"axis": 1}),
)


def activation_cases():
    for op, attrs in ACTIVATIONS:
        name = "-".join(f"{k}-{v}" for k, v in attrs.items()) or "plain"
        yield case(name, op, [f32(3, 5, 19, low=-6, high=6)], atol=2e-6, **attrs)
    yield case("channels", "PRelu", [f32(2, 3, 4, 5), f32(3, 1, 1)], [1], rtol=1e-6)
    yield case("one", "PRelu", [f32(2, 3, 4, 5), f32(1)], [1], rtol=1e-6)
    yield case("computed", "PRelu", [f32(2, 3, 4, 5), f32(2, 3, 4, 5)], rtol=1e-6)


ACTIVATION_BATCH = Batch(20, activation_cases())

OLD_BATCH = Batch(
    9,
    [
        case("plain", "Softmax", [f32(2, 3, 4)], atol=1e-6),
        case("last", "Softmax", [f32(2, 3, 4)], atol=1e-6, axis=2),
        case("all", "LogSoftmax", [f32(2, 3, 4)], atol=1e-6, axis=0),
        case("plain", "Hardmax", [f32(2, 3, 4)], atol=1e-6),
        case("attributes", "Clip", [f32(30)], rtol=0, min=-1.0, max=1.5),
        case("low", "Clip", [f32(30)], rtol=0, min=-1.0),
        case("mask", "Dropout", [f32(3, 4)], rtol=0),
        case("f32", "Pow", [f32(3, 4, low=0.2), f32(4)], rtol=2e-6),
    ],
)

NEW_BATCH = Batch(
    28,
    [
        case("plain", "Swish", [f32(3, 7)], rtol=1e-5),
        case("alpha", "Swish", [f32(3, 7)], rtol=1e-5, alpha=1.7),
        case("plain", "SwiGLU", [f32(3, 7), f32(3, 7)], rtol=1e-5),
        case("alpha", "SwiGLU", [f32(3, 7), f32(3, 7)], rtol=1e-5, alpha=0.6),
        case("f32-i32", "BitCast", [f32(9)], to=onnx.TensorProto.INT32),
        case("i64-f64", "BitCast", [ints("int64", 9, low=0)], to=onnx.TensorProto.DOUBLE),
        case("i8-u8", "BitCast", [ints("int8", 9)], to=onnx.TensorProto.UINT8),
        case("f32-f32", "BitCast", [f32(9)], to=onnx.TensorProto.FLOAT),
        case("i32-f32", "BitCast", [ints("int32", 9, low=0)], to=onnx.TensorProto.FLOAT),
        case("bool-u8", "BitCast", [bools(9)], to=onnx.TensorProto.UINT8),
        *(
            case(
                f"{direction.lower()}-{dtype}",
                "BitShift",
                [ints(dtype, 30), ints(dtype, 30, low=-2, high=bits + 1)],
                rtol=0,
                direction=direction,
            )
            for direction in ("LEFT", "RIGHT")
            for dtype, bits in (("int8", 8), ("int32", 32), ("int64", 64))
        ),
    ],
    evaluator="reference",
)


@pytest.mark.parametrize("part", [*UNARY_BATCH])
def test_unary(part):
    part.check()


@pytest.mark.parametrize("part", [*ANGLE_BATCH])
def test_angles(part):
    part.check()


@pytest.mark.parametrize("largest", [3.0, 1e12], ids=["near", "far"])
def test_angles_between_kernels(tmp_path, largest):
    """Trigonometric functions after a matmul and before an add."""
    text = """<ir_version: 10, opset_import: ["": 17]>
    net (float[6,8] x, float[8,40] w) => (float[6,40] y, float[6] total) <int64[1] axis = {1}> {
      p = MatMul(x, w)
      y = Sin(p)
      c = Cos(y)
      total = ReduceSum <keepdims = 0> (c, axis)
    }"""
    feeds = {"x": f32(6, 8), "w": np.eye(8, 40, dtype=np.float32) * np.float32(largest)}
    found = run_compiled(onnx.parser.parse_model(text), feeds, tmp_path)
    y = np.sin((feeds["x"] @ feeds["w"]).astype(np.float64))
    np.testing.assert_allclose(found["y"], y, 5e-7)
    np.testing.assert_allclose(found["total"], np.cos(y).sum(axis=1), 1e-6)


@pytest.mark.parametrize("part", [*BINARY_BATCH])
def test_binary(part):
    part.check()


@pytest.mark.parametrize("part", [*NUMBER_BATCH])
def test_numbers(part):
    part.check()


@pytest.mark.parametrize("part", [*CAST_BATCH])
def test_cast(part):
    part.check()


@pytest.mark.parametrize("part", [*ACTIVATION_BATCH])
def test_activation(part):
    part.check()


@pytest.mark.parametrize("part", [*OLD_BATCH, *NEW_BATCH])
def test_versions(part):
    part.check()


HALVES = np.array([0.5, -2.0, 65504.0, np.inf, 6e-8, -0.0], np.float16)
SIXTEEN_BITS = ("FLOAT16", "BFLOAT16", "INT16", "UINT16")


@pytest.mark.parametrize("to", SIXTEEN_BITS)
def test_bit_cast_between_types_of_16_bits(to):
    """Every other type of 16 bits as source, as given and after a node, in one network."""
    sources = [name for name in SIXTEEN_BITS if name != to]
    kinds = {name: getattr(onnx.TensorProto, name) for name in SIXTEEN_BITS}
    inputs, nodes = {}, []
    for name in sources:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kinds[name])
        inputs[name] = HALVES.view(dtype)
        nodes += [
            onnx.helper.make_node("BitCast", [name], [f"{name}_direct"], to=kinds[to]),
            onnx.helper.make_node("Identity", [name], [f"{name}_copy"]),
            onnx.helper.make_node("BitCast", [f"{name}_copy"], [f"{name}_later"], to=kinds[to]),
        ]
    info = onnx.helper.make_tensor_value_info
    made = [name for node in nodes if node.op_type == "BitCast" for name in node.output]
    graph = onnx.helper.make_graph(
        nodes,
        "bits",
        [info(name, kinds[name], [6]) for name in sources],
        [info(name, kinds[to], [6]) for name in made],
    )
    opsets = [onnx.helper.make_opsetid("", 26)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=13)
    for found in tvmrt.load(model, cache=False)(inputs).values():
        assert found.dtype == onnx.helper.tensor_dtype_to_np_dtype(kinds[to])
        np.testing.assert_array_equal(found.view(np.uint16), HALVES.view(np.uint16))
