"""Test libraries compiled ahead of time for the C++ runtime, in the format of releases since
0.9."""

from __future__ import annotations

import ctypes
import json

import numpy as np
import pytest
from artefacts import network, stream, toolchain
from artefacts.releases import each_release

import tvmrt
from tvmrt.error import TVMError
from tvmrt.runtime.executor.aot_executor import AotModule

FAILURES = (TVMError, ValueError, KeyError)


def aot_blob(params: dict[str, np.ndarray] | None = None, name: str = "default") -> bytes:
    entries = [
        stream.module("AotExecutorFactory", stream.aot_factory(params or {}, name)),
        stream.module("metadata_module"),
        stream.LIBRARY,
    ]
    return stream.blob(entries, [0, 1, 2, 2], [1, 2])


@pytest.fixture
def build_aot(build, tmp_path):
    """Build a network of the LLVM or the C generator, with or without pools."""

    def make(kind: str, minor: int, blob: bytes | None) -> tvmrt.runtime.Module:
        defines = [f"MINOR={minor}"]
        flags = ["-std=gnu11"]
        if kind == "llvm-pools":
            digits = ",".join(map(str, stream.ndarray(network.W)))
            text = f"static const unsigned char constant_bytes[] = {{{digits}}};\n"
            (tmp_path / "constant.inc").write_text(text)
            defines.append("POOLS")
            flags.append(f"-I{tmp_path}")
        source = "c_aot.c" if kind == "c" else "llvm_aot.c"
        return build(source, blob=blob, defines=defines, flags=flags)

    return make


def inputs_of(kind: str) -> dict[str, np.ndarray]:
    return {"x_in": network.X} if kind == "llvm-pools" else {"x_in": network.X, "w": network.W}


kinds = pytest.mark.parametrize("kind", ["llvm", "llvm-pools", "c"])


@kinds
@each_release(since=9)
def test_runs_with_its_numbers(build_aot, kind, release):
    library = build_aot(kind, release.first, aot_blob())
    executor = AotModule(library["default"](tvmrt.cpu(0)))
    for name, value in inputs_of(kind).items():
        executor.set_input(name, value)
    for _ in range(2):
        executor.run()
    np.testing.assert_array_equal(executor.get_output(0).numpy(), network.Z)
    assert executor.get_num_inputs() == len(inputs_of(kind))
    assert executor.get_num_outputs() == 1


@kinds
def test_executors_of_one_library_have_their_own_memory(build_aot, kind):
    library = build_aot(kind, 12, aot_blob())
    first, second = (AotModule(library["default"](tvmrt.cpu(0))) for _ in range(2))
    for name, value in inputs_of(kind).items():
        first.set_input(name, value)
        second.set_input(name, value * 3 if name == "x_in" else value)
    first.run()
    second.run()
    np.testing.assert_array_equal(first.get_output(0).numpy(), network.Z)
    np.testing.assert_array_equal(second.get_output(0).numpy(), (3 * network.X + network.W) * 2)


def test_parameters_of_the_factory_are_inputs_already_set(build_aot):
    library = build_aot("c", 14, aot_blob({"w": network.W}))
    executor = AotModule(library["default"](tvmrt.cpu(0)))
    executor.set_input("x_in", network.X)
    executor.run()
    np.testing.assert_array_equal(executor.get_output(0).numpy(), network.Z)
    bare = AotModule(library["remove_params"]()["default"](tvmrt.cpu(0)))
    bare.set_input("x_in", network.X)
    bare.run()
    np.testing.assert_array_equal(bare.get_output(0).numpy(), network.X * 2)


def test_factory_lists_its_networks(build_aot):
    library = build_aot("c", 9, aot_blob(name="mobilenet"))
    assert [str(name) for name in library["list_module_names"]()] == ["mobilenet"]
    assert library["mobilenet"](tvmrt.cpu(0)).type_key == "AotExecutor"


@kinds
def test_functions_of_the_executor(build_aot, kind):
    module = build_aot(kind, 18, aot_blob())["default"](tvmrt.cpu(0))
    assert module.type_key == "AotExecutor"
    assert module["get_input_index"]("x_in") == 0
    assert module["get_input_name"](0) == "x_in"
    module["set_input"](0, tvmrt.nd.array(network.X))
    np.testing.assert_array_equal(module["get_input"]("x_in").numpy(), network.X)
    for call in (
        lambda: module["set_input"]("nobody", tvmrt.nd.array(network.X)),
        lambda: module["get_input_index"]("nobody"),
        lambda: module["get_output"](1),
        lambda: module["get_input_name"](7),
    ):
        with pytest.raises((*FAILURES, IndexError), match=r"no (in|out)put"):
            call()


@pytest.mark.parametrize("name", ["x_in", "x.in", "x:in", "x in"])
def test_names_of_inputs_are_sanitised(build_aot, name):
    """Since 0.11 a network's original input names also find inputs that the compiler has
    renamed."""
    executor = AotModule(build_aot("c", 11, aot_blob())["default"](tvmrt.cpu(0)))
    executor.set_input(name, network.X)
    executor.set_input("w", network.W)
    executor.run()
    np.testing.assert_array_equal(executor.get_output(0).numpy(), network.Z)


# ---- metadata ----


class TensorInfo(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("num_shape", ctypes.c_int64),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


class Metadata(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int64),
        ("inputs", ctypes.POINTER(TensorInfo)),
        ("num_inputs", ctypes.c_int64),
        ("outputs", ctypes.POINTER(TensorInfo)),
        ("num_outputs", ctypes.c_int64),
        ("workspace_pools", ctypes.POINTER(TensorInfo)),
        ("num_workspace_pools", ctypes.c_int64),
        ("constant_pools", ctypes.c_void_p),
        ("num_constant_pools", ctypes.c_int64),
        ("mod_name", ctypes.c_char_p),
    )


@kinds
def test_metadata_module_hands_the_struct_out(build_aot, kind):
    library = build_aot(kind, 10, aot_blob())
    (module,) = library.imported_modules
    assert module.type_key == "metadata_module"
    pointer = module["get_metadata"]()
    metadata = ctypes.cast(pointer, ctypes.POINTER(Metadata)).contents
    assert (metadata.version, metadata.mod_name) == (1, b"tvmgen_default")
    assert [metadata.inputs[i].name.decode() for i in range(metadata.num_inputs)] == list(
        inputs_of(kind)
    )
    first = metadata.inputs[0]
    assert (first.code, first.bits, first.lanes) == (2, 32, 1)
    assert first.shape[: first.num_shape] == [2, 3]
    assert metadata.outputs[0].name == b"output0"
    assert metadata.num_workspace_pools == (kind == "llvm-pools")
    (main,) = library.metadata().functions
    assert main.function_name == "tvmgen_default___tvm_main__"
    assert [p.relay_name_hint for p in main.inputs] == list(inputs_of(kind))
    assert [(p.dtype, p.shape) for p in main.outputs] == [("float32", (2, 3))]


def test_types_and_shapes_of_llvm_metadata(build_aot):
    """A type of three bytes and padding reads as code, bits and lanes."""
    executor = AotModule(build_aot("llvm", 9, aot_blob())["default"](tvmrt.cpu(0)))
    tensor = executor.get_input("x_in")
    assert (tensor.dtype, tensor.shape) == ("float32", (2, 3))


# ---- trees ----


def test_accelerator_inside_a_network_compiled_ahead(build, build_aot, tmp_path):
    """The tree of a network with an accelerator that has constants."""
    plugin = toolchain.shared_library(
        tmp_path / "json.so",
        toolchain.source("json_runtime.c"),
        flags=["-std=c99", "-Wl,-z,nodelete"],
    )
    symbol = "tvmgen_default_compat_main_0"
    entries = [
        stream.module("AotExecutorFactory", stream.aot_factory({})),
        stream.module("metadata_module"),
        stream.module("const_loader", stream.const_loader({"c": network.W}, {symbol: ["c"]})),
        stream.module("compat_json", stream.json_module(symbol, json.dumps({}), ["c"])),
        stream.LIBRARY,
    ]
    blob = stream.blob(entries, [0, 1, 3, 5, 5, 5], [1, 2, 4, 3, 4])
    tvmrt.runtime.load_module(plugin)["install"]()
    try:
        library = build_aot("c", 9, blob)
    finally:
        tvmrt.runtime.remove_global_func("runtime.module.loadbinary_compat_json")
    metadata_module = library.imported_modules[0]
    assert [m.type_key for m in metadata_module.imported_modules] == ["const_loader", "library"]
    x, y = tvmrt.nd.array(network.X), tvmrt.nd.array(np.zeros_like(network.X))
    metadata_module.get_function(symbol, query_imports=True)(x, y)
    np.testing.assert_array_equal(y.numpy(), network.X + network.W)
    executor = AotModule(library["default"](tvmrt.cpu(0)))
    executor.set_input("x_in", network.X)
    executor.set_input("w", network.W)
    executor.run()
    np.testing.assert_array_equal(executor.get_output(0).numpy(), network.Z)


def test_library_that_has_no_metadata(build):
    """0.8 compiles ahead of time for boards only: its library contains no metadata."""
    library = build("c_graph.c", blob=aot_blob(), defines=["MINOR=8"])
    with pytest.raises(FAILURES, match="no function 'get_c_metadata'"):
        library["default"](tvmrt.cpu(0))


def test_metadata_without_a_main_function(build, tmp_path):
    text = toolchain.source("c_aot.c").read_text().replace("___tvm_main__", "_run_model")
    source = tmp_path / "old_name.c"
    source.write_text(text)
    library = build(source, blob=aot_blob(), defines=["MINOR=9"], flags=["-std=gnu11"])
    with pytest.raises(FAILURES, match="no main function 'tvmgen_default___tvm_main__'"):
        library["default"](tvmrt.cpu(0))
