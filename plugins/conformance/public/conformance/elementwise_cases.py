"""Cards of elementwise operators, made from the declarations of the compiler's operators: their
names in ONNX, their element types, and the attributes of ONNX's schemas."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx

from tvmrt.compiler.sdk.graph import DTYPES, OPS, POINTWISE

from .case import OPSET, Case
from .draw import Draw, single

# Elementwise in ONNX, several operators in the compiler.
FLOATS = "Elu Selu LeakyRelu HardSigmoid HardSwish Softsign Clip".split()
INTEGERS = ("int8", "uint8", "int32", "int64")
NOT_ZERO = ("Div", "Mod")
FIRST_BROADCAST = 5  # turn of operators with several operands
SMALL = ("BitShift", "Pow")  # of integers: other results are beyond the type, and undefined


def _element_types(op: str, schema: onnx.defs.OpSchema) -> list[str]:
    """Return the types of the last operand that numbers are drawn for."""
    declared = [o for o in OPS.values() if o.onnx and o.onnx.name == op]
    allowed = declared[0].contract.operands[-1].elements.allowed if declared else None
    of_inputs = [set(one.types) for one in schema.inputs]
    of_inputs = [types for types in of_inputs if types != {"tensor(bool)"}] or of_inputs
    onnx_types = set.intersection(*of_inputs)
    if op in FLOATS:
        return ["float32"]
    names = {"float32": "float", **{name: name for name in ("bool", *INTEGERS)}}
    known = [name for name, text in names.items() if f"tensor({text})" in onnx_types]
    return [name for name in known if name in (allowed or DTYPES)]


def _operand(draw: Draw, op: str, dtype: str, shape: tuple[int, ...], place: int) -> np.ndarray:
    if dtype != "float32":
        array = draw.elements(dtype, *shape)
        if place and op in NOT_ZERO:
            array = np.where(array == 0, 3, array).astype(dtype)
        return np.asarray(array % 8 if op in SMALL else array)
    if draw.turn % 4 == 1 and op not in ("Sin", "Cos", "Tan", "Clip"):
        return draw.special(*shape)
    if op in ("Log", "Sqrt", "Reciprocal", "Pow", "Acosh"):
        return draw.positive(*shape)
    return draw.normal(*shape) * np.float32(draw.pick(1, 1, 30) if op != "Exp" else 1)


# Axes of four that an operand has, 1 elsewhere, or fewer if it has only the last ones.
KEPT = ((1, 2, 3), (3,), (1,), (), (0, 1, 2), (0,), (1, 3), (0, 2))


def _broadcast(draw: Draw, shape: tuple[int, ...], count: int) -> list[tuple[int, ...]]:
    """Return shapes that differ: the smaller one has other axes in each turn and is once the first
    operand, once the last; in each third turn two shapes complete each other."""
    turn = draw.turn - FIRST_BROADCAST
    kept = KEPT[turn % len(KEPT)]
    smaller = tuple(n if i in kept else 1 for i, n in enumerate(shape))
    if draw.pick(0, 1):  # without the ones in front
        smaller = smaller[next((i for i, n in enumerate(smaller) if n > 1), len(shape)) :]
    if turn % 3 == 2 and kept:
        shape = tuple(1 if i == kept[0] else n for i, n in enumerate(shape))
    shapes = [shape, *[smaller] * (count - 1)]
    return shapes if (turn + turn // len(KEPT)) % 2 else shapes[::-1]


def _shapes(draw: Draw, op: str, count: int) -> tuple[list[tuple[int, ...]], str]:
    """Return the shapes of operands, and how they broadcast."""
    if draw.turn == 0:  # more elements than any buffer
        return [(draw.small(2), 1024 + draw.small(-1), draw.small(2))] * count, "many elements"
    if draw.turn < FIRST_BROADCAST or count == 1:
        return [tuple(draw.extents(draw.small(1, 4)))] * count, "equal shapes"
    shape = tuple(max(2, n) for n in draw.extents(4, 70))
    if op == "PRelu":  # only the slope may be smaller
        return [shape, shape[draw.small(1, 3) :]], "broadcast"
    return _broadcast(draw, shape, count), "broadcast"


def _application(draw: Draw, op: str) -> Case:
    schema = onnx.defs.get_schema(op, OPSET)
    count = 1 if op == "Clip" else max(schema.min_input, min(schema.max_input, 2))
    types = _element_types(op, schema)
    dtype = types[0] if draw.turn < 3 else types[draw.turn % len(types)]
    shapes, how = _shapes(draw, op, count)
    arrays = [np.asarray(_operand(draw, op, dtype, shape, i)) for i, shape in enumerate(shapes)]
    attributes = _attributes(draw, schema)
    if op == "Where":
        arrays[0] = np.asarray(arrays[0] > 0)
    if count > 1 and draw.turn % 2 == 0 and how != "broadcast" and op not in NOT_ZERO:
        # some elements are equal
        arrays[-1] = np.where(np.arange(shapes[-1][-1]) % 3, arrays[-1], arrays[-2])
    if op == "Clip":
        bounds = [np.float32(-0.5), np.float32(0.75)][: draw.small(1, 2)]
        return single(op, how, arrays, [], bounds, opens=(0,))
    if (count == 2 and draw.turn % 3 == 2) or op == "PRelu":
        return single(op, f"{dtype}, a constant", arrays[:1], arrays[1:], **attributes)
    if count == 2 and draw.turn == 4 and op not in NOT_ZERO:
        case = single(op, f"{dtype}, the same twice", arrays[:1], opens=(0,), **attributes)
        case.nodes[0].input.append("x0")
        return case
    opens = (0,) if how != "broadcast" else ()
    return single(op, f"{dtype}, {how}", arrays, opens=opens, **attributes)


def _attributes(draw: Draw, schema: onnx.defs.OpSchema) -> dict:
    """Return values near the defaults for the attributes that are numbers."""
    found = {}
    for name, attribute in schema.attributes.items():
        if name == "direction":
            found[name] = draw.pick("LEFT", "RIGHT")
        elif name == "fmod":
            found[name] = draw.pick(0, 1)
        elif attribute.type == onnx.defs.OpSchema.AttrType.FLOAT and draw.turn % 2:
            found[name] = attribute.default_value.f * draw.pick(0.5, 1.25)
    if schema.name == "Mod":
        found["fmod"] = 1
    return found


def _names() -> list[str]:
    declared = [o.onnx.name for o in OPS.values() if o.kind == POINTWISE and o.onnx]
    return [name for name in dict.fromkeys([*declared, *FLOATS]) if onnx.defs.has(name, OPSET)]


def _turns(op: str) -> int:
    return FIRST_BROADCAST + (12 if onnx.defs.get_schema(op, OPSET).min_input > 1 else 0)


CARDS = {op: (partial(_application, op=op), _turns(op)) for op in _names()}
