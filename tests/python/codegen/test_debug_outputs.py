"""A debug executor shows every intermediate tensor, although all share one storage."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from small_network import small_network

import tvmrt
from tvmrt.contrib import graph_executor


def all_values(network: onnx.ModelProto, feeds) -> dict[str, np.ndarray]:
    """Return the output of every node, computed by onnxruntime."""
    names = [name for node in network.graph.node for name in node.output]
    full = onnx.ModelProto()
    full.CopyFrom(network)
    del full.graph.output[:]
    full.graph.output.extend(helper.make_tensor_value_info(n, 1, None) for n in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(full.SerializeToString(), options)
    return dict(zip(names, session.run(names, feeds)))


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    path = tmp_path_factory.mktemp("debug") / "net.so"
    tvmrt.compile(small_network(), executor="graph").export_library(path)
    return graph_executor.GraphModule(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))


@pytest.mark.parametrize(
    "node, tensor",
    [("stem_conv", "r1"), ("block_depthwise", "m"), ("head_pool", "g"), ("logits", "logits")],
)
def test_output_of_a_node_has_its_shape_and_elements(module, node, tensor):
    x = np.random.default_rng(2).standard_normal((1, 3, 9, 11)).astype(np.float32)
    expected = all_values(small_network(), {"x": x})[tensor]
    module.set_input(x=x)
    out = tvmrt.nd.empty(expected.shape, "float32")
    module.module["debug_get_output"](node, out)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-5)
    found = module.module["get_node_output"](node)
    np.testing.assert_array_equal(found.numpy(), out.numpy())


@pytest.mark.everyday(3)
@pytest.mark.parametrize(
    "view",
    [
        pytest.param("[0, 2, 32, 1000000, 1]", id="too-long"),
        pytest.param("[-4, 2, 32, 1, 1]", id="before-the-storage"),
        pytest.param("[0, 2, 32, 2, 9223372036854775807]", id="overflow"),
        pytest.param("[0, 2, 32, 4, -1]", id="backwards-out"),
        pytest.param("[0, 2, 32, 1]", id="odd-count"),
        pytest.param("[0, 2]", id="no-bits"),
        pytest.param("{}", id="no-list"),
    ],
)
def test_a_view_outside_of_its_storage_is_refused(tmp_path, view):
    import json

    library = tvmrt.compile(small_network(), executor="graph")
    library.export_library(tmp_path / "net.so")
    graph = json.loads(library.get_graph_json())
    node = next(n for n in graph["nodes"] if n["name"] == "stem_conv")
    node["attrs"]["view"] = view
    lib = tvmrt.runtime.load_module(tmp_path / "net.so")
    executor = graph_executor.create(json.dumps(graph), lib, tvmrt.cpu(0))
    with pytest.raises((ValueError, tvmrt.TVMError), match="view"):
        executor.module["get_node_output"]("stem_conv")
