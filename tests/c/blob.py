"""Write the module trees of fixtures as C arrays, independently from the format's description.

Usage: blob.py NAME OUTPUT, where NAME is a key of BLOBS.
"""

from __future__ import annotations

import struct
import sys


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def text(value: str) -> bytes:
    raw = value.encode()
    return u64(len(raw)) + raw


def texts(values: list[str]) -> bytes:
    return u64(len(values)) + b"".join(text(v) for v in values)


def numbers(values: list[int]) -> bytes:
    return u64(len(values)) + b"".join(u64(v) for v in values)


def tensor(shape: list[int], values: list[float]) -> bytes:
    """Return a float32 tensor: magic, reserved, device, ndim, dtype, shape, size, data."""
    data = struct.pack(f"<{len(values)}f", *values)
    head = struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, len(shape), 2, 32, 1)
    return head + struct.pack(f"<{len(shape)}q", *shape) + struct.pack("<q", len(data)) + data


def blob(entries: list[bytes], tree: tuple[list[int], list[int]] | None) -> bytes:
    if tree is not None:
        entries = [*entries, text("_import_tree") + numbers(tree[0]) + numbers(tree[1])]
    stream = u64(len(entries)) + b"".join(entries)
    return u64(len(stream)) + stream


# y = (x + w) * 2, then y reshaped: an input, a parameter, two operators and a reshape.
GRAPH_JSON = """{
  "nodes": [
    {"op": "null", "name": "x", "inputs": []},
    {"op": "null", "name": "w", "inputs": []},
    {"op": "tvm_op", "name": "sum", "inputs": [[0, 0, 0], [1, 0, 0]],
     "attrs": {"func_name": "fixture_add", "num_inputs": "2", "num_outputs": "1",
               "flatten_data": "0", "hash": "0123"}},
    {"op": "tvm_op", "name": "twice", "inputs": [[2, 0, 0]],
     "attrs": {"func_name": "fixture_double", "num_inputs": "1", "num_outputs": "1",
               "flatten_data": "1"}},
    {"op": "tvm_op", "name": "reshape_nop", "inputs": [[3, 0, 0]],
     "attrs": {"func_name": "__nop", "num_inputs": "1", "num_outputs": "1", "flatten_data": "0"}}
  ],
  "arg_nodes": [0, 1],
  "heads": [[2, 0, 0], [4, 0, 0]],
  "attrs": {
    "dltype": ["list_str", ["float32", "float32", "float32", "float32", "float32"]],
    "device_index": ["list_int", [1, 1, 1, 1, 1]],
    "storage_id": ["list_int", [0, 1, 2, 3, 3]],
    "shape": ["list_shape", [[2, 3], [2, 3], [2, 3], [2, 3], [6]]]
  },
  "node_row_ptr": [0, 1, 2, 3, 4, 5]
}"""

WEIGHT = tensor([2, 3], [10, 20, 30, 40, 50, 60])
GRAPH_FACTORY = text(GRAPH_JSON) + u64(1) + texts(["w"]) + WEIGHT + text("default")
CONST_LOADER = texts(["c0"]) + u64(1) + WEIGHT + texts(["ext_0"]) + u64(1) + texts(["c0"])

BLOBS = {
    # A graph factory over the library.
    "graph": blob([text("GraphExecutorFactory") + GRAPH_FACTORY, text("_lib")], ([0, 1, 1], [1])),
    # An ahead-of-time factory, its metadata and the library.
    "aot": blob(
        [
            text("AotExecutorFactory") + u64(0) + texts([]) + text("default"),
            text("metadata_module"),
            text("_lib"),
        ],
        ([0, 1, 2, 2], [1, 2]),
    ),
    # Constants that an accelerator module (here of a plug-in kind) receives before its first call.
    "const": blob(
        [
            text("GraphExecutorFactory") + GRAPH_FACTORY,
            text("const_loader") + CONST_LOADER,
            text("fixture_json") + text("ext_0"),
            text("_lib"),
        ],
        ([0, 1, 3, 3, 3], [1, 2, 3]),
    ),
    # The layout of libraries without a module tree.
    "flat": blob([text("metadata_module")], None),
}


def main() -> None:
    name, output = sys.argv[1:]
    data = BLOBS[name]
    rows = [", ".join(str(b) for b in data[i : i + 24]) for i in range(0, len(data), 24)]
    with open(output, "w") as file:
        file.write('__attribute__((visibility("default")))\n')
        file.write("extern const unsigned char __tvm_dev_mblob[];\n")
        file.write(f"const unsigned char __tvm_dev_mblob[{len(data)}] = {{\n")
        file.write(",\n".join(rows) + "};\n")


if __name__ == "__main__":
    main()
