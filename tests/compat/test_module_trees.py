"""Test the module tree inside libraries: the layout of every build, and kinds without a loader."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from artefacts import network, stream, toolchain
from artefacts.releases import Release, each_release

import tvmrt
from tvmrt.contrib import graph_executor
from tvmrt.error import TVMError

EXTERNAL = "tvmgen_default_compat_main_0"
JSON_GRAPH = json.dumps({"nodes": [], "arg_nodes": [], "heads": [], "node_row_ptr": [0]})


@pytest.fixture(scope="module", autouse=True)
def plugin(tmp_path_factory):
    """Build the loader of modules of kind compat_json, which simulates an accelerator's."""
    path = tmp_path_factory.mktemp("plugin") / "json.so"
    # modules may outlive the library's own module, so its code stays loaded
    stays = ["-std=c99", "-Wl,-z,nodelete"]
    toolchain.shared_library(path, toolchain.source("json_runtime.c"), flags=stays)
    library = tvmrt.runtime.load_module(path)
    library["install"]()
    yield library
    tvmrt.runtime.remove_global_func("runtime.module.loadbinary_compat_json")


def external_graph(symbol: str = EXTERNAL) -> str:
    """Return a graph that passes x through an accelerator's function and doubles the result."""
    graph = network.graph()
    graph["nodes"] = [
        graph["nodes"][0],
        network.operator(symbol, [[0, 0, 0]]),
        network.operator("tvmgen_default_fused_multiply", [[1, 0, 0]]),
    ]
    graph["arg_nodes"], graph["heads"] = [0], [[2, 0, 0]]
    for key, items in graph["attrs"].items():
        graph["attrs"][key] = [items[0], items[1][:3]]
    graph["node_row_ptr"] = [0, 1, 2, 3]
    return json.dumps(graph)


def factory(graph: str, params=None, kind: str = "GraphExecutorFactory") -> bytes:
    return stream.module(kind, stream.graph_factory(graph, params or {}))


def run(library: tvmrt.runtime.Module, count: int = 1) -> np.ndarray:
    executor = graph_executor.GraphModule(library["default"](tvmrt.cpu(0)))
    for _ in range(count):
        executor.run(x=network.X)
    return executor.get_output(0).numpy()


def kinds(module: tvmrt.runtime.Module) -> object:
    """Return the module tree as nested tuples of kinds."""
    return (module.type_key, *(kinds(child) for child in module.imported_modules))


# ---- layouts ----


def test_older_key_of_the_factory(build):
    library = build(
        "llvm_graph.c", blob=network.graph_blob(kind="GraphRuntimeFactory"), defines=["MINOR=8"]
    )
    np.testing.assert_array_equal(run(library), network.Z)


def test_factory_returns_its_functions(build):
    library = build("c_graph.c", blob=network.graph_blob(), defines=["MINOR=9"])
    assert json.loads(library["get_graph_json"]()) == network.graph()
    held = {str(name): value.numpy() for name, value in library["get_graph_params"]().items()}
    assert list(held) == ["w"]
    np.testing.assert_array_equal(held["w"], network.W)
    bare = library["remove_params"]()
    executor = graph_executor.GraphModule(bare["default"](tvmrt.cpu(0)))
    executor.run(x=network.X)
    np.testing.assert_array_equal(executor.get_output(0).numpy(), network.X * 2)


def accelerator_tree(release: Release) -> bytes:
    """Return the usual tree of a graph with one accelerator module that has a constant."""
    constants = {"c0": network.W}
    loader = stream.const_loader(constants, {EXTERNAL: ["c0"]})
    payload = stream.json_module(EXTERNAL, JSON_GRAPH, ["c0"])
    entries = [
        factory(external_graph()),
        stream.module(release.const_loader, loader),
        stream.module("compat_json", payload),
        stream.LIBRARY,
    ]
    return stream.blob(entries, [0, 1, 3, 3, 3], [1, 2, 3])


@pytest.mark.parametrize("generator", ["llvm", "c"])
@each_release()
def test_constants_reach_an_accelerator_once(build, generator, release):
    library = build(
        f"{generator}_graph.c", blob=accelerator_tree(release), defines=[release.define]
    )
    assert kinds(library) == (
        "GraphExecutorFactory",
        ("const_loader", ("compat_json",), ("library",)),
    )
    np.testing.assert_array_equal(run(library, count=3), network.Z)
    np.testing.assert_array_equal(run(library), network.Z)
    loader = library.imported_modules[0]
    accelerator = loader.imported_modules[0]
    assert accelerator["times_initialised"]() == 1
    assert accelerator["get_symbol"]() == EXTERNAL
    constants = loader["get_const_var_ndarray"]()
    assert [str(name) for name, _ in constants.items()] == ["c0"]


def test_constants_come_in_the_order_of_their_list(build):
    """The initialiser receives them in the order of the symbol's list, not of the constants."""
    constants = {"b": network.W, "unused": network.X, "a": network.W * 10}
    entries = [
        factory(external_graph()),
        stream.module("const_loader", stream.const_loader(constants, {EXTERNAL: ["a", "b"]})),
        stream.module("compat_json", stream.json_module(EXTERNAL, JSON_GRAPH, ["a", "b"])),
        stream.LIBRARY,
    ]
    library = build(
        "llvm_graph.c",
        blob=stream.blob(entries, [0, 1, 3, 3, 3], [1, 2, 3]),
        defines=["MINOR=12"],
    )
    np.testing.assert_array_equal(run(library), (network.X + 11 * network.W) * 2)


def test_accelerator_without_a_const_loader(build):
    entries = [
        factory(external_graph()),
        stream.LIBRARY,
        stream.module("compat_json", stream.json_module(EXTERNAL, JSON_GRAPH, [])),
    ]
    library = build(
        "llvm_graph.c", blob=stream.blob(entries, [0, 1, 2, 2], [1, 2]), defines=["MINOR=9"]
    )
    with pytest.raises((TVMError, ValueError), match="was not initialised"):
        run(library)


@pytest.mark.parametrize("result", [0, 3], ids=["ok", "fails"])
def test_initialiser_inside_the_library(build, result):
    symbol = "tvmgen_default_ccompiler_main_0"
    loader = stream.const_loader({"c0": network.W}, {symbol: ["c0"]})
    entries = [
        factory(external_graph(symbol)),
        stream.module("const_loader", loader),
        stream.LIBRARY,
    ]
    library = build(
        "c_graph.c",
        "byoc_init.c",
        blob=stream.blob(entries, [0, 1, 2, 2], [1, 2]),
        defines=["MINOR=14", f"INIT_RESULT={result}"],
    )
    if result == 0:
        np.testing.assert_array_equal(run(library), network.Z)
    else:
        with pytest.raises(
            (TVMError, ValueError), match=f"initialiser of function '{symbol}' returned 3"
        ):
            run(library)


@pytest.mark.parametrize(
    "constants, symbols, text",
    [
        ({}, {EXTERNAL: ["c0"]}, "needs constant 'c0', which the library lacks"),
        ({"c0": network.W}, {EXTERNAL: ["c0"], "other": []}, None),
        ({"c0": network.W}, {"absent": ["c0"], EXTERNAL: ["c0"]}, None),
    ],
    ids=["no-constant", "symbol-without-constants", "symbol-without-module"],
)
def test_const_loader_with_lists_that_do_not_match(build, constants, symbols, text):
    entries = [
        factory(external_graph()),
        stream.module("const_loader", stream.const_loader(constants, symbols)),
        stream.module("compat_json", stream.json_module(EXTERNAL, JSON_GRAPH, ["c0"])),
        stream.LIBRARY,
    ]
    library = build(
        "llvm_graph.c",
        blob=stream.blob(entries, [0, 1, 3, 3, 3], [1, 2, 3]),
        defines=["MINOR=18"],
    )
    if text is None:
        np.testing.assert_array_equal(run(library), network.Z)
    else:
        with pytest.raises((TVMError, ValueError), match=text):
            run(library)
    if "absent" in symbols:
        with pytest.raises((TVMError, ValueError), match="no imported module has '__init_absent'"):
            library.imported_modules[0]["absent"]


def test_c_functions_of_five_parameters(build):
    symbol = "tvmgen_default_ccompiler_main_0"
    graph = network.graph()
    graph["nodes"][2] = network.operator(symbol, [[0, 0, 0], [1, 0, 0]])
    entries = [factory(json.dumps(graph), {"w": network.W}), stream.LIBRARY]
    library = build(
        "c_graph.c",
        "byoc_plain.c",
        blob=stream.blob(entries, [0, 1, 1], [1]),
        defines=["MINOR=8"],
    )
    np.testing.assert_array_equal(run(library), network.Z)


def test_layout_without_a_tree_hangs_everything_on_the_library(build, register):
    payload = stream.json_module(EXTERNAL, JSON_GRAPH, [])
    blob = stream.blob([stream.module("compat_json", payload), stream.module("metadata_module")])
    library = build("llvm_graph.c", blob=blob, defines=["MINOR=8"])
    assert kinds(library) == ("library", ("compat_json",), ("metadata_module",))
    assert library.implements_function(EXTERNAL, query_imports=True)
    register("compat.callee", lambda *_args: 4)
    assert library["call_packed"]() == 4


def test_library_that_imports(build):
    """In a build of single operators with an accelerator, the library itself is the root."""
    payload = stream.json_module(EXTERNAL, JSON_GRAPH, [])
    entries = [stream.LIBRARY, stream.module("compat_json", payload)]
    library = build("c_graph.c", blob=stream.blob(entries, [0, 1, 1], [1]), defines=["MINOR=10"])
    assert kinds(library) == ("library", ("compat_json",))
    assert library.implements_function("tvmgen_default_fused_add")


def test_root_without_imports_in_0_14(build):
    """Those releases write a count of 0 and then the bytes of a module that is never read."""
    rest = stream.u64(0) + factory(network.graph_text())
    library = build("c_graph.c", blob=stream.u64(len(rest)) + rest, defines=["MINOR=14"])
    assert kinds(library) == ("library",)


def shifted(blob: bytes, with_size: bool) -> str:
    """Return assembler that puts the module tree at an odd address, as LLVM byte arrays may be."""
    lines = [".section .rodata", ".p2align 6", ".byte 0", ".globl __tvm_dev_mblob"]
    lines += [".type __tvm_dev_mblob, @object", "__tvm_dev_mblob:"]
    lines += [".byte " + ",".join(map(str, blob))]
    if with_size:
        lines.append(f".size __tvm_dev_mblob, {len(blob)}")
    return "\n".join([*lines, '.section .note.GNU-stack,"",%progbits', ""])


@pytest.mark.parametrize("with_size", [True, False], ids=["sized", "unsized"])
def test_blob_at_an_odd_address(build, tmp_path, with_size):
    assembler = tmp_path / "blob.s"
    assembler.write_text(shifted(network.graph_blob(), with_size))
    library = build("c_graph.c", assembler, defines=["MINOR=18"])
    np.testing.assert_array_equal(run(library), network.Z)


# ---- modules that cannot be loaded ----


@pytest.mark.parametrize(
    "kind", ["cuda", "dnnl_json", "tensorrt", "VMExecutable", "vulkan", "hexagon"]
)
def test_unknown_kinds_are_named_with_the_known_ones(build, kind):
    entries = [
        factory(network.graph_text()),
        stream.LIBRARY,
        stream.module(kind, stream.string("bytes that nobody can read")),
    ]
    blob = stream.blob(entries, [0, 1, 2, 2], [1, 2])
    with pytest.raises((TVMError, ValueError), match=f"kind '{kind}'") as caught:
        build("c_graph.c", blob=blob, defines=["MINOR=13"])
    text = str(caught.value)
    for known in ("_lib", "GraphExecutorFactory", "AotExecutorFactory", "const_loader"):
        assert known in text
    assert f"runtime.module.loadbinary_{kind}" in text
    assert "compat_json" in text, "plug-ins are known kinds too"


def test_imports_are_searched_depth_first(build):
    """The first import's own imports come before the second import."""
    entries = [
        stream.LIBRARY,
        stream.module("metadata_module"),
        stream.module("compat_json", stream.json_module("deep", JSON_GRAPH, [])),
        stream.module("compat_json", stream.json_module("wide", JSON_GRAPH, [])),
    ]
    library = build(
        "c_graph.c", blob=stream.blob(entries, [0, 2, 3, 3, 3], [1, 3, 2]), defines=["MINOR=11"]
    )
    assert library.get_function("get_symbol", query_imports=True)() == "deep"


@pytest.fixture
def small_stack():
    """Give threads of the test a stack of 256 KiB."""
    before = threading.stack_size(256 * 1024)
    yield
    threading.stack_size(before)


def test_long_chain_of_modules_needs_no_stack(build, small_stack):
    """Loading, searching and freeing do not recurse through imports."""
    depth = 10_000
    entries = [stream.module("metadata_module")] * depth + [stream.LIBRARY]
    rows = [*range(depth + 1), depth]
    blob = stream.blob(entries, rows, range(1, depth + 1))
    found: list[bool] = []

    def load_search_free() -> None:
        library = build("c_graph.c", blob=blob, defines=["MINOR=18"])
        found.append(library.implements_function("tvmgen_default_fused_add", query_imports=True))
        found.append(library.implements_function("absent", query_imports=True))

    thread = threading.Thread(target=load_search_free)
    thread.start()
    thread.join()
    assert found == [True, False]
