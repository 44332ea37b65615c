"""Files with each field truncated, zeroed or maximal; JSON with any value at any position."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tvmrt.error import TVMError

from . import network

FAILURES = (TVMError, ValueError, TypeError, KeyError, OSError)

Field = tuple[str, bytes]


def number(name: str, value: int, size: int = 8) -> Field:
    return name, value.to_bytes(size, "little")


def text(name: str, value: str) -> list[Field]:
    return [number(f"{name}.length", len(value)), (name, value.encode())]


def tensor_fields(array: np.ndarray, name: str = "tensor") -> list[Field]:
    """Return the fields of a float32 tensor."""
    fields = [
        number("magic", 0xDD5E40F096B4A13F),
        number("reserved", 0),
        number("device_type", 1, 4),
        number("device_id", 0, 4),
        number("ndim", array.ndim, 4),
        number("code", 2, 1),
        number("bits", 32, 1),
        number("lanes", 1, 2),
        *(number(f"shape{i}", extent) for i, extent in enumerate(array.shape)),
        number("size", array.nbytes),
        ("data", array.tobytes()),
    ]
    return [(f"{name}.{field}", data) for field, data in fields]


def params_fields() -> list[Field]:
    return [
        number("magic", 0xF7E58D4F05049CB7),
        number("reserved", 0),
        number("names", 1),
        *text("name", "w"),
        number("tensors", 1),
        *tensor_fields(network.W),
    ]


def tree_fields() -> list[Field]:
    """Return the fields of a usual graph library's stream, without the length before it."""
    numbers = [("rows", [0, 1, 1]), ("children", [1])]
    tree: list[Field] = []
    for name, values in numbers:
        tree.append(number(f"{name}.count", len(values)))
        tree += [number(f"{name}{i}", value) for i, value in enumerate(values)]
    return [
        number("entries", 3),
        *text("factory.kind", "GraphExecutorFactory"),
        *text("json", network.graph_text()),
        number("params", 1),
        number("names", 1),
        *text("name", "w"),
        *tensor_fields(network.W),
        *text("network", "default"),
        *text("library.kind", "_lib"),
        *text("tree.kind", "_import_tree"),
        *tree,
    ]


def joined(fields: list[Field]) -> bytes:
    return b"".join(data for _, data in fields)


DAMAGES = {
    "zeroed": lambda data: bytes(len(data)),
    "maximal": lambda data: b"\xff" * len(data),
    "halved": lambda data: b"\x7f" * len(data),
}


def damaged(fields: list[Field], kind: str) -> Iterator[tuple[str, bytes]]:
    """Yield each damage of each field: its name and the whole file."""
    for i, (name, data) in enumerate(fields):
        before = joined(fields[:i])
        if kind == "cut":
            yield name, before + data[: len(data) // 2]
        else:
            yield name, before + DAMAGES[kind](data) + joined(fields[i + 1 :])


kinds = pytest.mark.parametrize("kind", ["cut", *DAMAGES])


def paths(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """Yield the path of every value in a JSON document."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from paths(value[key], (*path, key))
    elif isinstance(value, list):
        for index in range(len(value)):
            yield from paths(value[index], (*path, index))


def replaced(graph: Any, path: tuple, value: Any) -> str:
    copy = json.loads(json.dumps(graph))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return json.dumps(copy)
