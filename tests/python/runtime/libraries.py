"""Build the shared libraries that the tests load, with their embedded module trees.

The bytes of the trees follow the format's specification, so that the runtime is not tested against
its own writer.
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from tvmrt import libinfo

DATA = Path(__file__).parent / "data"

GRAPH = {
    "nodes": [
        {"op": "null", "name": "x", "inputs": []},
        {"op": "null", "name": "w", "inputs": []},
        {
            "op": "tvm_op",
            "name": "scale_add",
            "attrs": {
                "func_name": "tvmgen_default_scale_add",
                "num_inputs": "2",
                "num_outputs": "1",
                "flatten_data": "0",
            },
            "inputs": [[0, 0, 0], [1, 0, 0]],
        },
        {
            "op": "tvm_op",
            "name": "sum",
            "attrs": {
                "func_name": "tvmgen_default_sum",
                "num_inputs": "1",
                "num_outputs": "1",
                "flatten_data": "0",
            },
            "inputs": [[2, 0, 0]],
        },
    ],
    "arg_nodes": [0, 1],
    "heads": [[2, 0, 0], [3, 0, 0]],
    "attrs": {
        "dltype": ["list_str", ["float32", "float32", "float32", "float32"]],
        "storage_id": ["list_int", [0, 1, 2, 3]],
        "shape": ["list_shape", [[2, 3], [2, 3], [2, 3], [2]]],
    },
    "node_row_ptr": [0, 1, 2, 3, 4],
}
"""The graph of data/network.c."""

WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3) / 10


def expected(x: Any, w: Any = WEIGHT) -> tuple[np.ndarray, np.ndarray]:
    """Return the network's outputs, computed by numpy."""
    y = 2 * np.asarray(x, np.float32) + w
    return y, y.sum(axis=-1)


def compile_library(source: Path, output: Path, blob: bytes | None = None) -> Path:
    """Compile a C file to a shared library, with a module tree if one is given."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    sources = [source]
    if blob is not None:
        text = ",".join(str(byte) for byte in blob)
        extra = output.with_suffix(".blob.c")
        extra.write_text(
            f"extern const unsigned char __tvm_dev_mblob[{len(blob)}];\n"
            f'__attribute__((visibility("default"))) const unsigned char '
            f"__tvm_dev_mblob[{len(blob)}] = {{{text}}};\n"
        )
        sources.append(extra)
    includes = [f"-I{folder}" for folder in libinfo.find_include_path()]
    flags = ["-std=gnu99", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-pthread"]
    subprocess.run([compiler, *flags, *includes, *sources, "-o", output], check=True)
    return output


def u64(value: int) -> bytes:
    """Return a number as the format writes it."""
    return struct.pack("<Q", value)


def string(text: str) -> bytes:
    """Return a text with its length."""
    return u64(len(text.encode())) + text.encode()


def ndarray(array: np.ndarray) -> bytes:
    """Return a float32 array in the classic format."""
    head = struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, array.ndim, 2, 32, 1)
    shape = struct.pack(f"<{array.ndim}q", *array.shape)
    return head + shape + struct.pack("<q", array.nbytes) + array.tobytes()


def params_fields(params: dict[str, np.ndarray]) -> bytes:
    """Return the parameters of a factory."""
    names = b"".join(string(name) for name in params)
    arrays = b"".join(ndarray(array) for array in params.values())
    return u64(len(params)) + u64(len(params)) + names + arrays


def tree(entries: list[tuple[str, bytes]], rows: list[int], children: list[int]) -> bytes:
    """Return a module tree: kinds and payloads, and the imports of each as a CSR matrix."""
    body = b"".join(string(kind) + payload for kind, payload in entries)
    csr = b"".join(u64(len(part)) + b"".join(map(u64, part)) for part in (rows, children))
    stream = u64(len(entries) + 1) + body + string("_import_tree") + csr
    return u64(len(stream)) + stream


def graph_blob(params: dict[str, np.ndarray] | None = None) -> bytes:
    """Return the tree of a network for the graph executor."""
    fields = params_fields({"w": WEIGHT} if params is None else params)
    payload = string(json.dumps(GRAPH)) + fields + string("default")
    return tree([("GraphExecutorFactory", payload), ("_lib", b"")], [0, 1, 1], [1])


def aot_blob() -> bytes:
    """Return the tree of a network for the AOT executor."""
    payload = params_fields({"w": WEIGHT}) + string("default")
    entries = [("AotExecutorFactory", payload), ("metadata_module", b""), ("_lib", b"")]
    return tree(entries, [0, 1, 2, 2], [1, 2])
