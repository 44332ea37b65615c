"""Test programs that follow TVM's remote deployment examples, and session objects passed
elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from onnx_graph import model

import tvmrt

X = np.arange(6, dtype=np.float32).reshape(2, 3)
W = np.array([[0.5, -1, 0.25], [-2, 1, -0.5]], np.float32)


def test_python_from_afar(tmp_path):
    from tvmrt import rpc
    from tvmrt.contrib import graph_executor

    nodes = [helper.make_node("Add", ["x", "w"], ["y"]), helper.make_node("Softmax", ["y"], ["z"])]
    graph = model(nodes, {"x": X}, ["z"], {"w": W})
    powers = np.exp(X + W - (X + W).max(1, keepdims=True))
    tvmrt.compile(graph, executor="graph").export_library(tmp_path / "net.so")
    server = rpc.Server(key="board", silent=True)
    try:
        remote = rpc.connect(server.host, server.port, key="board")
        remote.upload(tmp_path / "net.so")
        library = remote.load_module("net.so")
        device = remote.cpu()
        module = graph_executor.GraphModule(library["default"](device))
        module.set_input("x", tvmrt.nd.array(X, device))
        module.run()
        expected = powers / powers.sum(1, keepdims=True)
        found = module.get_output(0).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        times = module.module.time_evaluator("run", device, number=2, repeat=3)().results
        assert len(times) == 3 and all(0 < time < 1 for time in times)
    finally:
        server.terminate()


def test_objects_of_a_session_are_refused_by_tvm_ffi():
    """Pass objects of a session alone and in containers."""
    tvm_ffi = pytest.importorskip("tvm_ffi")
    from tvmrt.contrib import tvm_ffi as bridge

    session = tvmrt.rpc.LocalSession()
    remote = session.get_function("runtime.ShapeTuple")(1, 2)
    function = bridge.from_tvm_ffi(tvm_ffi.convert(lambda *_: None))
    for value in (remote, [1, remote], {"a": remote}):
        with pytest.raises(TypeError, match="has no equivalent in tvm-ffi"):
            function(value)
