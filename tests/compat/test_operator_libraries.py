"""Test libraries of single operators, and the arguments of their functions."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile

import numpy as np
import pytest
from artefacts import network, toolchain
from artefacts.releases import each_release

import tvmrt
from tvmrt.error import TVMError

SUM = network.X + network.W


def call_add(library: tvmrt.runtime.Module) -> np.ndarray:
    x, w = tvmrt.nd.array(network.X), tvmrt.nd.array(network.W)
    y = tvmrt.nd.array(np.zeros_like(network.X))
    library["tvmgen_default_fused_add"](x, w, y)
    return y.numpy()


@pytest.mark.parametrize("generator", ["llvm", "c"])
@each_release()
def test_library_is_its_functions(build, generator, release):
    library = build(f"{generator}_graph.c", defines=[release.define])
    assert library.type_key == "library"
    assert library.imported_modules == []
    np.testing.assert_array_equal(call_add(library), SUM)


def test_function_keeps_its_library(build):
    add = build("llvm_graph.c", defines=["MINOR=18"])["tvmgen_default_fused_add"]
    x, w = tvmrt.nd.array(network.X), tvmrt.nd.array(network.W)
    y = tvmrt.nd.array(np.zeros_like(network.X))
    add(x, w, y)
    np.testing.assert_array_equal(y.numpy(), SUM)


def test_time_evaluator_of_an_operator(build):
    library = build("llvm_graph.c", defines=["MINOR=10"])
    x, w = tvmrt.nd.array(network.X), tvmrt.nd.array(network.W)
    y = tvmrt.nd.array(np.zeros_like(network.X))
    evaluate = library.time_evaluator("tvmgen_default_fused_add", tvmrt.cpu(0), number=3, repeat=2)
    result = evaluate(x, w, y)
    assert len(result.results) == 2
    assert all(seconds > 0 for seconds in result.results)
    np.testing.assert_array_equal(y.numpy(), SUM)


@pytest.mark.parametrize("suffix", ["so", "dso", "dylib", "dll"])
def test_suffixes_of_shared_libraries(tmp_path, suffix):
    path = tmp_path / f"library.{suffix}"
    toolchain.shared_library(path, toolchain.source("llvm_graph.c"), defines=["MINOR=11"])
    np.testing.assert_array_equal(call_add(tvmrt.runtime.load_module(path)), SUM)


def test_format_may_be_given_for_a_name_without_suffix(tmp_path):
    path = tmp_path / "library"
    toolchain.shared_library(path, toolchain.source("llvm_graph.c"), defines=["MINOR=11"])
    np.testing.assert_array_equal(call_add(tvmrt.runtime.load_module(path, "so")), SUM)
    with pytest.raises((TVMError, ValueError), match="no suffix"):
        tvmrt.runtime.load_module(path)


@pytest.mark.parametrize("suffix", ["ll", "ptx", "cubin", "cl", "hsaco", "stackvm", "vulkan"])
def test_formats_of_others_are_named(tmp_path, suffix):
    path = tmp_path / f"library.{suffix}"
    path.write_bytes(b"something")
    with pytest.raises((TVMError, ValueError), match=f"runtime.module.loadfile_{suffix}"):
        tvmrt.runtime.load_module(path)


def test_object_file_is_linked(tmp_path):
    path = tmp_path / "lib0.o"
    macros = ["-DMINOR=12"]
    command = [toolchain.find_compiler(), "-std=c99", "-fPIC", "-c", *macros]
    toolchain.execute(
        [*command, *toolchain.includes(), "-o", path, toolchain.source("llvm_graph.c")]
    )
    np.testing.assert_array_equal(call_add(tvmrt.runtime.load_module(path)), SUM)


def test_archive_of_export_library(tmp_path):
    """Load a flat tar: sources of the operators and of the module tree."""
    path = tmp_path / "library.tar"
    files = {
        "lib0.c": "#define MINOR 9\n" + toolchain.source("c_graph.c").read_text(),
        "devc.c": toolchain.blob_source(network.graph_blob()),
    }
    with tarfile.open(path, "w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    library = tvmrt.runtime.load_module(path)
    executor = tvmrt.contrib.graph_executor.GraphModule(library["default"](tvmrt.cpu(0)))
    executor.run(x=network.X)
    np.testing.assert_array_equal(executor.get_output(0).numpy(), network.Z)


def test_one_file_loaded_twice(tmp_path):
    """Both modules work, and may be released in either order."""
    path = tmp_path / "library.so"
    toolchain.shared_library(
        path, toolchain.source("llvm_graph.c"), blob=network.graph_blob(), defines=["MINOR=18"]
    )
    first, second = tvmrt.runtime.load_module(path), tvmrt.runtime.load_module(path)
    tvmrt.register_func("compat.callee", lambda *_args: 5, override=True)
    try:
        assert first.imported_modules[0]["call_packed"]() == 5
        del first
        assert second.imported_modules[0]["call_packed"]() == 5
    finally:
        tvmrt.runtime.remove_global_func("compat.callee")
    np.testing.assert_array_equal(call_add(second.imported_modules[0]), SUM)


def test_runtime_is_global_in_the_process(tmp_path):
    """Code of the C generator finds the runtime without being linked with it."""
    path = tmp_path / "library.so"
    toolchain.shared_library(path, toolchain.source("c_graph.c"), defines=["MINOR=8"])
    script = (
        "import sys, numpy, tvmrt\n"
        "library = tvmrt.runtime.load_module(sys.argv[1])\n"
        "x, y = tvmrt.nd.array(numpy.ones((2, 3), 'float32')), tvmrt.nd.empty((2, 3))\n"
        "library['tvmgen_default_fused_multiply'](x, y)\n"
        "print(y.numpy().sum())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "12.0"


# ---- values ----


def test_moved_arguments_are_taken():
    """Type code 14: the callee receives the object and the caller's variable is emptied."""
    kept = []
    keep = tvmrt.runtime.convert_to_tvm_func(kept.append)
    given = tvmrt.runtime.convert([1, 2, 3])
    keep(given._move())
    assert [int(value) for value in kept[0]] == [1, 2, 3]


def test_objects_of_every_kind_pass_through_a_callback():
    echo = tvmrt.runtime.convert_to_tvm_func(lambda value: value)
    tensor = tvmrt.nd.array(network.X)
    np.testing.assert_array_equal(echo(tensor).numpy(), network.X)
    assert echo("text") == "text"
    assert bytes(echo(bytearray(b"a\0b"))) == b"a\0b"
    assert echo(None) is None
    assert echo(2**62) == 2**62
    assert echo(1.5) == 1.5
    assert echo(tvmrt.cpu(3)) == tvmrt.cpu(3)
    assert echo(echo)("nested") == "nested"
