"""Pointwise operators: one output element from the input elements at the same index.

Each table row has a C expression per family of element types, with the kernel header that the
expression needs, and a numpy function. ``{0}``, ``{1}`` stand for the operands. Inputs broadcast by
numpy's rules and must have one element type unless a row allows others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from math import erf, inf
from typing import Any

import numpy as np

from .contract import Contract, let
from .dtype import DTYPES, DType
from .op import POINTWISE, Expression, Op, broadcast, define
from .traits import Trait

BOOL = DTYPES["bool"]

# Headers in kernels/ with the functions that expressions call.
MATH = "scalar/math.h"
INVERSE = "scalar/math_inverse.h"
INT = "scalar/int.h"
HALF = "scalar/half.h"

_FAMILIES = {"f32": "float32", "f64": "float64", "int": "signed", "uint": "unsigned"}
_FAMILIES.update(any="computed", half="half|float8")


def _merge_families(types: str) -> str:
    """Replace names of families by the names of larger families."""
    for parts, whole in (
        ("float32|float64", "float"),
        ("signed|unsigned", "integer"),
        ("float|integer", "number"),
        ("float|computed", "computed"),
    ):
        types = types.replace(parts, whole)
    return types


_TYPE_DEPENDENT = {"t", "u", "n", "bits"}  # names in expressions that depend on the element type


def pointwise_contract(
    operands: Sequence[str],
    result: str,
    attributes: str = "",
    example: Mapping[str, Any] | None = None,
) -> Contract:
    """Return the contract of an operator whose operands, such as ``x: int32``, broadcast."""
    axes = "ABC"[: len(operands)]
    named = ", ".join(f"{operand}[*{letter}]" for operand, letter in zip(operands, axes))
    words = "the operands' extents, broadcast"
    rules = [let("*Y", words, broadcast, " ".join(axes))] if len(axes) > 1 else []
    y = "*Y" if rules else "*A"
    return Contract(f"{named} -> y: {result}[{y}]", attributes, rules, example)


def _contract(
    c: Mapping[str, Expression], result: DType | None, bools: int, attributes: str
) -> Contract:
    """Derive the contract from the C expressions: the number of operands, their element types, and
    float attributes that ``attributes`` does not declare."""
    declared = set(re.findall(r"(\w+)\??:", attributes))
    named = {name for e in c.values() for name in re.findall(r"{([a-z]\w*)}", e.text)}
    floats = ", ".join(f"{name}: float" for name in sorted(named - declared - _TYPE_DEPENDENT))
    types = _merge_families("|".join(_FAMILIES.get(family, family) for family in c))
    count = 1 + max(int(n) for e in c.values() for n in re.findall(r"{(\d)}", e.text))
    elements = ["bool"] * bools + [f"E={types}"] + ["E"] * (count - bools - 1)
    operands = [f"{x}: {e}" for x, e in zip("abc", elements)]
    return pointwise_contract(operands, str(result or "E"), f"{attributes}, {floats}")


class PointwiseOp(Op):
    """Row of the table of pointwise operators: ``name``, which ONNX's may follow; ``c`` maps an
    element-type family to a C expression.

    Families: ``f32``, ``f64``, ``int``, ``uint``, ``bool``; ``float`` for both floating-point
    families, ``integer`` for both integer families, ``any`` for all. An expression that calls a
    function of a kernel header is a pair with the header's name. It may use attributes as
    ``{attr}`` and its element type as ``{t}``, ``{u}`` (unsigned, without overflow), ``{n}`` (IR
    name) and ``{bits}``. ``attributes`` declares attributes; those it leaves out are floats.
    ``bounded_angle`` is the C expression for float32 angles of moderate size. The first
    ``bool_operands`` operands are bool, the others and the result have one element type, unless
    ``result`` is another. ``monotonic``: as of ``Op``; sizes that the operator computes have bounds
    by it.
    """

    kind = POINTWISE

    def __init__(
        self,
        name: str,
        c: Mapping[str, str | tuple[str, str]],
        fn: Callable[..., np.ndarray],
        result: DType | None = None,
        bool_operands: int = 0,
        attributes: str = "",
        bounded_angle: tuple[str, str] | None = None,
        traits: Collection[Trait] = (),
        result_range: tuple[float, float] | None = None,
        monotonic: str = "",
    ) -> None:
        self.name = name
        self.c = {k: Expression(v) if isinstance(v, str) else Expression(*v) for k, v in c.items()}
        self.fn = fn
        self.bool_operands = bool_operands
        self.contract = _contract(self.c, result, bool_operands, attributes)
        self.bounded_angle = Expression(*bounded_angle) if bounded_angle else None
        self.traits = frozenset(traits)
        self.result_range = result_range
        self.monotonic = monotonic

    def template(self, dtype: DType) -> Expression | None:
        """Return the C expression for operands of this element type."""
        return entry_for_dtype(self.c, dtype)

    def render(
        self,
        dtype: DType,
        operands: Sequence[str],
        attrs: Mapping[str, Any],
        bounded_angle: bool = False,
    ) -> Expression:
        """Return the C expression for these operands of one element type and attributes in C form.

        With ``bounded_angle``, return the one for angles of moderate size.
        """
        template = self.bounded_angle if bounded_angle else self.template(dtype)
        unsigned = "uint64_t" if dtype.bits == 64 else "uint32_t"
        names = {"t": dtype.c, "u": unsigned, "n": dtype.name, "bits": dtype.bits}
        return template._replace(text=template.text.format(*operands, **names, **attrs))

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        return [np.asarray(self.fn(*arrays, **attrs))]


def entry_for_dtype(table: Mapping[str, Any], dtype: DType) -> Any:
    """Return a table's entry for an element type: for the first of its families that has one."""
    return next((table[family] for family in _families(dtype) if family in table), None)


def _families(dtype: DType) -> tuple[str, ...]:
    if dtype.name == "handle":
        return ("handle",)  # strings in inputs and outputs of a network: only copied
    if dtype.name == "bool":
        return ("bool", "any")
    if dtype.is_packed:
        return ()  # only converted
    if dtype.is_half or dtype.is_low_bit:
        return ("half",)  # moved and converted, not computed with
    if dtype.is_float:
        return ("f32" if dtype.bits == 32 else "f64", "float", "number", "any")
    return ("int" if dtype.is_signed else "uint", "integer", "number", "any")


def _trunc_div(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if np.issubdtype(a.dtype, np.floating):
        return a / b
    safe = np.where(b == 0, 1, b).astype(b.dtype)
    floor = np.floor_divide(a, safe)
    upwards = (floor * safe != a) & ((a < 0) != (safe < 0))
    return np.where(b == 0, 0, floor + upwards).astype(a.dtype)


def _shift(a: np.ndarray, b: np.ndarray, left: bool) -> np.ndarray:
    bits = a.dtype.itemsize * 8
    moved = np.left_shift(a, b % bits) if left else np.right_shift(a, b % bits)
    beyond = np.where((a < 0) & (not left), -1, 0).astype(a.dtype)
    return np.where((b >= 0) & (b < bits), moved, beyond).astype(a.dtype)


def _pow(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if np.issubdtype(a.dtype, np.floating):
        return np.power(a.astype(np.float64), b).astype(a.dtype)
    return wrapped_pow(a, b)


def wrapped_pow(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return integer powers that wrap around; a negative exponent gives 0 unless abs(a) is 1."""
    with np.errstate(over="ignore"):
        base, rest = a.astype(np.uint64), b.astype(np.uint64)
        power = np.ones(np.broadcast_shapes(a.shape, b.shape), np.uint64)
        for _ in range(64):
            power = np.where(rest & 1, power * base, power).astype(np.uint64)
            base, rest = base * base, rest >> np.uint64(1)
    return np.where((b < 0) & (np.abs(a) != 1), 0, power).astype(a.dtype)


def _numpy_erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(erf, otypes=[x.dtype])(x) if x.size else x


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return (0.5 * (np.tanh(0.5 * x) + 1)).astype(x.dtype)


def _libm(
    name: str,
    fn: Callable[..., np.ndarray],
    header: str,
    bounded_angle: bool = False,
    result_range: tuple[float, float] | None = None,
    monotonic: str = "",
    traits: Collection[Trait] = (),
) -> PointwiseOp:
    """Return the row of a C library function; float32 uses an implementation in ``kernels/``."""
    c = name.partition(" ")[0]
    return PointwiseOp(
        name,
        {"f32": (f"tvmrt_{c}_f32({{0}})", header), "f64": f"{c}({{0}})"},
        fn,
        bounded_angle=(f"tvmrt_small_angle_{c}_f32({{0}})", header) if bounded_angle else None,
        result_range=result_range,
        monotonic=monotonic,
        traits=traits,
    )


def _wrapping(
    name: str,
    sign: str,
    fn: Callable[..., np.ndarray],
    traits: Collection[Trait],
    monotonic: str,
) -> PointwiseOp:
    """Return the row of binary arithmetic; integers wrap around as in two's complement."""
    c = {"float": f"{{0}} {sign} {{1}}", "integer": f"({{t}})(({{u}}){{0}} {sign} ({{u}}){{1}})"}
    return PointwiseOp(name, c, fn, traits=traits, monotonic=monotonic)


def _bits(name: str, sign: str, fn: Callable[..., np.ndarray]) -> PointwiseOp:
    c = {"integer": f"({{t}})({{0}} {sign} {{1}})"}
    return PointwiseOp(name, c, fn, traits=_EXACT_COMMUTATIVE)


def _logical(name: str, sign: str, fn: Callable[..., np.ndarray], monotonic: str) -> PointwiseOp:
    c = {"bool": f"({{0}} {sign} {{1}})"}
    return PointwiseOp(name, c, fn, BOOL, traits=_EXACT_COMMUTATIVE, monotonic=monotonic)


def _comparison(
    name: str, sign: str, fn: Callable[..., np.ndarray], swapped: str, negated: str
) -> PointwiseOp:
    c = {"any": f"({{0}} {sign} {{1}})"}
    monotonic = "-+" if sign.startswith("<") else "+-"
    row = PointwiseOp(name, c, fn, BOOL, traits=_EXACT, monotonic=monotonic)
    row.swapped, row.negated = swapped, negated
    return row


def _extreme(name: str, sign: str, fn: Callable[..., np.ndarray], limit: Trait) -> PointwiseOp:
    c: dict[str, Any] = {
        f"f{bits}": (f"tvmrt_{name[:3]}_f{bits}({{0}}, {{1}})", header)
        for bits, header in ((32, MATH), (64, INVERSE))
    }
    c["any"] = f"({{0}} {sign} {{1}} ? {{0}} : {{1}})"
    return PointwiseOp(name, c, fn, traits={limit, *_EXACT_COMMUTATIVE}, monotonic="++")


_EXACT = {Trait.EXACT}
_EXACT_COMMUTATIVE = {Trait.EXACT, Trait.COMMUTATIVE}
_ROUNDED = {Trait.CORRECTLY_ROUNDED}

_ROWS: tuple[PointwiseOp, ...] = (
    # arithmetic
    _wrapping("add Add", "+", np.add, _EXACT_COMMUTATIVE, "++"),
    _wrapping("sub Sub", "-", np.subtract, _EXACT, "+-"),
    _wrapping("mul Mul", "*", np.multiply, _EXACT_COMMUTATIVE, "**"),
    PointwiseOp(
        "div Div",
        {"float": "{0} / {1}", "integer": ("tvmrt_div_{n}({0}, {1})", INT)},
        _trunc_div,
        traits=_ROUNDED,
        monotonic="*/",
    ),
    PointwiseOp(
        "floor_mod Mod(fmod=0)",
        {
            "f32": ("tvmrt_floor_mod_f32({0}, {1})", INVERSE),
            "f64": ("tvmrt_floor_mod_f64({0}, {1})", INVERSE),
            "integer": ("tvmrt_floor_mod_{n}({0}, {1})", INT),
        },
        np.mod,
    ),
    PointwiseOp(
        "trunc_mod Mod(fmod=1)",
        {
            "f32": "fmodf({0}, {1})",
            "f64": "fmod({0}, {1})",
            "integer": ("tvmrt_trunc_mod_{n}({0}, {1})", INT),
        },
        np.fmod,
        traits=_ROUNDED,
    ),
    PointwiseOp(
        "pow Pow",
        {
            "f32": ("tvmrt_pow_f32({0}, {1})", MATH),
            "f64": "pow({0}, {1})",
            "int": ("({t})tvmrt_pow_int64((uint64_t){0}, (uint64_t){1}, {1} < 0)", INT),
            "uint": ("({t})tvmrt_pow_int64({0}, {1}, 0)", INT),
        },
        _pow,
    ),
    _extreme("min Min", "<", np.minimum, Trait.UPPER_LIMIT),
    _extreme("max Max", ">", np.maximum, Trait.LOWER_LIMIT),
    # comparison
    PointwiseOp("equal Equal", {"any": "({0} == {1})"}, np.equal, BOOL, traits=_EXACT_COMMUTATIVE),
    _comparison("less Less", "<", np.less, "greater", "greater_equal"),
    _comparison("less_equal LessOrEqual", "<=", np.less_equal, "greater_equal", "greater"),
    _comparison("greater Greater", ">", np.greater, "less", "less_equal"),
    _comparison("greater_equal GreaterOrEqual", ">=", np.greater_equal, "less_equal", "less"),
    # logic and bits
    _logical("logical_and And", "&", np.logical_and, "++"),
    _logical("logical_or Or", "|", np.logical_or, "++"),
    _logical("logical_xor Xor", "^", np.logical_xor, "**"),
    PointwiseOp(
        "logical_not Not", {"bool": "({0} ^ 1)"}, np.logical_not, BOOL, traits=_EXACT, monotonic="-"
    ),
    _bits("bit_and BitwiseAnd", "&", np.bitwise_and),
    _bits("bit_or BitwiseOr", "|", np.bitwise_or),
    _bits("bit_xor BitwiseXor", "^", np.bitwise_xor),
    PointwiseOp("bit_not BitwiseNot", {"integer": "({t})~{0}"}, np.invert, traits=_EXACT),
    # a shift by a negative number or by at least ``bits`` leaves only copies of the sign
    PointwiseOp(
        "shift_left BitShift(direction=LEFT)",
        {
            "integer": "((uint64_t){1} < {bits} "
            "? ({t})((uint64_t){0} << ((uint64_t){1} % {bits})) : ({t})0)"
        },
        lambda a, b: _shift(a, b, True),
    ),
    PointwiseOp(
        "shift_right BitShift(direction=RIGHT)",
        {
            "int": "({t})((uint64_t){1} < {bits} ? {0} >> ((uint64_t){1} % {bits}) : -({0} < 0))",
            "uint": "((uint64_t){1} < {bits} ? ({t})({0} >> ((uint64_t){1} % {bits})) : ({t})0)",
        },
        lambda a, b: _shift(a, b, False),
    ),
    # select: condition, then, else
    PointwiseOp(
        "where Where",
        {"any": "({0} ? {1} : {2})"},
        np.where,
        bool_operands=1,
        traits=_EXACT,
        monotonic="*++",
    ),
    PointwiseOp(
        "is_nan IsNaN",
        {"f32": ("tvmrt_isnan_f32({0})", INVERSE), "f64": "({0} != {0})"},
        np.isnan,
        BOOL,
        traits=_ROUNDED,
    ),
    PointwiseOp(
        "is_inf IsInf",
        {
            "f32": "((({positive}) && {0} == INFINITY) || (({negative}) && {0} == -INFINITY))",
            "f64": "((({positive}) && {0} == (double)INFINITY) || "
            "(({negative}) && {0} == -(double)INFINITY))",
        },
        lambda x, positive, negative: (
            (np.isposinf(x) & bool(positive)) | (np.isneginf(x) & bool(negative))
        ),
        BOOL,
        traits=_ROUNDED,
        attributes="positive: bool (detect_positive), negative: bool (detect_negative)",
    ),
    # one operand
    PointwiseOp(
        "identity Identity",
        {"any": "{0}", "half": "{0}", "handle": "{0}"},
        lambda x: x,
        traits={Trait.REARRANGES, Trait.MOVES_ELEMENTS, Trait.EXACT},
    ),
    PointwiseOp(
        "neg Neg",
        {"float": "-{0}", "integer": "({t})(0 - ({u}){0})"},
        np.negative,
        traits=_EXACT,
        monotonic="-",
    ),
    PointwiseOp(
        "abs Abs",
        {
            "f32": ("tvmrt_abs_f32({0})", MATH),
            "f64": "fabs({0})",
            "int": "({t})({0} < 0 ? 0 - ({u}){0} : ({u}){0})",
            "uint": "{0}",
        },
        np.abs,
        traits=_EXACT,
        monotonic="0",
    ),
    PointwiseOp(
        "sign Sign",
        {
            "f32": ("tvmrt_sign_f32({0})", MATH),
            "f64": "({0} > 0 ? 1.0 : {0} < 0 ? -1.0 : {0})",
            "integer": "({t})(({0} > 0) - ({0} < 0))",
        },
        np.sign,
        traits=_EXACT,
        monotonic="+",
        result_range=(-1, 1),
    ),
    PointwiseOp(
        "sqrt Sqrt",
        {"f32": "sqrtf({0})", "f64": "sqrt({0})"},
        np.sqrt,
        traits=_ROUNDED,
        monotonic="+",
    ),
    PointwiseOp(
        "reciprocal Reciprocal",
        {"f32": "1.0f / {0}", "f64": "1.0 / {0}"},
        np.reciprocal,
        traits=_ROUNDED,
        monotonic="/",
    ),
    _libm("exp Exp", np.exp, MATH),
    _libm("expm1", np.expm1, MATH),
    _libm("log Log", np.log, MATH),
    _libm("sin Sin", np.sin, MATH, True, (-1, 1)),
    _libm("cos Cos", np.cos, MATH, True, (-1, 1)),
    _libm("tan Tan", np.tan, MATH, bounded_angle=True),
    _libm("asin Asin", np.arcsin, INVERSE),
    _libm("acos Acos", np.arccos, INVERSE),
    _libm("atan Atan", np.arctan, INVERSE),
    _libm("sinh Sinh", np.sinh, INVERSE),
    _libm("cosh Cosh", np.cosh, INVERSE),
    _libm("tanh Tanh", np.tanh, MATH, result_range=(-1, 1)),
    _libm("asinh Asinh", np.arcsinh, INVERSE),
    _libm("acosh Acosh", np.arccosh, INVERSE),
    _libm("atanh Atanh", np.arctanh, INVERSE),
    _libm("erf Erf", _numpy_erf, MATH),
    _libm("floor Floor", np.floor, MATH, monotonic="+", traits=_ROUNDED),
    _libm("ceil Ceil", np.ceil, MATH, monotonic="+", traits=_ROUNDED),
    PointwiseOp(
        "round Round",
        {"f32": ("tvmrt_round_even_f32({0})", INVERSE), "f64": "nearbyint({0})"},
        np.rint,
        traits=_ROUNDED,
        monotonic="+",
    ),
    PointwiseOp(
        "sigmoid Sigmoid",
        {"f32": ("tvmrt_sigmoid_f32({0})", MATH), "f64": "(1.0 / (1.0 + exp(-{0})))"},
        _sigmoid,
        result_range=(0, 1),
    ),
    PointwiseOp(
        "softplus Softplus",
        {
            "f32": ("tvmrt_softplus_f32({0})", MATH),
            "f64": "log1p(exp(-fabs({0}))) + fmax({0}, 0.0)",
        },
        lambda x: np.logaddexp(x, np.zeros((), x.dtype)),
    ),
    # x if it is not negative, otherwise the second operand times x
    PointwiseOp(
        "prelu PRelu",
        {
            "float": "({0} < 0 ? {0} * {1} : {0})",
            "int": "({0} < 0 ? ({t})(({u}){0} * ({u}){1}) : {0})",
            "uint": "{0}",
        },
        lambda x, slope: np.where(x < 0, x * slope, x).astype(x.dtype),
        traits=_ROUNDED,
    ),
    PointwiseOp(
        "relu Relu",
        {
            "f32": ("tvmrt_max_f32({0}, 0.0f)", MATH),
            "f64": ("tvmrt_max_f64({0}, 0.0)", INVERSE),
            "any": "({0} > 0 ? {0} : ({t})0)",
        },
        lambda x: np.maximum(x, np.zeros((), x.dtype)),
        traits={Trait.LOWER_LIMIT, Trait.EXACT},
        monotonic="+",
        result_range=(0, inf),
    ),
)

for _row in _ROWS:
    define(_row)
