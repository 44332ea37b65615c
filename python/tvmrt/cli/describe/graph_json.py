"""The graph executor's JSON: operators, inputs, outputs and storage."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

from tvmrt.cli.describe import Description, manifest
from tvmrt.cli.table import Table

BITS = re.compile(r"[a-z]+(\d+)(?:x(\d+))?")


def _tensor_bytes(dtype: str, shape: list[int]) -> int:
    match = BITS.fullmatch(dtype)
    bits = int(match[1]) * int(match[2] or 1) if match else 8
    return (bits + 7) // 8 * math.prod(shape)


def _storage(attrs: dict[str, Any]) -> dict[int, int]:
    """Return the bytes of each storage id, the maximum over its tensors."""
    sizes: dict[int, int] = {}
    entries = zip(attrs["storage_id"][1], attrs["dltype"][1], attrs["shape"][1])
    for storage, dtype, shape in entries:
        sizes[storage] = max(sizes.get(storage, 0), _tensor_bytes(dtype, shape))
    return sizes


def _tensor_rows(graph: dict[str, Any], entries: list[tuple[int, int]]) -> list[tuple]:
    nodes, attrs, first = graph["nodes"], graph["attrs"], graph["node_row_ptr"]
    rows = []
    for node, output in entries:
        entry = first[node] + output
        shape, dtype = attrs["shape"][1][entry], attrs["dltype"][1][entry]
        rows.append((nodes[node]["name"], dtype, tuple(shape)))
    return rows


def _output_names(graph: dict[str, Any], rows: list[tuple]) -> list[str]:
    """Return the names of the outputs; without names in the metadata, those of the nodes."""
    metadata = graph.get("metadata")
    names = metadata.get("output_names") if isinstance(metadata, dict) else None
    if names is None:
        return [row[0] for row in rows]
    if len(names) != len(rows):
        raise ValueError(f"there are {len(rows)} heads and {len(names)} output_names")
    return [str(name) for name in names]


def describe_text(text: str, what: str) -> Description:
    """Describe the text of a graph; ``what`` is its name in errors."""
    try:
        graph = json.loads(text)
        nodes = graph["nodes"]
        kernels = [node for node in nodes if node["op"] != "null"]
        functions = Counter(node["attrs"]["func_name"] for node in kernels)
        calls = sorted(functions.items())  # raises TypeError for names that are not strings
        storage = _storage(graph["attrs"])
        storage_bytes = sum(storage.values())
        inputs = _tensor_rows(graph, [(node, 0) for node in graph["arg_nodes"]])
        outputs = _tensor_rows(graph, [(entry[0], entry[1]) for entry in graph["heads"]])
        outputs = [(name, *row[1:]) for name, row in zip(_output_names(graph, outputs), outputs)]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, AttributeError) as error:
        raise ValueError(
            f"{what} is not the JSON of a graph executor ({type(error).__name__}: {error}); "
            "the parts nodes, arg_nodes, heads, attrs and node_row_ptr must agree"
        ) from None
    properties = {
        "format": "graph JSON",
        "operators": len(kernels),
        "storage_pieces": len(storage),
        "storage_bytes": storage_bytes,
    }
    columns, words = ("name", "dtype", "shape"), ("name", "dtype", "shape")
    tables = {
        "inputs": Table(columns, inputs, words),
        "outputs": Table(columns, outputs, words),
        "functions": Table(("function", "calls"), calls, ("function",)),
    }
    return Description(properties, tables)


def describe(path: Path) -> Description:
    """Describe a graph JSON file, or a manifest of C sources."""
    text = path.read_text("utf-8", "replace")
    if manifest.is_manifest(path):
        return manifest.describe_text(text, str(path))
    return describe_text(text, str(path))
