"""Check of option values given in Python against the types of their rows."""

from __future__ import annotations

import ast
import operator
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from tvmrt.error import gpu_advice
from tvmrt.option import Option
from tvmrt.option_syntax import option, value_text

_SINGLE = (str, bytes, bytearray, Mapping)  # iterable, but not a list of values
_MAX_SHOWN = 60  # characters of a wrong value in an error text


class _MismatchError(Exception):
    """The value has another type; ``args[0]`` is what is required in its place."""


def checked(name: str, row: Option, value: Any) -> Any:
    """Return the value of an option, with Python's numbers in place of NumPy's. Raise TypeError if
    it has another type than the row, ValueError for a number that is too small."""
    if value is None and row.type.startswith("Sequence"):
        return row.default
    try:
        result = _converted(_parsed(row.type), value)
    except _MismatchError as problem:
        raise TypeError(_mismatch_text(name, row, value, str(problem))) from None
    if row.least is not None and result is not None and result < row.least:
        raise ValueError(f"{option(name, result)}: give a number of at least {row.least}")
    return result


def _mismatch_text(name: str, row: Option, value: Any, required: str) -> str:
    """Return the error text for a value of another type than required."""
    shown = repr(value)
    shown = shown if len(shown) <= _MAX_SHOWN else f"a {type(value).__name__}"
    if row.example is not None:
        return f"{option(name)}: give {required}, such as {option(name, row.example)}, not {shown}"
    if row.values:
        required = " or ".join(map(value_text, row.values))
    if required == "a list" and isinstance(value, str):
        if (advice := gpu_advice(value)) is not None:
            return f"{option(name, value)}: {advice}, {option(name, ['opencl'])}"
        return f"{option(name)}: give a list, {option(name, [value])}"
    unit = f" of {row.unit}" if row.unit in ("bytes", "seconds") else ""
    return f"{option(name)}: give {required}{unit}, not {shown}"


@cache
def _parsed(kind: str) -> ast.expr:
    return ast.parse(kind, mode="eval").body


def _converted(kind: ast.expr, value: Any) -> Any:
    """Return the value with plain numbers. Raise _MismatchError if it does not have the type."""
    if isinstance(kind, ast.BinOp):
        return _alternative(kind, value)
    if isinstance(kind, ast.Constant):  # None
        if value is None:
            return None
        raise _MismatchError("None")
    if isinstance(kind, ast.Subscript):
        arguments = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
        convert = _GENERIC.get(ast.unparse(kind.value))
        return value if convert is None else convert(value, arguments)
    name = ast.unparse(kind)
    return _SIMPLE.get(name, _any)(value)


def _alternative(kind: ast.BinOp, value: Any) -> Any:
    """Return a value of one of two types; the error names both."""
    required = []
    for side in (kind.left, kind.right):
        try:
            return _converted(side, value)
        except _MismatchError as problem:
            required.append(str(problem))
    left, right = required
    if right == "None":
        raise _MismatchError(left)
    raise _MismatchError(f"{left} or {right}")


def _any(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _MismatchError("text")
    return str(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or int(getattr(value, "ndim", 0)) or not hasattr(value, "__index__"):
        raise _MismatchError("a whole number")
    return operator.index(value)


def _number(value: Any) -> float:
    is_array = int(getattr(value, "ndim", 0))
    if isinstance(value, bool) or is_array or not hasattr(value, "__float__"):
        raise _MismatchError("a number")
    return value if isinstance(value, (int, float)) else float(value)


def _truth(value: Any) -> bool:
    is_array = int(getattr(value, "ndim", 0)) > 0
    if is_array or not hasattr(value, "__bool__") or value not in (True, False):
        raise _MismatchError("True or False")
    return bool(value)


def _path(value: Any) -> Any:
    if not isinstance(value, os.PathLike):
        raise _MismatchError("a path")
    return value


def _function(value: Any, _arguments: list[ast.expr]) -> Any:
    if not callable(value):
        raise _MismatchError("a function")
    return value


def _instance(value: Any, classes: Sequence[str], required: str) -> Any:
    """Return an instance of one of the classes, whose modules are loaded if it is one."""
    for module, _, name in (each.partition(":") for each in classes):
        if module in sys.modules and isinstance(value, getattr(sys.modules[module], name)):
            return value
    raise _MismatchError(required)


def _device(value: Any) -> Any:
    return _instance(value, ["tvmrt.compiler.devices.base:Device"], "a tvmrt.devices.Device")


def _operators(value: Any) -> Any:
    """Return what declares custom operators."""
    if isinstance(value, (str, os.PathLike)):
        return value
    if isinstance(value, (list, tuple)):
        return [_operators(each) for each in value]
    package = "tvmrt.compiler.custom"
    classes = [f"{package}.operator:Operator", f"{package}.catalogue:Catalogue"]
    return _instance(value, classes, "a file or an operator")


def _list(value: Any, arguments: list[ast.expr]) -> Any:
    if (
        isinstance(value, _SINGLE)
        or not isinstance(value, Iterable)
        or not getattr(value, "ndim", 1)
    ):
        raise _MismatchError("a list")
    (element,) = arguments
    items = [_item(element, each) for each in value]
    return tuple(items) if isinstance(value, tuple) else items


def _item(element: ast.expr, value: Any) -> Any:
    try:
        return _converted(element, value)
    except _MismatchError as problem:
        raise _MismatchError(f"a list of values that are {problem} each") from None


def _tuple(value: Any, arguments: list[ast.expr]) -> tuple[Any, ...]:
    if not isinstance(value, (tuple, list)) or len(value) != len(arguments):
        raise _MismatchError("a pair")
    try:
        return tuple(_converted(kind, each) for kind, each in zip(arguments, value))
    except _MismatchError as problem:
        raise _MismatchError(f"a pair of values that are {problem} each") from None


def _mapping(value: Any, arguments: list[ast.expr]) -> Any:
    if not hasattr(value, "items"):
        raise _MismatchError("a dict")
    key, item = arguments
    try:
        names = [_converted(key, each) for each, _ in value.items()]
    except _MismatchError:
        raise _MismatchError("a dict with names as keys") from None
    try:
        return {name: _converted(item, each) for name, each in zip(names, value.values())}
    except _MismatchError as problem:
        raise _MismatchError(f"for each name {problem}") from None


_SIMPLE: dict[str, Callable[[Any], Any]] = {
    "str": _text, "int": _whole, "float": _number, "bool": _truth, "os.PathLike": _path,
    "Device": _device, "OperatorSource": _operators,
}  # fmt: skip
_GENERIC: dict[str, Callable[[Any, list[ast.expr]], Any]] = {
    "Sequence": _list, "Mapping": _mapping, "tuple": _tuple, "Callable": _function,
    "os.PathLike": lambda value, _: _path(value),
}  # fmt: skip
