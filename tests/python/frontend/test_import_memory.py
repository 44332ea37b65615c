"""After an import only its graph stays in memory, without help of the garbage collector."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.frontend.onnx.importer import GraphImporter
from tvmrt.error import UnsupportedError

ERRORS = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (int64[1] count) => (int64[6] y) {
        start = Constant <value_int = 0> ()
        step = Constant <value_int = 1> ()
        none = Constant <value_ints = [0]> ()
        twice = Add(count, count)
        limit = Squeeze(twice, none)
        y = Range(start, limit, step)
    }
"""
REFUSED = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[2, 3] x) => (float[2, 3] y) { y = Unheard(x) }
"""
BRANCHES = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[4] x, bool c) => (float[4] y) {
        y = If (c) <
            then_branch = a () => (float[4] t) { t = Add(x, x) },
            else_branch = b () => (float[4] e) { e = Neg(x) }
        >
    }
"""
STRINGS = """
    <ir_version: 8, opset_import: ["" : 20]>
    g (float[3] x) => (string[3] y) { y = Cast<to = 8>(x) }
"""


def _importers():
    return [each for each in gc.get_objects() if type(each) is GraphImporter]


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_importer_is_freed_after_the_call(no_collector):
    """Also if the network is imported again for a data-dependent operand."""
    before = len(_importers())
    for text in (ERRORS, BRANCHES, STRINGS):
        graph = import_model(parser.parse_model(text))
        assert len(_importers()) == before, text
        assert graph.outputs


def test_importer_of_a_refused_network_is_freed(no_collector):
    before = len(_importers())
    with pytest.raises(UnsupportedError, match="Unheard"):
        import_model(parser.parse_model(REFUSED))
    assert len(_importers()) == before


@pytest.mark.slow
def test_weights_of_a_refused_network_are_freed(no_collector):
    """The network is imported several times before it is refused."""
    import tracemalloc

    weights = numpy_helper.from_array(np.ones((1 << 10, 1 << 10), np.float32), "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Unheard", ["z"], ["y"]),
    ]
    row = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1 << 10])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1 << 10])
    model = helper.make_model(helper.make_graph(nodes, "g", [row], [out], [weights]))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        with pytest.raises(UnsupportedError, match="Unheard"):
            import_model(model)
        assert tracemalloc.get_traced_memory()[0] - before < 1 << 20
    finally:
        tracemalloc.stop()
