"""Applications of operators generated from their contracts: a valid one, and many invalid ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

from tvmrt.compiler import ir
from tvmrt.compiler.ir import DTYPES, HANDLE, OPS, TensorType
from tvmrt.compiler.ir.contract import FAMILIES, LIMIT, Contract

# Operators whose contract is a record or a graph in the node.
BY_RECORD = {"begin_state", "custom", "composed", "loop", "onnx_node", "region"}
# Devices add private operators for their regions.
OWN = sorted(name for name, op in OPS.items() if type(op).__module__.startswith(ir.__name__))
TABLED = sorted(set(OWN) - BY_RECORD)


@dataclass(frozen=True)
class Application:
    """Types and elements of the operands, and the attributes, of one node."""

    types: tuple[TensorType | None, ...]
    attrs: dict[str, Any]
    data: tuple[np.ndarray | None, ...]


@dataclass(frozen=True)
class Mutant:
    """An invalid application; its error text contains ``names``."""

    id: str
    application: Application
    names: str


def sample(op: str, given: dict[str, Any] | None = None) -> Application:
    """A right application with every operand, from the contract and its example.

    ``given`` overrides: extents, axes, element types and attributes by name, shapes of operands by
    their names; ``NAME_data`` is the value of all elements of a constant.
    """
    contract = OPS[op].contract
    known = {**contract.example, **(given or {})}
    known = {k: DTYPES[v] if k == "E" and isinstance(v, str) else v for k, v in known.items()}
    types: list[TensorType] = []
    attrs = {}
    for attribute in contract.attributes.values():
        if not attribute.late and (not attribute.optional or attribute.name in known):
            if attribute.name not in known:
                known[attribute.name] = _plain_value(attribute)
            attrs[attribute.name] = known[attribute.name]
    extents = count(3)
    for operand in contract.operands:
        for name in sorted(operand.shape.symbols - set(known)):
            variadic = operand.shape.variadic
            known[name] = (
                _axes(variadic, known) if variadic and variadic.name == name else next(extents)
            )
    for operand in contract.operands:
        shape = known.get(operand.name)
        if shape is None:
            shape = _shape(operand.shape, known)
        dtype = _element(operand.elements, known)
        shapes = shape if isinstance(shape, list) else [shape] * (2 if operand.repeated else 1)
        types += [TensorType(each, dtype) for each in shapes]
    for attribute in contract.attributes.values():
        if attribute.late and not attribute.optional:
            first = next(
                (t for o, t in zip(contract.operands, types) if o.name == attribute.of), None
            )
            attrs[attribute.name] = known.get(
                attribute.name, _value_for(attribute, first, known.get(attribute.like))
            )
    data = tuple(
        np.full(t.shape, known.get(f"{o.name}_data", 0), t.dtype.numpy) if o.constant else None
        for o, t in zip([*contract.operands, *contract.operands[-1:] * len(types)], types)
    )
    return Application(tuple(types), attrs, data)


def _axes(variadic, known) -> tuple[int, ...]:
    if variadic.like is not None:
        return tuple(range(4, 4 + len(known[variadic.like])))
    return (5, 6, 7)[: max(variadic.min_count, min(2, variadic.max_count or 2))]


def _shape(shape, known) -> tuple[int, ...]:
    if shape.variadic is not None and shape.variadic.name is None:
        return ()
    return shape.extents({**known, "_": 2})


def _element(elements, known):
    if elements.letter is not None and elements.letter in known:
        return known[elements.letter]
    known_types = {**DTYPES, "handle": HANDLE}
    dtype = known_types[next(n for n in (*FAMILIES["any"], "handle") if n in elements.allowed)]
    if elements.letter is not None:
        known[elements.letter] = dtype
    return dtype


def _plain_value(attribute) -> Any:
    low, high = attribute.low, attribute.high
    if attribute.choices:
        return attribute.choices[0]
    if attribute.kind == "dtype":
        return next(n for n in FAMILIES["any"] if n in attribute.dtypes)
    number = int(max(low, min(1, high)))
    values = {
        "int": number,
        "ints": (number,) * (attribute.length or 2),
        "float": 1.0,
        "bool": False,
        "text": "words",
    }
    return values[attribute.kind]


def _value_for(attribute, operand: TensorType | None, axes) -> Any:
    if attribute.like is not None:
        return (max(attribute.low, 0),) * len(axes)
    if attribute.kind == "order":
        return tuple(reversed(range(operand.rank)))
    return {"axes": (0,)}.get(attribute.kind, 0)


def mutants(op: str) -> Iterator[Mutant]:
    """Return applications that break the contract's rules, one rule each."""
    contract, right = OPS[op].contract, sample(op)
    yield from _wrong_counts(contract, right)
    for i, operand in enumerate(contract.operands):
        yield from _wrong_operands(contract, operand, i, right)
    for attribute in contract.attributes.values():
        if attribute.name in right.attrs:
            yield from _wrong_values(contract, attribute, right)
    yield Mutant("unknown", _with(right, unheard_of=1), "unknown attribute unheard_of")


def _with(application: Application, **attrs: Any) -> Application:
    return replace(application, attrs={**application.attrs, **attrs})


def _typed(application: Application, i: int, type: TensorType | None) -> Application:
    types, data = list(application.types), list(application.data)
    types[i] = type
    if data[i] is not None:
        data[i] = None if type is None else np.zeros(type.shape, type.dtype.numpy)
    return replace(application, types=tuple(types), data=tuple(data))


def _wrong_counts(contract: Contract, right: Application) -> Iterator[Mutant]:
    if not contract.repeated:
        more = replace(right, types=(*right.types, None), data=(*right.data, None))
        yield Mutant("one-operand-more", more, "operands, expected")
    if not contract.min_count:
        return
    fewer = contract.min_count - 1
    few = replace(right, types=right.types[:fewer], data=right.data[:fewer])
    yield Mutant("one-operand-less", few, "operands, expected")


def _wrong_operands(contract, operand, i: int, right: Application) -> Iterator[Mutant]:
    type, name = right.types[i], operand.name
    if not operand.optional:
        yield Mutant(f"{name}-missing", _typed(right, i, None), f"operand {name} is missing")
    for dtype in DTYPES.values():
        wrong = operand.elements.allowed and dtype.name not in operand.elements.allowed
        if wrong or (operand.elements.allowed is None and dtype != type.dtype):
            changed = _typed(right, i, TensorType(type.shape, dtype))
            yield Mutant(f"{name}-of-{dtype}", changed, f"operand {name} is {dtype}[")
    variadic = operand.shape.variadic
    if variadic is None or _reads(contract, variadic.name) > 1:
        for shape in ((*type.shape, 1), type.shape[:-1]):
            if len(shape) != type.rank:
                changed = _typed(right, i, TensorType(shape, type.dtype))
                yield Mutant(f"{name}-of-rank-{len(shape)}", changed, "operand ")
    for axis in _compared_axes(contract, operand, type.rank):
        shape = tuple(n + (d == axis) for d, n in enumerate(type.shape))
        changed = _typed(right, i, TensorType(shape, type.dtype))
        yield Mutant(f"{name}-axis-{axis}-longer", changed, "operand ")
    if operand.constant:
        unknown = replace(
            right, data=tuple(None if j == i else a for j, a in enumerate(right.data))
        )
        yield Mutant(f"{name}-computed", unknown, f"operand {name} is computed at run time")


def _reads(contract: Contract, name: str | None) -> int:
    """Return how many operands use an extent, or the axes, directly or in a formula."""
    return sum(name in o.shape.names for o in contract.operands) if name else 0


def _compared_axes(contract: Contract, operand, rank: int) -> Iterator[int]:
    """Return axes whose extent is fixed by an operand or a number."""
    words = operand.shape.text.split()
    for i, word in enumerate(words):
        place = i if i <= _head(words) else i - len(words) + rank
        if word.startswith("*"):
            if sum(operand.shape.variadic.name in o.shape.symbols for o in contract.operands) > 1:
                yield from range(i, rank - len(words) + i + 1)
        elif word != "_" and (
            not word.isupper() or words.count(word) > 1 or _reads(contract, word) > 1
        ):
            yield place


def _head(words: list[str]) -> int:
    return next((i for i, word in enumerate(words) if word.startswith("*")), len(words))


def _wrong_values(contract: Contract, attribute, right: Application) -> Iterator[Mutant]:
    name, value = attribute.name, right.attrs[attribute.name]
    attrs = {k: v for k, v in right.attrs.items() if k != name}
    if not attribute.optional:
        yield Mutant(f"{name}-missing", replace(right, attrs=attrs), f"attribute {name} is missing")
    for said, wrong in _wrong_for(contract, attribute, value, right):
        names = name if attribute.kind == "object" else f"attribute {name} is "
        yield Mutant(f"{name}-{said}", _with(right, **{name: wrong}), names)


def _wrong_for(contract, attribute, value, right: Application) -> Iterator[tuple[str, Any]]:
    kind = attribute.kind
    yield "of-another-kind", 1.5j if kind == "object" else object()
    if kind in ("int", "axis", "bool"):
        yield "fraction", 0.5
    if kind in ("int", "axis"):
        yield "text", "1"
    if kind == "bool":
        yield "two", 2
    if attribute.choices or kind == "dtype":
        yield "of-another-name", "nobody"
    if kind in ("axis", "axes", "order"):
        operands = zip(contract.operands, right.types)
        rank = next(t.rank for o, t in operands if o.name == attribute.of)
        rest = () if kind == "axis" else tuple(value)[1:]
        for said, axis in (("past-the-end", rank), ("from-the-end", -1)):
            yield said, axis if kind == "axis" else (axis, *rest)
        if kind != "axis":
            yield "twice", (0, 0)
    elif kind == "int" and attribute.of is None:
        yield from (("below", attribute.low - 1), ("above", attribute.high + 1))
    elif kind == "int":
        yield "above", LIMIT + 1
    elif kind == "ints":
        yield from (("below", (attribute.low - 1, *value[1:])), ("above", (LIMIT + 1, *value[1:])))
        if attribute.like or attribute.length:
            yield from (("longer", (*value, 1)), ("shorter", value[:-1]))
    elif kind == "float" and np.isfinite(attribute.low):
        yield "below", attribute.low - 1.0
