"""Text and constants of regions in modules of kind ``device_region``.

The payload is two strings, each a little-endian u64 length and its bytes: a JSON object, then the
constants, each 64-aligned. The object: ``format`` "tvmrt-regions", ``version`` 1, ``device``,
``device_version``, ``regions``. Each region has ``symbol``, ``name``, ``ir_version`` of the
operators, ``tensors``, ``nodes``, ``inputs``, ``outputs``, and the bounds of dynamic ``sizes``.
Tensors have ``name``, ``dtype``, ``shape``; dynamic ones also lower bounds ``least`` and, if the
device is prepared for each size, ``extents``; constants also ``offset`` and ``bytes``. Nodes have
``op``, ``name``, ``inputs`` and ``outputs`` as indices of tensors, -1 if left out, and ``attrs``.
An extent is an expression in postfix notation: ``d0 1 + 2 /`` is the first size plus 1, divided by
2 and rounded down; ``p`` replaces negative numbers by 0.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from tvmrt.compiler.ir import DTYPES, IR_VERSION, Graph, ModuleBlob, Node, Region, Value
from tvmrt.compiler.ir.custom import plain_form
from tvmrt.compiler.ir.sizes import (
    Atom,
    Extent,
    MaxWithZero,
    Quotient,
    Symbol,
    SymInt,
    lower_bound,
    symbols_of,
    upper_bound,
)
from tvmrt.compiler.ir.verifier import unique_names
from tvmrt.error import UnsupportedError

ALIGN_BYTES = 64
SHARED_BYTES = 1024  # smaller constants are stored twice, for the device and for the CPU
TYPE_KEY = "device_region"
BLOB = "tvmrt.blob:"  # before the chip, as in region_reading.h


class Constants:
    """Bytes of all constants of a payload; equal ones are stored once."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._offsets: dict[bytes, int] = {}

    def add(self, array: np.ndarray) -> dict[str, int]:
        contiguous = np.ascontiguousarray(array)
        data = contiguous.astype(contiguous.dtype.newbyteorder("<"), copy=False).tobytes()
        if data not in self._offsets:
            pad = -self._size % ALIGN_BYTES
            self._parts += [b"\0" * pad, data]
            self._offsets[data] = self._size + pad
            self._size += pad + len(data)
        return {"offset": self._offsets[data], "bytes": len(data)}

    def tobytes(self) -> bytes:
        return b"".join(self._parts)

    def end_distances(self) -> dict[bytes, int]:
        """Return the distance from the end of each constant that is worth sharing, by digest."""
        large = ((data, at) for data, at in self._offsets.items() if len(data) >= SHARED_BYTES)
        return {sha256(data).digest(): self._size - at for data, at in large}


def region_blob(
    regions: Sequence[Region],
    device: str,
    device_version: int = 0,
    options: Mapping[str, Any] | None = None,
) -> ModuleBlob:
    """Return a module with all regions of a device, which the runtime runs on the device.

    Raises UnsupportedError if a node has an attribute that the format cannot represent.
    """
    constants = Constants()
    head = _head(regions, device, device_version, options, constants)
    text, data = head.encode(), constants.tobytes()
    payload = _SIZE.pack(len(text)) + text + _SIZE.pack(len(data)) + data
    # only given if the CPU also has code for the regions
    end_distances = constants.end_distances() if _fall_back(regions) else {}
    return ModuleBlob(TYPE_KEY, payload, _with_aligned_constants, end_distances)


_SIZE = struct.Struct("<Q")


def _with_aligned_constants(payload: bytes, offset: int) -> bytes:
    """Pad the text of a payload with spaces to align the constants to ALIGN_BYTES, because the
    runtime reads them in place."""
    count = int(_SIZE.unpack_from(payload)[0])
    end = _SIZE.size + count
    spaces = -(offset + end + _SIZE.size) % ALIGN_BYTES
    return _SIZE.pack(count + spaces) + payload[_SIZE.size : end] + b" " * spaces + payload[end:]


def region_text(
    regions: Sequence[Region],
    device: str,
    device_version: int = 0,
    options: Mapping[str, Any] | None = None,
) -> tuple[str, bytes]:
    """Return the two parts of a payload: the JSON object, and the constants."""
    constants = Constants()
    text = _head(regions, device, device_version, options, constants)
    return text, constants.tobytes()


def _fall_back(regions: Sequence[Region]) -> bool:
    return any(region.reports_failure for region in regions)


def _head(
    regions: Sequence[Region],
    device: str,
    device_version: int,
    options: Mapping[str, Any] | None,
    constants: Constants,
) -> str:
    head: dict[str, Any] = {"format": "tvmrt-regions", "version": 1}
    head |= {"device": device, "device_version": device_version}
    if options:
        head["options"] = dict(options)
    if _fall_back(regions):
        head["fallback"] = 1
    head["regions"] = [describe_region(region, constants) for region in regions]
    return json.dumps(head, separators=(",", ":"))


def constants_of(region: Mapping[str, Any], data: bytes) -> dict[int, np.ndarray]:
    """Return the constants of a described region by index; they share the memory of ``data``."""
    return {
        number: np.frombuffer(
            data, DTYPES[row["dtype"]].numpy, math.prod(row["shape"]), row["offset"]
        ).reshape(row["shape"])
        for number, row in enumerate(region["tensors"])
        if "offset" in row
    }


def describe_region(region: Region, constants: Constants) -> dict[str, Any]:
    """Describe a region as plain lists and dictionaries; its constants are added."""
    description = describe_graph(region.graph, constants, region.sizes)
    if region.sizes:
        description["sizes"] = [[s.low, s.high] for s in region.sizes]
    for chip, blob in region.blobs.items():
        if blob:  # constants that no node reads: tvmrt_region_blob() finds them by their names
            row = {"name": f"{BLOB}{chip}", "dtype": "uint8", "shape": [len(blob)]}
            data = np.frombuffer(blob, np.uint8)
            description["tensors"].append({**row, **constants.add(data)})
    return {"symbol": region.symbol, "name": region.name, "ir_version": IR_VERSION, **description}


def describe_graph(
    graph: Graph, constants: Constants, sizes: Sequence[Symbol] = ()
) -> dict[str, Any]:
    """Describe ``tensors``, ``nodes``, ``inputs`` and ``outputs`` of a graph."""
    labels = unique_names(graph)
    index = {value: i for i, value in enumerate(labels)}
    return {
        "tensors": [_tensor(v, labels[v], constants, sizes) for v in labels],
        "nodes": [_node(node, index) for node in graph.nodes],
        "inputs": [index[v] for v in graph.inputs],
        "outputs": [index[v] for v in graph.outputs],
    }


def _tensor(
    value: Value, label: str, constants: Constants, sizes: Sequence[Symbol]
) -> dict[str, Any]:
    row: dict[str, Any] = {"name": label, "dtype": value.dtype.name}
    row["shape"] = [upper_bound(n) for n in value.shape]
    if symbols_of(value.shape):
        row["least"] = [lower_bound(n) for n in value.shape]
        if sizes:
            row["extents"] = [_postfix(n, sizes) for n in value.shape]
    if value.data is not None:
        row.update(constants.add(value.data))
    return row


def _postfix(extent: SymInt | Atom, sizes: Sequence[Symbol]) -> str:
    if isinstance(extent, Symbol):
        return f"d{sizes.index(extent)}"
    if isinstance(extent, Quotient):
        return f"{_postfix(extent.number, sizes)} {extent.divisor} /"
    if isinstance(extent, MaxWithZero):
        return f"{_postfix(extent.number, sizes)} p"
    if not isinstance(extent, Extent):
        return str(int(extent))
    terms = [
        " ".join([str(k), *(f"{_postfix(atom, sizes)} *" for atom in atoms)])
        for atoms, k in extent.terms
    ]
    return " ".join([terms[0], *(f"{term} +" for term in terms[1:])])


def _node(node: Node, number: Mapping[Value, int]) -> dict[str, Any]:
    op, attributes = plain_form(node)
    attrs = {}
    for key, value in sorted(attributes.items()):
        plain = _to_plain_data(value)
        if plain is _REFUSED:
            raise UnsupportedError(
                f"{', '.join(node.sources)}: attribute {key} of {node.op} is "
                f"{value!r:.40}, which the JSON of a region cannot represent"
            )
        if plain is not None:
            attrs[key] = plain
    return {
        "op": op,
        "name": ", ".join(node.sources),
        "inputs": [-1 if v is None else number[v] for v in node.inputs],
        "outputs": [number[v] for v in node.outputs],
        "attrs": attrs,
    }


_REFUSED = object()


def _to_plain_data(value: Any) -> Any:
    """Convert an attribute to the format: number, text, or a list of numbers of one kind."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else _REFUSED
    if isinstance(value, np.ndarray):
        value = value.reshape(-1).tolist()
    if not isinstance(value, (list, tuple)):
        return _REFUSED
    items = [_to_plain_data(v) for v in value]
    if not all(isinstance(v, (int, float)) for v in items):
        return _REFUSED
    return items if all(isinstance(v, int) for v in items) else [float(v) for v in items]
