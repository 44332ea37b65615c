"""Damaged files through the Python surface: each field cut off, zeroed, made maximal."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from artefacts import firmware, network, stream, toolchain
from artefacts.eras import ERAS

import tvmrt
from tvmrt.cli.describe import archive as describe_archive
from tvmrt.contrib import graph_executor
from tvmrt.error import TVMError

FAILURES = (TVMError, ValueError, TypeError, KeyError, OSError)

Field = tuple[str, bytes]


# ---- fields ----


def number(name: str, value: int, size: int = 8) -> Field:
    return name, value.to_bytes(size, "little")


def text(name: str, value: str) -> list[Field]:
    return [number(f"{name}.length", len(value)), (name, value.encode())]


def tensor_fields(array: np.ndarray, name: str = "tensor") -> list[Field]:
    """A float32 tensor."""
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
    """The stream of a usual graph library, without the length in front of it."""
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
    """Every field in turn with some damage: its name and all the bytes."""
    for i, (name, data) in enumerate(fields):
        before = joined(fields[:i])
        if kind == "cut":
            yield name, before + data[: len(data) // 2]
        else:
            yield name, before + DAMAGES[kind](data) + joined(fields[i + 1 :])


kinds = pytest.mark.parametrize("kind", ["cut", *DAMAGES])


# ---- params ----

PARAMS_THAT_LOAD = {
    "cut": set(),
    "zeroed": {
        "reserved",
        "tensor.reserved",
        "tensor.device_type",
        "tensor.device_id",
        "tensor.code",
        "tensor.data",
    },
    "maximal": {
        "reserved",
        "name",
        "tensor.reserved",
        "tensor.device_type",
        "tensor.device_id",
        "tensor.code",
        "tensor.lanes",
        "tensor.data",
    },
}
PARAMS_THAT_LOAD["halved"] = PARAMS_THAT_LOAD["maximal"]


def test_fields_make_the_whole_files():
    """The tables below damage what the writers write."""
    assert joined(params_fields()) == stream.params({"w": network.W})
    blob = network.graph_blob()
    assert stream.string(joined(tree_fields())) == blob


@kinds
def test_params(kind):
    loaded = set()
    for name, data in damaged(params_fields(), kind):
        try:
            tvmrt.runtime.load_param_dict(data)
            loaded.add(name)
        except FAILURES as error:
            assert "params file" in str(error), (name, error)
    assert loaded <= PARAMS_THAT_LOAD[kind]
    assert loaded >= PARAMS_THAT_LOAD[kind] - {"name", "tensor.lanes", "tensor.code"}


@kinds
def test_params_of_a_running_network(kind, plain):
    for name, data in damaged(params_fields(), kind):
        executor = graph_executor.create(network.graph_text(), plain, tvmrt.cpu(0))
        try:
            executor.load_params(data)
        except FAILURES:
            continue
        executor.run(x=network.X)
        assert executor.get_output(0).numpy().shape == (2, 3), name


# ---- module trees ----


@pytest.fixture(scope="module")
def libraries(tmp_path_factory) -> dict[str, Path]:
    """A library with a tree, one without, one compiled ahead of time with constants."""
    folder = tmp_path_factory.mktemp("libraries")
    digits = ",".join(map(str, stream.ndarray(network.W)))
    (folder / "constant.inc").write_text(
        f"static const unsigned char constant_bytes[] = {{{digits}}};\n"
    )
    entries = [
        stream.module("AotExecutorFactory", stream.aot_factory({})),
        stream.module("metadata_module"),
        stream.LIBRARY,
    ]
    ahead = stream.blob(entries, [0, 1, 2, 2], [1, 2])
    source = toolchain.source
    return {
        "graph": toolchain.shared_library(
            folder / "graph.so",
            source("llvm_graph.c"),
            blob=network.graph_blob(),
            defines=["MINOR=18"],
        ),
        "plain": toolchain.shared_library(
            folder / "plain.so", source("llvm_graph.c"), defines=["MINOR=18"]
        ),
        "aot": toolchain.shared_library(
            folder / "aot.so",
            source("llvm_aot.c"),
            blob=ahead,
            defines=["MINOR=18", "POOLS"],
            flags=["-std=gnu11", f"-I{folder}"],
        ),
    }


@pytest.fixture(scope="module")
def plain(libraries) -> tvmrt.runtime.Module:
    return tvmrt.runtime.load_module(libraries["plain"])


def patched(library: Path, old: bytes, new: bytes, target: Path) -> Path:
    """A copy of a library with some bytes of its data replaced."""
    data = library.read_bytes()
    assert data.count(old) == 1
    assert len(old) == len(new)
    target.write_bytes(data.replace(old, new))
    return target


def load_and_run(path: Path) -> np.ndarray:
    library = tvmrt.runtime.load_module(path)
    executor = graph_executor.GraphModule(library["default"](tvmrt.cpu(0)))
    executor.run(x=network.X)
    return executor.get_output(0).numpy()


UNREAD = {f"tensor.{name}" for name in ("reserved", "device_type", "device_id", "data")}
TREES_THAT_LOAD = {
    "zeroed": UNREAD | {"rows0"},  # is 0 anyway
    "maximal": UNREAD | {"name"},  # a parameter that no input has is passed over
    "halved": UNREAD | {"name"},
    "cut": set(),
}


@kinds
def test_module_trees(libraries, tmp_path, kind):
    """All of it lies in the library's data, so a copy of the file is patched."""
    whole = joined(tree_fields())
    blob = stream.string(whole)
    loaded = set()
    for i, (name, data) in enumerate(damaged(tree_fields(), kind)):
        new = stream.u64(len(data)) + data.ljust(len(whole), b"\0")
        path = patched(libraries["graph"], blob, new, tmp_path / f"damaged{i}.so")
        try:
            load_and_run(path)
            loaded.add(name)
        except (*FAILURES, AttributeError) as error:  # the network may have another name
            assert str(error), name
        path.unlink()
    assert loaded == TREES_THAT_LOAD[kind]


@pytest.mark.parametrize("length", [0, 1, 7, 2**31, 2**63 - 1, 2**63, 2**64 - 1])
def test_length_of_the_tree(libraries, tmp_path, length):
    blob = network.graph_blob()
    new = stream.u64(length) + blob[8:]
    path = patched(libraries["graph"], blob, new, tmp_path / "damaged.so")
    with pytest.raises(FAILURES, match="embedded module tree is damaged"):
        tvmrt.runtime.load_module(path)


@pytest.mark.parametrize("kind", DAMAGES)
def test_constants_of_a_network_compiled_ahead(libraries, tmp_path, kind):
    whole = stream.ndarray(network.W)
    loaded = set()
    for i, (name, data) in enumerate(damaged(tensor_fields(network.W), kind)):
        path = patched(libraries["aot"], whole, data, tmp_path / f"damaged{i}.so")
        library = tvmrt.runtime.load_module(path)
        try:
            module = library["default"](tvmrt.cpu(0))
            module["run"]()
            loaded.add(name)
        except FAILURES as error:
            assert "constant of the library" in str(error), (name, error)
        path.unlink()
    harmless = {"reserved", "device_type", "device_id", "code", "data", "lanes"}
    assert loaded <= {f"tensor.{name}" for name in harmless}


METADATA_EDITS = {
    "no inputs": ("{1, inputs, 1,", "{1, NULL, 1,"),
    "negative inputs": ("{1, inputs, 1,", "{1, inputs, -1,"),
    "endless inputs": ("{1, inputs, 1,", "{1, inputs, INT64_MAX,"),
    "version 0": ("{1, inputs, 1,", "{0, inputs, 1,"),
    "no outputs": ("outputs, 1, pools", "NULL, 1, pools"),
    "endless pools": ("pools, 1, constants", "pools, INT64_MAX, constants"),
    "no pools": ("pools, 1, constants", "NULL, 1, constants"),
    "no constants": ('constants, 1, "tvm', 'NULL, 1, "tvm'),
    "negative constants": ('constants, 1, "tvm', 'constants, -1, "tvm'),
    "no name": ('"tvmgen_default"}};\n#else', "NULL}};\n#else"),
    "no shape": ('{{"x_in", shape, 2, {2, 32, 1}}};', '{{"x_in", NULL, 2, {2, 32, 1}}};'),
    "endless rank": ('{{"x_in", shape, 2, {2, 32, 1}}};', '{{"x_in", shape, 99, {2, 32, 1}}};'),
    "no bits": ('{{"x_in", shape, 2, {2, 32, 1}}};', '{{"x_in", shape, 2, {2, 0, 1}}};'),
    "constant before its pool": ('{"fused_constant", 128,', '{"fused_constant", -128,'),
    "constant far away": ('{"fused_constant", 128,', '{"fused_constant", INT64_MAX,'),
    "endless constant": ("sizeof(constant_bytes), ", "INT64_MAX, "),
    "empty constant": ("sizeof(constant_bytes), ", "0, "),
    "constant without bytes": (", constant_bytes}};", ", NULL}};"),
    "endless pool": ("pool_shape[1] = {192}", "pool_shape[1] = {INT64_MAX}"),
    "negative pool": ("pool_shape[1] = {192}", "pool_shape[1] = {-1}"),
}


@pytest.mark.parametrize("edit", METADATA_EDITS, ids=lambda edit: edit.replace(" ", "-"))
def test_metadata_of_a_network_compiled_ahead(libraries, tmp_path, edit):
    old, new = METADATA_EDITS[edit]
    source = toolchain.source("llvm_aot.c").read_text()
    squeezed = " ".join(source.replace("\n#", "\0").split(" "))
    text = squeezed.replace("\0", "\n#").replace("{\n    {1, inputs", "{{1, inputs")
    text = text.replace('= {\n    {"fused', '= {{"fused')
    assert old in text, "the source was written in another way"
    path = tmp_path / "edited.c"
    path.write_text(text.replace(old, new))
    entries = [
        stream.module("AotExecutorFactory", stream.aot_factory({})),
        stream.module("metadata_module"),
        stream.LIBRARY,
    ]
    built = toolchain.shared_library(
        tmp_path / "edited.so",
        path,
        blob=stream.blob(entries, [0, 1, 2, 2], [1, 2]),
        defines=["MINOR=18", "POOLS"],
        flags=["-std=gnu11", f"-I{libraries['aot'].parent}"],
    )
    library = tvmrt.runtime.load_module(built)
    with pytest.raises((*FAILURES, MemoryError), match=r"metadata|constant|memory|bits|dimension"):
        library["default"](tvmrt.cpu(0))


# ---- graph JSON ----

VALUES: list[Any] = [None, [], {}, "", "x", -1, 2**44, 2**63, 1e308, True, [[[[]]]], "9" * 400]


def paths(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """Every place in a JSON value."""
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


GRAPH = network.graph(ERAS[-1])


@pytest.mark.parametrize("key", GRAPH)
def test_graph_json(plain, key):
    """Anything in the place of anything: an error, or a network that runs or says why not."""
    errors = 0
    for path in paths({key: GRAPH[key]}):
        for value in VALUES:
            try:
                executor = graph_executor.create(replaced(GRAPH, path, value), plain, tvmrt.cpu(0))
                executor.run()
            except (*FAILURES, MemoryError) as error:
                assert str(error)
                errors += 1
    assert errors > 0


@pytest.mark.parametrize("key", [*GRAPH, "dltype", "storage_id", "shape"])
def test_graph_json_without_a_part(plain, key):
    graph = json.loads(json.dumps(GRAPH))
    del (graph if key in graph else graph["attrs"])[key]
    with pytest.raises(FAILURES, match=rf"attrs\.{key}|{key}"):
        graph_executor.create(json.dumps(graph), plain, tvmrt.cpu(0))


@pytest.mark.parametrize(
    "data",
    ["", " ", "null", "[]", "{}", '{"nodes": []}', "\ufeff{}", "{" * 10000, '"' * 3, "{}{}"],
    ids=range(10),
)
def test_texts_that_are_no_graph(plain, data):
    with pytest.raises(FAILURES):
        graph_executor.create(data, plain, tvmrt.cpu(0))


# ---- archives ----


@pytest.fixture
def archive(tmp_path) -> Path:
    return firmware.archive(tmp_path / "network.tar", ERAS[-1], firmware.Build())


def rewritten(archive: Path, change: dict[str, bytes | None]) -> Path:
    """The archive with some files replaced, or left out."""
    with tarfile.open(archive) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}
    files.update({f"./{name}": data for name, data in change.items()})
    with tarfile.open(archive, "w") as tar:
        for name, data in files.items():
            if data is not None:
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return archive


def test_archive_cut_off(archive):
    data = archive.read_bytes()
    for size in [0, 1, 100, 511, 512, 700, 5000, len(data) // 2]:
        archive.write_bytes(data[:size])
        with pytest.raises(FAILURES):
            describe_archive.describe(archive)
        with pytest.raises(FAILURES):
            tvmrt.runtime.load_module(archive)


HEADER_FIELDS = {
    "name": (0, 100),
    "size": (124, 12),
    "checksum": (148, 8),
    "type": (156, 1),
    "magic": (257, 8),
}


@pytest.mark.parametrize("field", HEADER_FIELDS)
@pytest.mark.parametrize("kind", DAMAGES)
def test_archive_with_a_damaged_header(archive, field, kind):
    start, size = HEADER_FIELDS[field]
    data = bytearray(archive.read_bytes())
    data[start : start + size] = DAMAGES[kind](bytes(size))
    archive.write_bytes(data)
    with pytest.raises(FAILURES):
        describe_archive.describe(archive)
    with pytest.raises(FAILURES):
        tvmrt.runtime.load_module(archive)


@pytest.mark.parametrize(
    "name", ["../evil.c", "/tmp/tvmrt-compat-evil.c", "a/../../evil.c"], ids=["up", "root", "deep"]
)
def test_archive_that_leads_out_of_its_folder(tmp_path, name):
    path = tmp_path / "inner" / "network.tar"
    path.parent.mkdir()
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo(name)
        member.size = 3
        tar.addfile(member, io.BytesIO(b"int"))
    with pytest.raises(ValueError, match="leads out of the archive"):
        tvmrt.runtime.load_module(path)
    assert not list(tmp_path.rglob("evil.c"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_archive_of_links_has_no_sources(tmp_path, kind):
    path = tmp_path / "network.tar"
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("lib0.c")
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    with pytest.raises(ValueError, match="neither objects nor C sources"):
        tvmrt.runtime.load_module(path)


def test_archive_of_sources_that_do_not_compile(archive):
    rewritten(archive, {"codegen/host/src/default_lib0.c": b"#error no\n"})
    with pytest.raises(OSError, match="cannot link the library"):
        tvmrt.runtime.load_module(archive)


METADATA = firmware.archive_metadata(ERAS[-1])


@pytest.mark.parametrize(
    "data",
    [None, b"", b"{", b"[]", b"\xff\xfe", b"null", b'{"version": 7, "modules": 3}'],
    ids=["absent", "empty", "cut", "list", "binary", "null", "number"],
)
def test_archive_metadata_that_is_none(archive, data):
    with pytest.raises(ValueError, match="not a Model Library Format archive"):
        describe_archive.describe(rewritten(archive, {"metadata.json": data}))


def test_archive_metadata_with_anything_anywhere(archive):
    """Described or refused in one sentence."""
    for path in paths(METADATA):
        for value in (None, [], "x", -1, {"a": 1}):
            text = replaced(METADATA, path, value).encode()
            try:
                describe_archive.describe(rewritten(archive, {"metadata.json": text}))
            except ValueError as error:
                assert "not a Model Library Format archive" in str(error), (path, value)


@kinds
def test_archive_params(archive, kind):
    for name, data in damaged(params_fields(), kind):
        try:
            describe_archive.describe(rewritten(archive, {"parameters/default.params": data}))
        except ValueError as error:
            assert str(error), name
