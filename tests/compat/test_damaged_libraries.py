"""Test damaged module trees, constants and metadata in libraries, through the Python API."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from artefacts import network, stream, toolchain
from artefacts.damage import DAMAGES, FAILURES, damaged, joined, kinds, tensor_fields, tree_fields

import tvmrt
from tvmrt.contrib import graph_executor


@pytest.fixture(scope="module")
def libraries(tmp_path_factory) -> dict[str, Path]:
    """Build a library with a module tree, and one compiled ahead of time with constants."""
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
        "aot": toolchain.shared_library(
            folder / "aot.so",
            source("llvm_aot.c"),
            blob=ahead,
            defines=["MINOR=18", "POOLS"],
            flags=["-std=gnu11", f"-I{folder}"],
        ),
    }


def patched(library: Path, old: bytes, new: bytes, target: Path) -> Path:
    """Return a copy of a library with some bytes of its data replaced."""
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
    "maximal": UNREAD | {"name"},  # a parameter without an input is ignored
    "halved": UNREAD | {"name"},
    "cut": set(),
}


@kinds
def test_module_trees(libraries, tmp_path, kind):
    """The module tree is in the library's data, so a copy of the file is patched."""
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
