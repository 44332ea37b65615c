"""Scalar parameters of an operator: a tuple of numbers with declared types."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

REQUIRED = object()  # a parameter without default


@dataclass(frozen=True)
class ScalarType:
    """Type of a scalar: ``name`` in declarations, ``c`` and ``opencl`` in kernels."""

    name: str
    c: str
    opencl: str


# A bool is an int in OpenCL C, where kernels cannot take bool; half is its 16 bits in C.
SCALAR_TYPES = {
    row.name: row
    for row in (
        ScalarType("int", "int32_t", "int"),
        ScalarType("uint", "uint32_t", "uint"),
        ScalarType("float", "float", "float"),
        ScalarType("bool", "int32_t", "int"),
        ScalarType("half", "uint16_t", "half"),
    )
}
_RANGES = {"int": (-(1 << 31), (1 << 31) - 1), "uint": (0, (1 << 32) - 1), "bool": (0, 1)}


@dataclass(frozen=True)
class Scalar:
    """Scalar parameter: its name, its type, and its default."""

    name: str
    type: ScalarType
    default: Any = REQUIRED

    def convert(self, value: Any) -> int | float | bool:
        """Convert a value to the parameter's type. Raise ValueError naming the parameter."""
        kind = self.type.name
        where = f"scalar {self.name}"
        is_array = isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0
        number = value.item() if is_array else value
        if not isinstance(number, (bool, int, float)):
            raise ValueError(f"{where}: {value!r} is not one number; give one of type {kind}")
        if kind in _RANGES:
            least, most = _RANGES[kind]
            if not least <= number <= most or int(number) != number:
                raise ValueError(f"{where}: {number} is not a whole number from {least} to {most}")
            return bool(number) if kind == "bool" else int(number)
        dtype = np.float32 if kind == "float" else np.float16
        with np.errstate(over="ignore"):
            rounded = float(dtype(number))
        if math.isinf(rounded) and not math.isinf(number):
            raise ValueError(f"{where}: {number} is too large for type {kind}")
        return rounded


def parse_scalars(declared: Mapping[str, Any], operands: Collection[str]) -> tuple[Scalar, ...]:
    """Parse the parameters of ``{"beta": "float", "mode": ("int", 0)}``: type, or type and default.

    Raises ValueError for a type that is not in SCALAR_TYPES, for a default outside its type, and
    for a name that is not an identifier or is that of an operand.
    """
    scalars = []
    for name, given in declared.items():
        if not name.isidentifier():
            raise ValueError(f"scalar {name!r}: names are identifiers; choose another")
        if name in operands:
            raise ValueError(f"scalar {name}: an operand has that name already; choose another")
        pair = given if isinstance(given, (tuple, list)) else (given, REQUIRED)
        if len(pair) != 2:
            raise ValueError(
                f"scalar {name}: {given!r} is neither a type nor a pair of type and default"
            )
        kind, default = pair
        if not isinstance(kind, str) or kind not in SCALAR_TYPES:
            raise ValueError(
                f"scalar {name}: type {kind!r} is not known; "
                f"choose one of {', '.join(SCALAR_TYPES)}"
            )
        scalar = Scalar(name, SCALAR_TYPES[kind])
        if default is not REQUIRED:
            scalar = Scalar(name, SCALAR_TYPES[kind], scalar.convert(default))
        scalars.append(scalar)
    return tuple(scalars)


def bind_scalars(scalars: tuple[Scalar, ...], values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the typed values in the order of the declaration.

    Raises ValueError for an undeclared parameter, and for a missing one without default.
    """
    bound = add_defaults("scalar", {s.name: s.default for s in scalars}, values)
    return tuple(s.convert(bound[s.name]) for s in scalars)


def add_defaults(
    kind: str, defaults: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values and the defaults of parameters of a kind, such as "scalar", by name.

    Raises ValueError for an undeclared parameter, and for a missing one without default.
    """
    for name in values:
        if name not in defaults:
            names = ", ".join(defaults) or "none"
            raise ValueError(f"{kind} {name} is not declared; the operator takes {names}")
    bound = {**defaults, **values}
    for name, value in bound.items():
        if value is REQUIRED:
            raise ValueError(f"{kind} {name} is missing; give it, or declare a default for it")
    return bound
