"""Attention with independent dynamic numbers of queries and keys, compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

import tvmrt


def test_queries_and_keys_of_two_dynamic_lengths(tmp_path):
    shapes = {"q": (1, 4, "queries", 8), "k": (1, 2, "keys", 8), "v": (1, 2, "keys", 6)}
    graph = helper.make_graph(
        [helper.make_node("Attention", ["q", "k", "v"], ["y"], scale=0.3)],
        "cross",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
        [helper.make_empty_tensor_value_info("y")],
    )
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    session = onnxruntime.InferenceSession(network.SerializeToString())
    tvmrt.compile(network, dims={"queries": (1, 9), "keys": (1, 9)}).export_library(
        tmp_path / "net.so"
    )
    net = tvmrt.load(tmp_path / "net.so")
    rng = np.random.default_rng(2)
    for sizes in [(9, 9), (1, 9), (9, 1), (5, 3), (3, 5)]:
        extents = dict(zip(("queries", "keys"), sizes))
        feeds = {
            name: rng.normal(size=[extents.get(d, d) for d in shape]).astype(np.float32)
            for name, shape in shapes.items()
        }
        np.testing.assert_allclose(net(**feeds), session.run(None, feeds)[0], rtol=1e-5, atol=1e-6)
