"""The network of these tests: y = x + w, z = y * 2, all float32 of shape (2, 3)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from artefacts import stream
from artefacts.releases import Release

X = np.array([[1, -2, 3], [0.5, 100, -7]], np.float32)
W = np.array([[10, 20, 30], [40, 50, 60]], np.float32)
Z = (X + W) * 2
"""What X and W give."""


def operator(name: str, inputs: list[list[int]], function: str | None = None) -> dict[str, Any]:
    """Return a node that calls a function."""
    return {
        "op": "tvm_op",
        "name": name,
        "attrs": {
            "num_outputs": "1",
            "num_inputs": str(len(inputs)),
            "flatten_data": "0",
            "func_name": function or name,
            "hash": "4f6bd2a1d2d7a0b9",
        },
        "inputs": inputs,
    }


def graph(release: Release | None = None) -> dict[str, Any]:
    """Return the graph in the format of a release."""
    attrs: dict[str, Any] = {
        "dltype": ["list_str", ["float32"] * 4],
        "device_index": ["list_int", [1] * 4],
        "storage_id": ["list_int", [0, 1, 2, 3]],
        "shape": ["list_shape", [[2, 3]] * 4],
    }
    if release is not None and release.first >= 10:
        attrs["storage_scope"] = ["list_str", ["global"] * 4]
    return {
        "nodes": [
            {"op": "null", "name": "x", "inputs": []},
            {"op": "null", "name": "w", "inputs": []},
            operator("tvmgen_default_fused_add", [[0, 0, 0], [1, 0, 0]]),
            operator("tvmgen_default_fused_multiply", [[2, 0, 0]]),
        ],
        "arg_nodes": [0, 1],
        "heads": [[3, 0, 0]],
        "attrs": attrs,
        "node_row_ptr": [0, 1, 2, 3, 4],
    }


def graph_text(release: Release | None = None) -> str:
    return json.dumps(graph(release), indent=2)


def graph_blob(release: Release | None = None, kind: str = "GraphExecutorFactory") -> bytes:
    """Return the module tree of the usual library: a factory over the code."""
    factory = stream.graph_factory(graph_text(release), {"w": W})
    return stream.blob([stream.module(kind, factory), stream.LIBRARY], [0, 1, 1], [1])
