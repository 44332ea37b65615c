"""A second loader and two executors over ctypes, independent of tvmrt.

They run a library by the rules of the formats alone and know nothing of tvmrt.
"""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np

from artefacts.reader import Entry, read_blob


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class Value(ctypes.Union):
    """TVMValue."""

    _fields_ = (("integer", ctypes.c_int64), ("handle", ctypes.c_void_p))


class TensorInfo(ctypes.Structure):
    """TVMTensorInfo."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("num_shape", ctypes.c_int64),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


class ConstantInfo(ctypes.Structure):
    """TVMConstantInfo."""

    _fields_ = (
        ("name_hint", ctypes.c_char_p),
        ("byte_offset", ctypes.c_int64),
        ("data_len", ctypes.c_int64),
        ("data_bytes", ctypes.c_void_p),
    )


class Metadata(ctypes.Structure):
    """TVMMetadata."""

    _fields_ = (
        ("version", ctypes.c_int64),
        ("inputs", ctypes.POINTER(TensorInfo)),
        ("num_inputs", ctypes.c_int64),
        ("outputs", ctypes.POINTER(TensorInfo)),
        ("num_outputs", ctypes.c_int64),
        ("workspace_pools", ctypes.POINTER(TensorInfo)),
        ("num_workspace_pools", ctypes.c_int64),
        ("constant_pools", ctypes.POINTER(ConstantInfo)),
        ("num_constant_pools", ctypes.c_int64),
        ("mod_name", ctypes.c_char_p),
    )


ALIGN_BYTES = 64
"""What releases since 0.10 align tensors to."""

DLTENSOR_HANDLE = 7
OPAQUE_HANDLE = 3
NULL = 4


def memory(count: int) -> np.ndarray:
    """Return bytes at an address that is a multiple of 64 but not of 128, filled with a pattern."""
    whole = np.full(count + 3 * ALIGN_BYTES, 0xA5, np.uint8)
    start = -whole.ctypes.data % (2 * ALIGN_BYTES) + ALIGN_BYTES
    return whole[start : start + count]


def numpy_type(code: int, bits: int) -> np.dtype:
    if (code, bits) == (1, 1):
        return np.dtype(np.bool_)
    return np.dtype(f"{'iuf'[code]}{bits // 8}")


def type_of(text: str) -> tuple[int, int]:
    """Return code and bits of a type's name."""
    if text == "bool":
        return 1, 1
    kind = text.rstrip("0123456789")
    return {"int": 0, "uint": 1, "float": 2}[kind], int(text[len(kind) :])


class Library:
    """A shared library, its module tree, and calls of its functions."""

    def __init__(self, path: Path) -> None:
        self.code = ctypes.CDLL(str(path))
        start = ctypes.c_uint64.in_dll(self.code, "__tvm_dev_mblob")
        count = start.value + 8
        self.entries: list[Entry] = read_blob(ctypes.string_at(ctypes.addressof(start), count))
        self.error = ctypes.CDLL(None).TVMGetLastError
        self.error.restype = ctypes.c_char_p

    def call(self, name: str, tensors: list[Tensor]) -> Value:
        """Call a packed function with tensors."""
        count = len(tensors)
        values = (Value * max(count, 1))()
        codes = (ctypes.c_int32 * max(count, 1))(*[DLTENSOR_HANDLE] * count)
        for i, tensor in enumerate(tensors):
            values[i].handle = ctypes.addressof(tensor)
        result, code = Value(), ctypes.c_int32(NULL)
        rc = self.code[name](values, codes, count, ctypes.byref(result), ctypes.byref(code), None)
        assert rc == 0, f"{name} returned {rc}: {self.error().decode()}"
        assert code.value == (NULL if tensors else OPAQUE_HANDLE)
        return result


def make_tensor(data: np.ndarray, shape: list[int], dtype: tuple[int, int]) -> Tensor:
    """Return a compact CPU tensor over some memory."""
    extents = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    tensor = Tensor(data.ctypes.data, 1, 0, len(shape), *dtype, 1, extents, None, 0)
    tensor.memory = data
    return tensor


def content(tensor: Tensor) -> np.ndarray:
    """Return the elements of a tensor, as a view."""
    shape = tensor.shape[: tensor.ndim]
    dtype = numpy_type(tensor.code, tensor.bits)
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return tensor.memory[:count].view(dtype).reshape(shape)


NODE_KEYS = {"op", "name", "inputs", "attrs", "control_deps"}
GRAPH_KEYS = {"nodes", "arg_nodes", "heads", "attrs", "node_row_ptr"}
TAGS = {
    "dltype": "list_str",
    "storage_id": "list_int",
    "shape": "list_shape",
    "device_index": "list_int",
    "storage_scope": "list_str",
}


def check_graph(graph: dict[str, Any]) -> None:
    """Check all requirements of graph JSON readers."""
    keys = list(graph)
    if "metadata" in keys:  # readers stop at this key, so it must be the last
        assert keys.pop() == "metadata"
    assert set(keys) == GRAPH_KEYS
    for node in graph["nodes"]:
        assert set(node) <= NODE_KEYS
        assert node["op"] in ("null", "tvm_op")
        assert all(len(entry) in (2, 3) for entry in node["inputs"])
        attrs = node.get("attrs", {})
        assert all(isinstance(value, str) for value in attrs.values())
        if node["op"] == "tvm_op":
            assert {"func_name", "num_inputs", "num_outputs", "flatten_data"} <= set(attrs)
            assert int(attrs["num_inputs"]) == len(node["inputs"])
    names = [node["name"] for node in graph["nodes"]]
    assert len(set(names)) == len(names), "names of nodes are unique"
    entries = graph["node_row_ptr"][-1]
    assert len(graph["node_row_ptr"]) == len(graph["nodes"]) + 1
    for key, (tag, items) in graph["attrs"].items():
        assert tag == TAGS[key]
        assert len(items) == entries
    for i in graph["arg_nodes"]:
        assert graph["nodes"][i]["op"] == "null"


def storage_bytes(shape: list[int], dtype: str) -> int:
    bits = type_of(dtype)[1]
    assert bits % 8 == 0 or bits in (1, 4)
    return (bits + 7) // 8 * int(np.prod(shape, dtype=np.int64))


def run_graph(library: Library, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Run the graph in the library's module tree."""
    root = library.entries[0]
    assert [entry.kind for entry in library.entries] == ["GraphExecutorFactory", "_lib"]
    graph = json.loads(root.content["json"])
    check_graph(graph)
    attrs = {key: items for key, (_, items) in graph["attrs"].items()}
    rows = graph["node_row_ptr"]
    sizes: dict[int, int] = {}
    for sid, shape, dtype in zip(attrs["storage_id"], attrs["shape"], attrs["dltype"]):
        sizes[sid] = max(sizes.get(sid, 0), storage_bytes(shape, dtype))
    pools = {sid: memory((size + 3) // 4 * 4) for sid, size in sizes.items()}
    entries = [
        make_tensor(pools[sid], shape, type_of(dtype))
        for sid, shape, dtype in zip(attrs["storage_id"], attrs["shape"], attrs["dltype"])
    ]
    given = {**root.content["params"], **inputs}
    for i in graph["arg_nodes"]:
        content(entries[rows[i]])[...] = given.pop(graph["nodes"][i]["name"])
    assert not given, "names that are no inputs"
    for i, node in enumerate(graph["nodes"]):
        if node["op"] == "tvm_op":
            read = [entries[rows[entry[0]] + entry[1]] for entry in node["inputs"]]
            library.call(node["attrs"]["func_name"], read + entries[rows[i] : rows[i + 1]])
    return [content(entries[rows[n] + k]).copy() for n, k, *_ in graph["heads"]]


def run_ahead(library: Library, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Run the main function described by the library's metadata."""
    assert [entry.kind for entry in library.entries] == [
        "AotExecutorFactory",
        "metadata_module",
        "_lib",
    ]
    address = library.call("get_c_metadata", []).handle
    metadata = ctypes.cast(address, ctypes.POINTER(Metadata)).contents
    assert metadata.version == 1

    def tensors(infos: Any, count: int) -> list[Tensor]:
        made = []
        for info in infos[:count]:
            shape = info.shape[: info.num_shape]
            dtype = (info.code, info.bits)
            size = int(np.prod(shape, dtype=np.int64)) * numpy_type(*dtype).itemsize
            assert info.lanes == 1
            made.append(make_tensor(memory(size), shape, dtype))
        return made

    read = tensors(metadata.inputs, metadata.num_inputs)
    for info, tensor in zip(metadata.inputs[: metadata.num_inputs], read):
        content(tensor)[...] = inputs[info.name.decode()]
    written = tensors(metadata.outputs, metadata.num_outputs)
    arguments = read + written
    if metadata.num_workspace_pools > 0:
        constants = metadata.constant_pools[: metadata.num_constant_pools]
        end = max((c.byte_offset + c.data_len for c in constants), default=0)
        arguments.append(make_tensor(memory(end), [end], (1, 8)))
        arguments += tensors(metadata.workspace_pools, metadata.num_workspace_pools)
    library.call(f"{metadata.mod_name.decode()}___tvm_main__", arguments)
    return [content(tensor).copy() for tensor in written]
