"""Test graph executor libraries of the LLVM and the C generator of every release."""

from __future__ import annotations

import ctypes
import json
import threading

import numpy as np
import pytest
from artefacts import network, stream, toolchain
from artefacts.releases import RELEASES, Release, each_release

import tvmrt
from tvmrt.contrib import graph_executor
from tvmrt.error import TVMError

generators = pytest.mark.parametrize("generator", ["llvm", "c"])


def run_default(library: tvmrt.runtime.Module) -> np.ndarray:
    executor = graph_executor.GraphModule(library["default"](tvmrt.cpu(0)))
    executor.run(x=network.X)
    return executor.get_output(0).numpy()


def tensors(*arrays: np.ndarray) -> list[tvmrt.nd.NDArray]:
    return [tvmrt.nd.array(array) for array in arrays]


@generators
@each_release()
def test_runs_with_its_numbers(build, generator, release):
    library = build(
        f"{generator}_graph.c", blob=network.graph_blob(release), defines=[release.define]
    )
    assert library.type_key == "GraphExecutorFactory"
    assert [module.type_key for module in library.imported_modules] == ["library"]
    np.testing.assert_array_equal(run_default(library), network.Z)


@pytest.mark.parametrize("release", [RELEASES[0], RELEASES[-1]], ids=lambda release: release.name)
def test_c_sources_are_cxx_sources_too(build, release):
    compiler = toolchain.find_compiler("g++", "clang++")
    library = build(
        "c_graph.c",
        blob=network.graph_blob(release),
        defines=[release.define],
        compiler=compiler,
        flags=["-x", "c++"],
    )
    np.testing.assert_array_equal(run_default(library), network.Z)


@generators
def test_graph_params_and_library_apart(build, generator):
    """The API before factories, which is still in use."""
    library = build(f"{generator}_graph.c", defines=["MINOR=8"])
    assert library.type_key == "library"
    executor = graph_executor.create(network.graph_text(), library, tvmrt.cpu(0))
    executor.load_params(tvmrt.runtime.save_param_dict({"w": network.W}))
    executor.run(x=network.X)
    np.testing.assert_array_equal(executor.get_output(0).numpy(), network.Z)


@each_release()
def test_every_context_pointer_is_filled(build, release):
    library = build("llvm_graph.c", blob=network.graph_blob(release), defines=[release.define])
    assert library.imported_modules[0]["unfilled_slots"]() == 0


def test_null_pointers_are_ignored(build):
    library = build("llvm_graph.c", defines=["MINOR=18", "FEW_SLOTS"])
    x, w, y = tensors(network.X, network.W, np.zeros((2, 3), np.float32))
    library["tvmgen_default_fused_add"](x, w, y)
    np.testing.assert_array_equal(y.numpy(), network.X + network.W)


@generators
def test_entry_function_as_name_and_as_code(build, generator):
    """`__tvm_main__` is a name for the LLVM generator and a function for the C generator."""
    library = build(f"{generator}_graph.c", defines=["MINOR=18"])
    x, w, y = tensors(network.X, network.W, np.zeros((2, 3), np.float32))
    library(x, w, y)
    np.testing.assert_array_equal(y.numpy(), network.X + network.W)


@pytest.mark.parametrize(
    "name", ["absent", "tvmgen_default_fused_ad", ""], ids=["absent", "prefix", "empty"]
)
@generators
def test_unknown_names_are_no_functions(build, generator, name):
    library = build(f"{generator}_graph.c", defines=["MINOR=14"])
    assert not library.implements_function(name, query_imports=True)
    with pytest.raises(AttributeError, match="has no function"):
        library[name]


# ---- what generated code asserts ----


@pytest.fixture
def bare_llvm(build):
    return build("llvm_graph.c", defines=["MINOR=18"])


def bad_argument(case: str) -> list[tvmrt.nd.NDArray]:
    x, w, y = network.X, network.W, np.zeros((2, 3), np.float32)
    changed = {
        "count": [x, w],
        "rank": [x.ravel(), w, y],
        "type": [x.astype(np.float64), w, y],
        "shape": [np.zeros((2, 4), np.float32), w, y],
    }
    return tensors(*changed[case])


@pytest.mark.parametrize(
    "case, text",
    [
        ("count", "num_args == 3, tvmgen_default_fused_add: num_args should be 3"),
        ("rank", "ndim is expected to equal 2"),
        ("type", "dtype is expected to be float32"),
        ("shape", r"shape\[1\] has an unsatisfied constraint"),
    ],
    ids=["count", "rank", "type", "shape"],
)
def test_asserts_of_generated_code_become_exceptions(bare_llvm, case, text):
    with pytest.raises(TVMError, match=f"Assert fail: .*{text}"):
        bare_llvm["tvmgen_default_fused_add"](*bad_argument(case))


def test_generated_code_checks_argument_kinds(bare_llvm):
    with pytest.raises(TVMError, match="expects a pointer"):
        bare_llvm["tvmgen_default_fused_add"](1, 2, 3)
    with pytest.raises(TVMError, match="arg 1 expects a float"):
        bare_llvm["scalars"](1, 2, True)


@each_release()
def test_none_stands_for_a_null_handle(build, release):
    library = build("llvm_graph.c", defines=[release.define])
    with pytest.raises(TVMError, match="got a NULL handle"):
        library["tvmgen_default_fused_add"](None, None, None)
    assert library["return_null"]() is None


# ---- calls by name ----


@each_release()
def test_calls_by_name_pass_every_kind_of_argument(build, register, release):
    seen = {}

    def callee(tensor, text, number, real, nothing, truth):
        seen.update(tensor=tensor.numpy().copy(), rest=(text, number, real, truth))
        seen["nothing"] = nothing
        return number - 1

    register("compat.callee", callee)
    library = build("llvm_graph.c", blob=network.graph_blob(release), defines=[release.define])
    assert library.imported_modules[0]["call_packed"]() == -6
    np.testing.assert_array_equal(seen["tensor"], np.array([1, 2, 3], np.float32))
    assert seen["rest"] == ("a text", -5, 0.5, True)
    nothing = seen["nothing"]
    assert nothing is None or not getattr(nothing, "value", nothing)


def test_unknown_function_is_an_error_at_its_call(bare_llvm):
    with pytest.raises(TVMError, match=r"Cannot find function.*compat\.callee"):
        bare_llvm["call_packed"]()


def test_exception_of_a_callback_comes_back_through_generated_code(build, register):
    def callee(*_args):
        raise KeyError("from the callback")

    register("compat.callee", callee)
    library = build("llvm_graph.c", defines=["MINOR=8"])
    with pytest.raises(KeyError, match="from the callback"):
        library["call_packed"]()


def test_cached_function_outlives_its_name(build):
    """The static cache of generated code keeps a function that is no longer registered."""
    tvmrt.register_func("compat.callee", lambda *_args: 7, override=True)
    library = build("llvm_graph.c", defines=["MINOR=12"])
    assert library["call_packed"]() == 7
    tvmrt.runtime.remove_global_func("compat.callee")
    assert library["call_packed"]() == 7


def test_threads_find_functions_by_name_at_once(build, register):
    register("compat.callee", lambda *_args: 3)
    library = build("llvm_graph.c", blob=network.graph_blob(), defines=["MINOR=9"])
    code = library.imported_modules[0]
    results: list[int] = []

    def call() -> None:
        results.extend(code["call_packed"]() for _ in range(50))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [3] * 200


# ---- scalars ----


@each_release()
def test_bools_go_in_and_out(build, release: Release):
    """Type code 15 since 0.18, an int before; both compare equal to True."""
    library = build("llvm_graph.c", defines=[release.define])
    assert library["scalars"](1, 0.25, True) == 1001.25
    assert library["scalars"](1, 0.25, 0) == 1.25
    assert library["is_positive"](3) == 1
    assert bool(library["is_positive"](-3)) is False


# ---- linked parameters ----


@pytest.mark.parametrize("params", [{}, {"w": network.W + 1}], ids=["linked", "overridden"])
def test_parameters_linked_into_the_code(build, params):
    """0.8 returns `_lookup_linked_param(storage id)`; explicit parameters have priority."""
    factory = stream.graph_factory(network.graph_text(), params)
    entries = [stream.module("GraphExecutorFactory", factory), stream.LIBRARY]
    blob = stream.blob(entries, [0, 1, 1], [1])
    library = build("llvm_graph.c", blob=blob, defines=["MINOR=8", "LINKED_PARAMS"])
    expected = (network.X + params.get("w", network.W)) * 2
    np.testing.assert_array_equal(run_default(library), expected)


def test_linked_parameters_by_a_function_of_the_caller(build):
    """The third argument of `tvm.graph_executor.create` returns the address of a storage."""
    library = build("llvm_graph.c", defines=["MINOR=8"])
    weights = tvmrt.nd.array(network.W)
    address = np.from_dlpack(weights).ctypes.data
    entries = json.loads(network.graph_text())
    wanted = entries["attrs"]["storage_id"][1][entries["arg_nodes"][1]]
    asked = []

    def look_up(storage_id):
        asked.append(storage_id)
        return ctypes.c_void_p(address) if storage_id == wanted else None

    create = tvmrt.get_global_func("tvm.graph_executor.create")
    executor = graph_executor.GraphModule(
        create(network.graph_text(), library, tvmrt.runtime.convert(look_up), 1, 0)
    )
    executor.run(x=network.X)
    np.testing.assert_array_equal(executor.get_output(0).numpy(), network.Z)
    assert wanted in asked


def test_linked_parameters_with_a_graph_of_its_own(build):
    library = build("llvm_graph.c", defines=["MINOR=8", "LINKED_PARAMS"])
    executor = graph_executor.create(network.graph_text(), library, tvmrt.cpu(0))
    executor.run(x=network.X)
    np.testing.assert_array_equal(executor.get_output(0).numpy(), network.Z)
    np.testing.assert_array_equal(executor.get_input("w").numpy(), network.W)
