"""Test saving modules: in a library's module tree, as C text, to a file; and unsupported kinds."""

from __future__ import annotations

import re

import numpy as np
import pytest
from artefacts import network, stream, toolchain

import tvmrt
from tvmrt.contrib import graph_executor
from tvmrt.error import TVMError

FAILURES = (TVMError, ValueError, TypeError)


def call(name: str, *arguments: object) -> object:
    return tvmrt.get_global_func(name)(*arguments)


def c_source(name: str) -> tvmrt.runtime.Module:
    return call("runtime.CSourceModuleCreate", f"int {name}(void);", "c", [name], [])


def constants() -> tvmrt.runtime.Module:
    return call("runtime.ConstLoaderModuleCreate", {"c": tvmrt.nd.array(network.W)}, {"f": ["c"]})


def packed(root: tvmrt.runtime.Module) -> bytes:
    return bytes(call("tvmrt.ModulePackImports", root))


def test_library_alone_needs_no_tree():
    assert packed(c_source("f")) == stream.blob([stream.LIBRARY])


def test_modules_of_code_are_one_entry():
    root, more, other = c_source("f"), c_source("g"), constants()
    root.import_module(other)
    other.import_module(more)
    loader = stream.const_loader({"c": network.W}, {"f": ["c"]})
    with pytest.raises(
        FAILURES, match="the library's modules and another module import each other"
    ):
        packed(root)
    call("runtime.ModuleClearImports", root)
    assert packed(other) == stream.blob(
        [stream.module("const_loader", loader), stream.LIBRARY], [0, 1, 1], [1]
    )


def test_executor_is_no_part_of_a_library(build):
    library = build("llvm_graph.c", blob=network.graph_blob(), defines=["MINOR=18"])
    executor = library["default"](tvmrt.cpu(0))
    sentence = "a module of kind 'GraphExecutor' cannot be saved into a library."
    with pytest.raises(FAILURES, match=re.escape(sentence)):
        packed(executor)


@pytest.mark.parametrize(
    ("make", "payload"),
    [
        (constants, stream.const_loader({"c": network.W}, {"f": ["c"]})),
        (lambda: call("runtime.MetadataModuleCreate"), b""),
        (lambda: c_source("f"), b"int f(void);"),
    ],
    ids=["constants", "metadata", "source"],
)
def test_file_has_the_text_or_the_payload(tmp_path, make, payload):
    path = tmp_path / "file"
    call("runtime.ModuleSaveToFile", make(), str(path), "")
    assert path.read_bytes() == payload


def test_executor_cannot_be_saved(build, tmp_path):
    library = build("llvm_graph.c", blob=network.graph_blob(), defines=["MINOR=18"])
    executor = library["default"](tvmrt.cpu(0))
    sentence = "a module of kind 'GraphExecutor' cannot be saved to a file."
    with pytest.raises(FAILURES, match=re.escape(sentence)):
        call("runtime.ModuleSaveToFile", executor, str(tmp_path / "file"), "")
    assert not (tmp_path / "file").exists()


def test_packed_text_registers_itself_for_a_system_library(build, tmp_path):
    """Compile the C text of a tree into a library and load it: the prefix finds the module tree."""
    root = build("llvm_graph.c", blob=network.graph_blob(), defines=["MINOR=18"])
    text = tmp_path / "packed.c"
    text.write_text(call("runtime.ModulePackImportsToC", root, True, "packed_here_"))
    assert '"packed_here___tvm_dev_mblob"' in text.read_text()
    flags = ["-std=gnu99", "-Wl,-z,nodelete"]
    path = toolchain.shared_library(tmp_path / "packed.so", text, flags=flags)
    loaded = tvmrt.runtime.load_module(path)
    assert loaded.type_key == "library"
    found = call("runtime.SystemLib", "packed_here_")
    assert found.type_key == "GraphExecutorFactory"
    assert [m.type_key for m in found.imported_modules] == ["library"]
    np.testing.assert_array_equal(found["get_graph_params"]()["w"].numpy(), network.W)


def test_library_without_a_tree_is_linked_once(tmp_path):
    """Loaded again while in use, it keeps the imports of the first load."""
    blob = stream.blob([stream.module("metadata_module")])
    source = toolchain.source("llvm_graph.c")
    path = toolchain.shared_library(tmp_path / "flat.so", source, blob=blob, defines=["MINOR=8"])
    in_use = [tvmrt.runtime.load_module(path) for _ in range(3)]
    for library in in_use:
        assert [m.type_key for m in library.imported_modules] == ["metadata_module"]


def test_constants_with_another_number_of_lists_are_refused(build):
    whole = stream.const_loader({"c0": network.W}, {"f": ["c0"]})
    lists = stream.u64(1) + stream.strings(["c0"])
    assert whole.endswith(lists)
    payload = whole[: -len(lists)] + stream.u64(2) + 2 * stream.strings(["c0"])
    entries = [stream.module("const_loader", payload), stream.LIBRARY]
    with pytest.raises(FAILURES, match="the numbers of constant lists and symbols differ"):
        build("llvm_graph.c", blob=stream.blob(entries, [0, 1, 1], [1]), defines=["MINOR=18"])


def test_debug_executor_of_another_network_is_refused(build):
    library = build("llvm_graph.c", blob=network.graph_blob(), defines=["MINOR=18"])
    with pytest.raises(FAILURES, match="the library has no network 'other'; it has: default"):
        library["debug_create"]("other", tvmrt.cpu(0))
    executor = graph_executor.GraphModule(library["debug_create"]("default", tvmrt.cpu(0)))
    executor.run(x=network.X)
    np.testing.assert_array_equal(executor.get_output(0).numpy(), network.Z)
