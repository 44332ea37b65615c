"""``tvmrt inspect`` on valid and damaged files.

The tests write the files from the published layouts, independently of the reader.
"""

from __future__ import annotations

import io
import json
import shutil
import struct
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest
from archives import deep_archive

from tvmrt.cli.describe import describe

GRAPH = {
    "nodes": [
        {"op": "null", "name": "x", "inputs": []},
        {"op": "null", "name": "w", "inputs": []},
        {
            "op": "tvm_op",
            "name": "dense",
            "inputs": [[0, 0, 0], [1, 0, 0]],
            "attrs": {"func_name": "f", "num_inputs": "2", "num_outputs": "1", "flatten_data": "0"},
        },
    ],
    "arg_nodes": [0, 1],
    "heads": [[2, 0, 0]],
    "node_row_ptr": [0, 1, 2, 3],
    "attrs": {
        "dltype": ["list_str", ["float32", "int8", "float32"]],
        "storage_id": ["list_int", [0, 1, 0]],
        "shape": ["list_shape", [[1, 4], [3, 4], [1, 3]]],
    },
}


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _strings(*texts: str) -> bytes:
    return struct.pack("<Q", len(texts)) + b"".join(map(_string, texts))


def _tensor(array: np.ndarray) -> bytes:
    code = {"i": 0, "u": 1, "f": 2}[array.dtype.kind]
    head = struct.pack("<QQiii", 0xDD5E40F096B4A13F, 0, 1, 0, array.ndim)
    kind = struct.pack("<BBH", code, array.dtype.itemsize * 8, 1)
    shape = struct.pack(f"<{array.ndim}q", *array.shape)
    return head + kind + shape + struct.pack("<q", array.nbytes) + array.tobytes()


TENSORS = {"w": np.arange(12, dtype=np.int8).reshape(3, 4), "scale": np.array(0.5, np.float32)}


def _params(tensors=TENSORS) -> bytes:
    head = struct.pack("<QQ", 0xF7E58D4F05049CB7, 0) + _strings(*tensors)
    return head + struct.pack("<Q", len(tensors)) + b"".join(map(_tensor, tensors.values()))


def _blob() -> bytes:
    factory = (
        _string("GraphExecutorFactory")
        + _string(json.dumps(GRAPH))
        + struct.pack("<Q", len(TENSORS))
        + _strings(*TENSORS)
        + b"".join(map(_tensor, TENSORS.values()))
        + _string("net")
    )
    tree = _string("_import_tree") + struct.pack("<4Q", 3, 0, 1, 1) + struct.pack("<2Q", 1, 1)
    stream = struct.pack("<Q", 3) + factory + _string("_lib") + tree
    return struct.pack("<Q", len(stream)) + stream


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    """Return a small library with a module tree, built by the C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("library")
    blob = _blob()
    source = (
        f"const unsigned char __tvm_dev_mblob[{len(blob)}] = {{{','.join(map(str, blob))}}};\n"
        "int TVMBackendParallelLaunch(void);\n"
        "int f(void) { return TVMBackendParallelLaunch(); }\n"
    )
    (folder / "net.c").write_text(source)
    command = [compiler, "-shared", "-fPIC", "-o", folder / "net.so", folder / "net.c"]
    subprocess.run(command, check=True)
    return folder / "net.so"


def test_params(tmp_path):
    path = tmp_path / "net.params"
    path.write_bytes(_params())
    described = describe(path).as_dict()
    assert described["bytes"] == 16
    assert described["weights"] == [
        {"name": "w", "dtype": "int8", "shape": (3, 4), "bytes": 12},
        {"name": "scale", "dtype": "float32", "shape": (), "bytes": 4},
    ]


def test_graph_json(tmp_path):
    path = tmp_path / "net.json"
    path.write_text(json.dumps(GRAPH))
    described = describe(path).as_dict()
    assert described["operators"] == 1
    assert described["storage_bytes"] == 16 + 12
    assert described["outputs"] == [{"name": "dense", "dtype": "float32", "shape": (1, 3)}]
    assert described["functions"] == [{"function": "f", "calls": 1}]


def test_inspect_library_lists_functions_requirements_and_modules(library):
    described = describe(library).as_dict()
    assert described["executor"] == "graph"
    assert described["module_name"] == "net"
    assert described["modules"] == ["GraphExecutorFactory", "_lib"]
    assert described["needs_of_runtime"] == ["TVMBackendParallelLaunch"]
    assert {"f", "__tvm_dev_mblob"} <= {row["symbol"] for row in described["symbols"]}
    assert [row["name"] for row in described["weights"]] == ["w", "scale"]
    assert described["constants_bytes"] >= len(_blob())


def _write_archive(path: Path, metadata: dict) -> None:
    files = {
        "metadata.json": json.dumps(metadata).encode(),
        "parameters/net.params": _params(),
        "executor-config/graph/net.graph": json.dumps(GRAPH).encode(),
        "codegen/host/src/net_lib0.c": b"int f;\n",
    }
    with tarfile.open(path, "w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


MAIN = {"device": 1, "workspace_size_bytes": 64, "constants_size_bytes": 12, "io_size_bytes": 28}
METADATA = {
    "version": 7,
    "modules": {
        "net": {
            "target": ["c"],
            "executors": ["graph"],
            "memory": {"functions": {"main": [MAIN], "operator_functions": []}},
        }
    },
}


def test_archive(tmp_path):
    path = tmp_path / "net.tar"
    _write_archive(path, METADATA)
    described = describe(path).as_dict()
    assert described["format"] == "Model Library Format 7"
    assert described["memory in bytes"] == [
        {"module": "net", "function": "main", "workspace": 64, "constants": 12,
         "inputs and outputs": 28}
    ]  # fmt: skip
    assert described["weights net"][0]["name"] == "w"
    assert {"file": "./codegen/host/src/net_lib0.c", "bytes": 7} in described["files"]


def test_onnx_counts_operators_of_the_file(digits):
    described = describe(digits / "digits_int8.onnx").as_dict()
    counts = {row["operator"]: row["count"] for row in described["operators"]}
    assert counts["Conv"] == 4
    assert counts["DequantizeLinear"] == 18
    assert described["opset"] == {"ai.onnx": 17}


def test_functions_of_a_graph_without_a_name(tmp_path, complaint):
    """A function with a number as its name is listed with the named ones."""
    graph = json.loads(json.dumps(GRAPH))
    kernel = next(node for node in graph["nodes"] if node["op"] != "null")
    graph["nodes"].append({**kernel, "attrs": {**kernel["attrs"], "func_name": 7}})
    path = tmp_path / "net.json"
    path.write_text(json.dumps(graph))
    assert "net.json is not the JSON of a graph executor" in complaint("inspect", path)


@pytest.mark.parametrize("kind", ["params", "json", "tar", "so"])
def test_every_truncation_is_a_value_error(tmp_path, kind, request):
    path = tmp_path / f"net.{kind}"
    if kind == "params":
        whole = _params()
    elif kind == "json":
        whole = json.dumps(GRAPH).encode()
    elif kind == "tar":
        _write_archive(path, METADATA)
        whole = path.read_bytes()[:4096]
    else:
        whole = request.getfixturevalue("library").read_bytes()
    step = max(1, len(whole) // 200)
    for length in range(0, len(whole), step):
        path.write_bytes(whole[:length])
        try:
            describe(path)
        except ValueError as error:
            assert str(path) in str(error)
        else:
            # an archive may end after any member, and some parts of a library are not read
            assert kind in ("so", "tar"), f"{length} of {len(whole)} bytes pass for a whole file"


@pytest.mark.slow
@pytest.mark.parametrize("value", [0, 0x7F, 0xFF], ids=hex)
@pytest.mark.parametrize("kind", ["params", "so"])
def test_changed_bytes_never_crash_the_reader(tmp_path, kind, value, request):
    path = tmp_path / f"net.{kind}"
    whole = _params() if kind == "params" else request.getfixturevalue("library").read_bytes()
    for position in range(0, len(whole), max(1, len(whole) // 400)):
        path.write_bytes(whole[:position] + bytes([value]) + whole[position + 1 :])
        try:
            describe(path)
        except ValueError as error:
            assert str(path) in str(error)


def _linked_archive() -> bytes:
    """Return an archive whose metadata is a link to itself."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo("./metadata.json")
        member.type, member.linkname = tarfile.SYMTYPE, "metadata.json"
        archive.addfile(member)
    return out.getvalue()


@pytest.mark.everyday(3)
@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        pytest.param("a.bin", b"", "unknown file format '.bin'", id="unknown-suffix"),
        pytest.param("a.so", b"no library", "not a shared library", id="text-as-library"),
        pytest.param("a.params", b"0123456789abcdef", "not a params file", id="text-as-params"),
        pytest.param("a.json", b"[1, 2]", "not the JSON of a graph executor", id="other-json"),
        pytest.param("a.json", b"[" * 100_000, "not the JSON of a graph", id="deep-json"),
        pytest.param("a.dll", b"MZ".ljust(99), "is a library for Windows, ", id="windows"),
        pytest.param("a.dylib", b"\xcf\xfa\xed\xfe", "is a library for macOS, ", id="macos"),
        pytest.param(
            "a.tar",
            b"no archive",
            "Format archive (it is not a tar archive, or is damaged);",
            id="text-as-archive",
        ),
        pytest.param(
            "a.tar", _linked_archive(), "it contains no file metadata.json", id="linked-archive"
        ),
        pytest.param("a.tar", deep_archive(), "not a Model Library Format", id="deep-archive"),
        pytest.param("a.onnx", b"no network", "is not an ONNX model", id="text-as-onnx"),
        pytest.param("a.onnx", b"", "holds no ONNX graph", id="empty-onnx"),
    ],
)
def test_errors_are_one_sentence(complaint, tmp_path, name, content, text):
    (tmp_path / name).write_bytes(content)
    sentence = complaint("inspect", tmp_path / name)
    assert text in sentence
    assert name in sentence


def test_folder_and_missing_file(complaint, tmp_path):
    assert "Is a directory" in complaint("inspect", tmp_path)
    assert "No such file" in complaint("inspect", tmp_path / "none.so")
