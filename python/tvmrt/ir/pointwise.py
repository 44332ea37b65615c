"""Pointwise operators: one output element from the input elements at the same place.

Each is one row: its C expression for each family of element types and its numpy meaning.
``{0}``, ``{1}`` stand for the operands. Inputs broadcast by numpy's rules and must have one
element type, except where a row says otherwise. The C side of float32 functions is
``kernels/scalar_math.h``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import erf
from typing import Any

import numpy as np

from .dtype import DTYPES, DType
from .graph import Node, TensorType
from .op import POINTWISE, Op, broadcast, define

BOOL = DTYPES["bool"]


class PointwiseOp(Op):
    """A row of the table: ``c`` maps an element-type family to a C expression.

    Families: ``f32``, ``f64``, ``int``, ``uint``, ``bool``; ``float`` serves both float
    families, ``any`` all. An expression may name attributes as ``{attr}``.
    """

    kind = POINTWISE

    def __init__(
        self,
        name: str,
        c: dict[str, str],
        fn: Callable[..., np.ndarray],
        result: DType | None = None,
        data_from: int = 0,
    ) -> None:
        self.name = name
        self.c = c
        self.fn = fn
        self.result = result
        self.data_from = data_from

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        data = types[self.data_from :]
        names = {t.dtype.name for t in data}
        if len(names) > 1:
            raise ValueError(f"{self.name} of different element types {', '.join(sorted(names))}")
        dtype = data[0].dtype
        if self.template(dtype) is None:
            raise ValueError(f"{self.name} is not defined for {dtype}")
        shape = broadcast(*(t.shape for t in types))
        return [TensorType(shape, self.result or dtype)]

    def template(self, dtype: DType) -> str | None:
        """The C expression for operands of this element type."""
        for family in _families(dtype):
            if family in self.c:
                return self.c[family]
        return None

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        return [np.asarray(self.fn(*arrays, **attrs))]


def _families(dtype: DType) -> tuple[str, ...]:
    if dtype.name == "bool":
        return ("bool", "any")
    if dtype.is_half:
        return ("half",)  # moved and converted, never computed with
    if dtype.is_float:
        return ("f32" if dtype.bits == 32 else "f64", "float", "number", "any")
    return ("int" if dtype.is_signed else "uint", "integer", "number", "any")


class Cast(Op):
    """Convert to the element type named by ``to``; floats to integers truncate.

    Half precision is converted from and to float32 only.
    """

    name = "cast"
    kind = POINTWISE

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        source, to = types[0].dtype, DTYPES[attrs["to"]]
        if (source.is_half and to.name != "float32") or (to.is_half and source.name != "float32"):
            raise ValueError(f"a cast from {source} to {to} has to go through float32")
        return [TensorType(types[0].shape, to)]

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        return [arrays[0].astype(DTYPES[attrs["to"]].numpy)]


class BitCast(Op):
    """The same bits as the element type named by ``to``, which has the same size."""

    name = "bit_cast"
    kind = POINTWISE

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        to = DTYPES[attrs["to"]]
        if to.itemsize != types[0].dtype.itemsize:
            raise ValueError(f"the bits of {types[0].dtype} do not make up {to}")
        return [TensorType(types[0].shape, to)]

    def expression(self, node: Node, args: Sequence[str]) -> str:
        source, to = node.inputs[0].dtype, node.output.dtype
        if to.name == "bool":
            return f"({args[0]} != 0)"
        if source == to:
            return args[0]
        # half precision lies in an integer, too
        if (source.is_half or not source.is_float) and (to.is_half or not to.is_float):
            return f"({to.c}){args[0]}"
        return f"tvmrt_{source.name}_bits_as_{to.name}({args[0]})"

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        return [_bits_of(arrays[0], DTYPES[attrs["to"]])]


def _libm(name: str) -> dict[str, str]:
    """Our float32 function beside the C library's for float64."""
    return {"f32": f"tvmrt_{name}_f32({{0}})", "f64": f"{name}({{0}})"}


def _trunc_div(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if np.issubdtype(a.dtype, np.floating):
        return a / b
    safe = np.where(b == 0, 1, b)
    quotient = np.abs(a) // np.abs(safe)
    return (np.sign(a) * np.sign(safe) * quotient).astype(a.dtype)


def _shift(a: np.ndarray, b: np.ndarray, left: bool) -> np.ndarray:
    bits = a.dtype.itemsize * 8
    moved = np.left_shift(a, b % bits) if left else np.right_shift(a, b % bits)
    beyond = np.where((a < 0) & (not left), -1, 0)
    return np.where((b >= 0) & (b < bits), moved, beyond).astype(a.dtype)


def _pow(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if np.issubdtype(a.dtype, np.floating):
        return np.power(a.astype(np.float64), b).astype(a.dtype)
    # numpy refuses negative exponents of integers; the power is then 0 unless the base is +-1
    inverse = np.where(a == 1, 1, np.where(abs(a) == 1, np.where(b % 2, -1, 1), 0))
    return np.where(b < 0, inverse, np.power(a, np.maximum(b, 0))).astype(a.dtype)


def _bits_of(x: np.ndarray, to: DType) -> np.ndarray:
    return np.ascontiguousarray(x).view(to.numpy).reshape(x.shape)


def _numpy_erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(erf, otypes=[x.dtype])(x) if x.size else x


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return (0.5 * (np.tanh(0.5 * x) + 1)).astype(x.dtype)


_ARITHMETIC = "any"
_ROWS: tuple[PointwiseOp, ...] = (
    # binary arithmetic; integers wrap around as in two's complement
    PointwiseOp("add", {"float": "{0} + {1}", "integer": "({t})(({u}){0} + ({u}){1})"}, np.add),
    PointwiseOp(
        "sub", {"float": "{0} - {1}", "integer": "({t})(({u}){0} - ({u}){1})"}, np.subtract
    ),
    PointwiseOp(
        "mul", {"float": "{0} * {1}", "integer": "({t})(({u}){0} * ({u}){1})"}, np.multiply
    ),
    PointwiseOp(
        "div",
        {"float": "{0} / {1}", "int": "tvmrt_div_{n}({0}, {1})", "uint": "tvmrt_div_{n}({0}, {1})"},
        _trunc_div,
    ),
    PointwiseOp(
        "floor_mod",
        {
            "f32": "tvmrt_floor_mod_f32({0}, {1})",
            "f64": "tvmrt_floor_mod_f64({0}, {1})",
            "integer": "tvmrt_floor_mod_{n}({0}, {1})",
        },
        np.mod,
    ),
    PointwiseOp(
        "trunc_mod",
        {
            "f32": "fmodf({0}, {1})",
            "f64": "fmod({0}, {1})",
            "integer": "tvmrt_trunc_mod_{n}({0}, {1})",
        },
        np.fmod,
    ),
    PointwiseOp(
        "pow",
        {
            "f32": "tvmrt_pow_f32({0}, {1})",
            "f64": "pow({0}, {1})",
            "integer": "tvmrt_pow_{n}({0}, {1})",
        },
        _pow,
    ),
    PointwiseOp(
        "min",
        {
            "f32": "tvmrt_min_f32({0}, {1})",
            "f64": "tvmrt_min_f64({0}, {1})",
            "any": "({0} < {1} ? {0} : {1})",
        },
        np.minimum,
    ),
    PointwiseOp(
        "max",
        {
            "f32": "tvmrt_max_f32({0}, {1})",
            "f64": "tvmrt_max_f64({0}, {1})",
            "any": "({0} > {1} ? {0} : {1})",
        },
        np.maximum,
    ),
    # comparison
    PointwiseOp("equal", {"any": "({0} == {1})"}, np.equal, BOOL),
    PointwiseOp("less", {"any": "({0} < {1})"}, np.less, BOOL),
    PointwiseOp("less_equal", {"any": "({0} <= {1})"}, np.less_equal, BOOL),
    PointwiseOp("greater", {"any": "({0} > {1})"}, np.greater, BOOL),
    PointwiseOp("greater_equal", {"any": "({0} >= {1})"}, np.greater_equal, BOOL),
    # logic and bits
    PointwiseOp("logical_and", {"bool": "({0} & {1})"}, np.logical_and, BOOL),
    PointwiseOp("logical_or", {"bool": "({0} | {1})"}, np.logical_or, BOOL),
    PointwiseOp("logical_xor", {"bool": "({0} ^ {1})"}, np.logical_xor, BOOL),
    PointwiseOp("logical_not", {"bool": "({0} ^ 1)"}, np.logical_not, BOOL),
    PointwiseOp("bit_and", {"integer": "({t})({0} & {1})"}, np.bitwise_and),
    PointwiseOp("bit_or", {"integer": "({t})({0} | {1})"}, np.bitwise_or),
    PointwiseOp("bit_xor", {"integer": "({t})({0} ^ {1})"}, np.bitwise_xor),
    PointwiseOp("bit_not", {"integer": "({t})~{0}"}, np.invert),
    # a shift by a negative number or by all bits leaves only copies of the sign
    PointwiseOp(
        "shift_left",
        {
            "integer": "((uint64_t){1} < {bits} "
            "? ({t})((uint64_t){0} << ((uint64_t){1} % {bits})) : ({t})0)"
        },
        lambda a, b: _shift(a, b, True),
    ),
    PointwiseOp(
        "shift_right",
        {
            "int": "({t})((uint64_t){1} < {bits} ? {0} >> ((uint64_t){1} % {bits}) : -({0} < 0))",
            "uint": "((uint64_t){1} < {bits} ? ({t})({0} >> ((uint64_t){1} % {bits})) : ({t})0)",
        },
        lambda a, b: _shift(a, b, False),
    ),
    # choice: condition, then, else
    PointwiseOp("where", {"any": "({0} ? {1} : {2})"}, np.where, data_from=1),
    PointwiseOp("is_nan", {"f32": "tvmrt_isnan_f32({0})", "f64": "({0} != {0})"}, np.isnan, BOOL),
    PointwiseOp(
        "is_inf",
        {
            "f32": "((({positive}) && {0} == INFINITY) || (({negative}) && {0} == -INFINITY))",
            "f64": "((({positive}) && {0} == (double)INFINITY) || "
            "(({negative}) && {0} == -(double)INFINITY))",
        },
        lambda x, positive, negative: (
            (np.isposinf(x) & bool(positive)) | (np.isneginf(x) & bool(negative))
        ),
        BOOL,
    ),
    # one operand
    PointwiseOp("identity", {"any": "{0}", "half": "{0}"}, lambda x: x),
    PointwiseOp("neg", {"float": "-{0}", "integer": "({t})(0 - ({u}){0})"}, np.negative),
    PointwiseOp(
        "abs",
        {
            "f32": "tvmrt_abs_f32({0})",
            "f64": "fabs({0})",
            "int": "({t})({0} < 0 ? 0 - ({u}){0} : ({u}){0})",
            "uint": "{0}",
        },
        np.abs,
    ),
    PointwiseOp(
        "sign",
        {
            "f32": "tvmrt_sign_f32({0})",
            "f64": "(double)(({0} > 0) - ({0} < 0))",
            "integer": "({t})(({0} > 0) - ({0} < 0))",
        },
        np.sign,
    ),
    PointwiseOp("sqrt", {"f32": "sqrtf({0})", "f64": "sqrt({0})"}, np.sqrt),
    PointwiseOp("reciprocal", {"f32": "1.0f / {0}", "f64": "1.0 / {0}"}, np.reciprocal),
    PointwiseOp("exp", _libm("exp"), np.exp),
    PointwiseOp("log", _libm("log"), np.log),
    PointwiseOp("sin", _libm("sin"), np.sin),
    PointwiseOp("cos", _libm("cos"), np.cos),
    PointwiseOp("tan", _libm("tan"), np.tan),
    PointwiseOp("asin", _libm("asin"), np.arcsin),
    PointwiseOp("acos", _libm("acos"), np.arccos),
    PointwiseOp("atan", _libm("atan"), np.arctan),
    PointwiseOp("sinh", _libm("sinh"), np.sinh),
    PointwiseOp("cosh", _libm("cosh"), np.cosh),
    PointwiseOp("tanh", _libm("tanh"), np.tanh),
    PointwiseOp("asinh", _libm("asinh"), np.arcsinh),
    PointwiseOp("acosh", _libm("acosh"), np.arccosh),
    PointwiseOp("atanh", _libm("atanh"), np.arctanh),
    PointwiseOp("erf", _libm("erf"), _numpy_erf),
    PointwiseOp("floor", _libm("floor"), np.floor),
    PointwiseOp("ceil", _libm("ceil"), np.ceil),
    PointwiseOp("round", {"f32": "tvmrt_round_even_f32({0})", "f64": "nearbyint({0})"}, np.rint),
    PointwiseOp(
        "sigmoid", {"f32": "tvmrt_sigmoid_f32({0})", "f64": "(1.0 / (1.0 + exp(-{0})))"}, _sigmoid
    ),
    PointwiseOp(
        "softplus",
        {"f32": "tvmrt_softplus_f32({0})", "f64": "log1p(exp(-fabs({0}))) + fmax({0}, 0.0)"},
        lambda x: np.logaddexp(x, np.zeros((), x.dtype)),
    ),
    # x where it is not negative, the second operand times x elsewhere
    PointwiseOp(
        "prelu",
        {
            "float": "({0} < 0 ? {0} * {1} : {0})",
            "int": "({0} < 0 ? ({t})(({u}){0} * ({u}){1}) : {0})",
            "uint": "{0}",
        },
        lambda x, slope: np.where(x < 0, x * slope, x).astype(x.dtype),
    ),
    PointwiseOp(
        "relu",
        {"f32": "tvmrt_max_f32({0}, 0.0f)", "any": "({0} > 0 ? {0} : ({t})0)"},
        lambda x: np.maximum(x, np.zeros((), x.dtype)),
    ),
)

for _row in _ROWS:
    define(_row)
define(Cast())
define(BitCast())
