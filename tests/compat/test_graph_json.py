"""Test graph JSON of the releases, and the ways of binding inputs and outputs."""

from __future__ import annotations

import json
from typing import Any, Callable

import numpy as np
import pytest
from artefacts import network
from artefacts.releases import Release, each_release

import tvmrt
from tvmrt.contrib import graph_executor
from tvmrt.error import TVMError


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    from artefacts import toolchain

    path = tmp_path_factory.mktemp("graph") / "library.so"
    source = toolchain.source("llvm_graph.c")
    toolchain.shared_library(path, source, defines=["MINOR=18"])
    return tvmrt.runtime.load_module(path)


def run(library: tvmrt.runtime.Module, graph: dict[str, Any] | str, **inputs: Any) -> list:
    text = graph if isinstance(graph, str) else json.dumps(graph)
    executor = graph_executor.create(text, library, tvmrt.cpu(0))
    executor.run(**inputs)
    return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]


# ---- variants of the text ----


def entries_of_two(graph: dict[str, Any]) -> None:
    """Return entries without a version number."""
    graph["heads"] = [entry[:2] for entry in graph["heads"]]
    for node in graph["nodes"]:
        node["inputs"] = [entry[:2] for entry in node["inputs"]]


def no_device_index(graph: dict[str, Any]) -> None:
    del graph["attrs"]["device_index"]


def storage_scope(graph: dict[str, Any]) -> None:
    graph["attrs"]["storage_scope"] = ["list_str", ["global"] * 4]


def attr_instead_of_attrs(graph: dict[str, Any]) -> None:
    for node in graph["nodes"]:
        if "attrs" in node:
            node["attr"] = node.pop("attrs")


def attrs_of_inputs(graph: dict[str, Any]) -> None:
    graph["nodes"][0]["attrs"] = {"T_source_layout": "NCHW", "hash": "0"}


def control_deps(graph: dict[str, Any]) -> None:
    graph["nodes"][3]["control_deps"] = [0, 2]
    graph["nodes"][2]["control_deps"] = []


def attributes_of_others(graph: dict[str, Any]) -> None:
    graph["nodes"][2]["attrs"]["dst_layout"] = "NCHW16c"
    graph["attrs"]["column"] = ["list_int", [1, 2, 3]]
    graph["attrs"]["count"] = ["size_t", 17]


def metadata_last(graph: dict[str, Any]) -> None:
    graph["metadata"] = {"arg_types": [[{"x": [1, 2.5e-3, None, True]}]], "text": '\u00e9\n"}'}


def after_metadata(graph: dict[str, Any]) -> None:
    """Readers stop at the metadata, so the text after it is not checked."""
    graph["metadata"] = {}
    graph["signature"] = {"by": "somebody"}


def shared_storage(graph: dict[str, Any]) -> None:
    graph["attrs"]["storage_id"][1] = [0, 1, 2, 0]


def keys_in_another_order(graph: dict[str, Any]) -> None:
    for key in ("nodes", "attrs"):
        graph[key] = graph.pop(key)
    for node in graph["nodes"]:
        for key in sorted(node):
            node[key] = node.pop(key)


VARIANTS: list[Callable[[dict[str, Any]], None]] = [
    entries_of_two,
    no_device_index,
    storage_scope,
    attr_instead_of_attrs,
    attrs_of_inputs,
    control_deps,
    attributes_of_others,
    metadata_last,
    after_metadata,
    shared_storage,
    keys_in_another_order,
]


@pytest.mark.parametrize("change", VARIANTS, ids=lambda change: change.__name__)
@pytest.mark.parametrize("indent", [None, 2], ids=["compact", "indented"])
def test_variants_of_the_text_give_the_same_numbers(library, change, indent):
    graph = network.graph()
    change(graph)
    text = json.dumps(graph, indent=indent)
    (z,) = run(library, text, x=network.X, w=network.W)
    np.testing.assert_array_equal(z, network.Z)


@each_release()
def test_graphs_of_the_releases(library, release):
    (z,) = run(library, network.graph_text(release), x=network.X, w=network.W)
    np.testing.assert_array_equal(z, network.Z)


# ---- special operators ----


def with_reshape() -> dict[str, Any]:
    """Reshape z to 6 elements by a node without code, which shares its storage."""
    graph = network.graph()
    graph["nodes"].append(network.operator("reshape_nop", [[3, 0, 0]], "__nop"))
    graph["heads"] = [[3, 0, 0], [4, 0, 0]]
    graph["node_row_ptr"].append(5)
    attrs = graph["attrs"]
    attrs["dltype"][1].append("float32")
    attrs["device_index"][1].append(1)
    attrs["storage_id"][1].append(3)
    attrs["shape"][1].append([6])
    return graph


def test_nop_is_no_call(library):
    z, flat = run(library, with_reshape(), x=network.X, w=network.W)
    np.testing.assert_array_equal(z, network.Z)
    np.testing.assert_array_equal(flat, network.Z.ravel())


def test_copy_moves_between_devices(library):
    graph = with_reshape()
    graph["nodes"][4]["attrs"]["func_name"] = "__copy"
    graph["nodes"][4]["name"] = "__copy_1"
    graph["attrs"]["storage_id"][1][4] = 4
    graph["attrs"]["shape"][1][4] = [2, 3]
    z, copy = run(library, graph, x=network.X, w=network.W)
    np.testing.assert_array_equal(copy, network.Z)
    np.testing.assert_array_equal(z, network.Z)


@pytest.fixture(scope="module")
def flat_library(tmp_path_factory):
    from artefacts import toolchain

    path = tmp_path_factory.mktemp("flat") / "library.so"
    text = (
        '#include "tvm/runtime/c_backend_api.h"\n'
        "TVM_DLL int32_t first_dims(void* args, int32_t* codes, int32_t n, void* r, int32_t* c,\n"
        "                           void* h);\n"
        "/* Writes the rank and the first extent of both arguments. */\n"
        "TVM_DLL int32_t first_dims(void* args, int32_t* codes, int32_t n, void* r, int32_t* c,\n"
        "                           void* h) {\n"
        "  DLTensor* in = ((TVMValue*)args)[0].v_handle;\n"
        "  DLTensor* out = ((TVMValue*)args)[1].v_handle;\n"
        "  float* data = out->data;\n"
        "  (void)codes, (void)n, (void)r, (void)c, (void)h;\n"
        "  data[0] = (float)in->ndim, data[1] = (float)in->shape[0];\n"
        "  data[2] = (float)out->ndim, data[3] = (float)out->shape[0];\n"
        "  data[4] = in->strides == NULL && out->strides == NULL;\n"
        "  data[5] = (float)(in->byte_offset + out->byte_offset);\n"
        "  return 0;\n"
        "}\n"
    )
    source = path.with_suffix(".c")
    source.write_text(text)
    return tvmrt.runtime.load_module(toolchain.shared_library(path, source))


@pytest.mark.parametrize("flatten", ["0", "1"])
def test_flatten_data_makes_vectors_of_tensors(flat_library, flatten):
    graph = network.graph()
    graph["nodes"] = [graph["nodes"][0], network.operator("first_dims", [[0, 0, 0]])]
    graph["nodes"][1]["attrs"]["flatten_data"] = flatten
    graph["arg_nodes"], graph["heads"] = [0], [[1, 0, 0]]
    graph["node_row_ptr"] = [0, 1, 2]
    graph["attrs"] = {key: [tag, items[:2]] for key, (tag, items) in graph["attrs"].items()}
    (found,) = run(flat_library, graph, x=network.X)
    dims = [1, 6, 1, 6] if flatten == "1" else [2, 2, 2, 2]
    np.testing.assert_array_equal(found.ravel(), [*dims, 1, 0])


# ---- types ----


def one_input(dtype: str, shape: list[int]) -> dict[str, Any]:
    return {
        "nodes": [{"op": "null", "name": "x", "inputs": []}],
        "arg_nodes": [0],
        "heads": [[0, 0, 0]],
        "attrs": {
            "dltype": ["list_str", [dtype]],
            "storage_id": ["list_int", [0]],
            "shape": ["list_shape", [shape]],
        },
        "node_row_ptr": [0, 1],
    }


@pytest.mark.parametrize(
    "dtype",
    ["int8", "uint8", "int16", "uint16", "int32", "int64", "float16", "float64", "bool"],
)
def test_element_types(library, dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    (out,) = run(library, one_input(dtype, [2, 3]), x=array)
    assert out.dtype == array.dtype
    np.testing.assert_array_equal(out, array)


@pytest.mark.parametrize(
    "dtype, shape",
    [("int1", [13]), ("uint1", [2, 3]), ("int4", [7]), ("uint4", [8]), ("float32x4", [3])],
)
def test_sub_byte_types(library, dtype, shape):
    """Their storages have whole bytes per element or lane."""
    executor = graph_executor.create(json.dumps(one_input(dtype, shape)), library, tvmrt.cpu(0))
    executor.run()
    info = executor.get_input_info()
    assert info == ({"x": tuple(shape)}, {"x": dtype if dtype != "uint1" else "bool"})


def test_scalar_has_an_empty_shape(library):
    (out,) = run(library, one_input("float32", []), x=np.float32(2.5))
    assert out.shape == ()
    assert out == np.float32(2.5)


def test_empty_extent(library):
    (out,) = run(library, one_input("float32", [0, 4]), x=np.zeros((0, 4), np.float32))
    assert out.shape == (0, 4)


def test_type_of_three_bits_is_refused(library):
    with pytest.raises((TVMError, ValueError), match="whole number of bytes"):
        run(library, one_input("int3", [5]))


# ---- the executor's functions ----


@pytest.fixture
def executor(library):
    return graph_executor.create(network.graph_text(), library, tvmrt.cpu(0))


def aligned(shape: tuple[int, ...]) -> tvmrt.nd.NDArray:
    return tvmrt.nd.empty(shape, "float32", tvmrt.cpu(0))


@each_release()
def test_output_is_bound_by_the_key_of_its_release(executor, release: Release):
    out = aligned((2, 3))
    executor.module["set_output_zero_copy"](
        release.output_key("tvmgen_default_fused_multiply", 0), out
    )
    executor.run(x=network.X, w=network.W)
    np.testing.assert_array_equal(out.numpy(), network.Z)


def test_outputs_by_number_and_by_key(library):
    executor = graph_executor.create(json.dumps(with_reshape()), library, tvmrt.cpu(0))
    executor.run(x=network.X, w=network.W)
    for index, key in enumerate(["tvmgen_default_fused_multiply:0", "reshape_nop:1"]):
        by_key = executor.module["get_output"](key).numpy()
        np.testing.assert_array_equal(by_key, executor.get_output(index).numpy())
    with pytest.raises((TVMError, ValueError), match="no output 'nobody'"):
        executor.module["get_output"]("nobody")


def test_inputs_of_the_module(executor):
    module = executor.module
    assert module["get_num_inputs"]() == 2
    assert module["get_num_outputs"]() == 1
    assert [module["get_input_index"](name) for name in ("x", "w", "nobody")] == [0, 1, -1]
    assert module["get_input"]("nobody") is None
    info = module["get_input_info"]()
    assert {str(k): tuple(v) for k, v in info["shape"].items()} == {"x": (2, 3), "w": (2, 3)}
    assert {str(k): str(v) for k, v in info["dtype"].items()} == {"x": "float32", "w": "float32"}


def test_run_from_inputs_gives_copies(executor):
    x, w = tvmrt.nd.array(network.X), tvmrt.nd.array(network.W)
    first = executor.module["run_from_inputs"](1, 0, "x", x, "w", w)
    executor.run(x=network.X * 0)
    np.testing.assert_array_equal(first[0].numpy(), network.Z)


def test_params_are_shared_between_executors(library, executor):
    other = graph_executor.create(network.graph_text(), library, tvmrt.cpu(0))
    blob = tvmrt.runtime.save_param_dict({"w": network.W, "nobody": network.X})
    executor.load_params(blob)
    other.share_params(executor, blob)
    other.run(x=network.X)
    np.testing.assert_array_equal(other.get_output(0).numpy(), network.Z)


@pytest.mark.parametrize(
    "devices", [(1, 0), (1, 0, 2, 0)], ids=["one-device", "a-device-that-is-not-used"]
)
def test_create_takes_devices_as_numbers(library, devices):
    create = tvmrt.get_global_func("tvm.graph_executor.create")
    for more in ((), (None,)):
        module = create(network.graph_text(), library, *more, *devices)
        executor = graph_executor.GraphModule(module)
        executor.run(x=network.X, w=network.W)
        np.testing.assert_array_equal(executor.get_output(0).numpy(), network.Z)


@pytest.mark.parametrize("number", [2, 4, 14, 16], ids=["cuda", "opencl", "hexagon-0.8", "hexagon"])
def test_missing_devices_are_named(library, number):
    graph = network.graph()
    graph["attrs"]["device_index"][1] = [number] * 4
    with pytest.raises((TVMError, ValueError), match=f"device.*{number}|{number}.*device"):
        run(library, graph, x=network.X)


def test_device_id_beyond_int_is_an_error(library):
    """Its low half would be the CPU."""
    graph = network.graph()
    graph["attrs"]["device_index"][1] = [(1 << 32) + 1] * 4
    with pytest.raises((TVMError, ValueError), match="device of type"):
        run(library, graph, x=network.X)


def test_debug_executor_shows_every_node(library):
    create = tvmrt.get_global_func("tvm.graph_executor_debug.create")
    module = create(network.graph_text(), library, 1, 0)
    module["set_input"]("x", tvmrt.nd.array(network.X))
    module["set_input"]("w", tvmrt.nd.array(network.W))
    out = aligned((2, 3))
    module["debug_get_output"]("tvmgen_default_fused_add", out)
    np.testing.assert_array_equal(out.numpy(), network.X + network.W)
    module["execute_node"](3)
    np.testing.assert_array_equal(module["get_node_output"](3, 0).numpy(), network.Z)
