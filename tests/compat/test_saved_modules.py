"""Test saving modules to a file and as the payload of a library; and unsupported kinds."""

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


def c_source() -> tvmrt.runtime.Module:
    return call("runtime.CSourceModuleCreate", "int f(void);", "c")


def test_payload_of_a_factory_is_what_its_loader_reads(build):
    library = build("llvm_graph.c", blob=network.graph_blob(), defines=["MINOR=18"])
    payload = bytes(call("tvmrt.ModulePayload", library))
    assert payload and payload in network.graph_blob()


@pytest.mark.parametrize(
    ("make", "payload"),
    [
        (lambda: call("runtime.MetadataModuleCreate"), b""),
        (c_source, b"int f(void);"),
    ],
    ids=["metadata", "source"],
)
def test_file_has_the_text_or_the_payload(tmp_path, make, payload):
    path = tmp_path / "file"
    call("runtime.ModuleSaveToFile", make(), str(path), "")
    assert path.read_bytes() == payload


def test_executor_cannot_be_saved(build, tmp_path):
    library = build("llvm_graph.c", blob=network.graph_blob(), defines=["MINOR=18"])
    executor = library["default"](tvmrt.cpu(0))
    sentence = "a module of kind 'GraphExecutor' cannot be saved."
    with pytest.raises(FAILURES, match=re.escape(sentence)):
        call("tvmrt.ModulePayload", executor)
    with pytest.raises(FAILURES, match=re.escape(sentence)):
        call("runtime.ModuleSaveToFile", executor, str(tmp_path / "file"), "")
    assert not (tmp_path / "file").exists()


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
