"""Test ``.tflite`` networks on the device cmsis-nn: results equal the file's arithmetic bit by
bit."""

from __future__ import annotations

import numpy as np
import pytest
from cmsis_nn_mock import compiled, loaded
from tflite_case import FILES, Net, feeds_for, litert_runs

pytest.importorskip("ai_edge_litert")


LAYERS = {
    "convolutional_int8": {
        "CONV_2D",
        "FULLY_CONNECTED",
    },
    "separable_int8": {"DEPTHWISE_CONV_2D"},
    "residual_int8": {"ADD", "CONV_2D"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_layers_equal_litert(name, tmp_path):
    data = (FILES / f"{name}.tflite").read_bytes()
    feeds = feeds_for(data)
    library = compiled(data, interface_api="c")
    taken = {row.op_type for row in library.summary.nodes if "cmsis-nn" in row.device}
    assert taken >= LAYERS[name]
    network = loaded(library, tmp_path)
    found = network.run({t.name: x for t, x in zip(library.summary.inputs, feeds)})
    (right,) = litert_runs(data, [feeds])
    for y, wanted in zip(found.values(), right):
        np.testing.assert_array_equal(y, wanted)


def test_pairs_to_the_bit(tmp_path):
    net = Net()
    image = {"scale": 0.05, "zero": -4}
    a = net.input([2, 5, 4, 6], "int8", **image)
    b = net.input([2, 5, 4, 6], "int8", scale=0.071, zero=9)
    for name, options, scale in (("ADD", "AddOptions", 0.1), ("MUL", "MulOptions", 0.08)):
        y = net.output([2, 5, 4, 6], "int8", scale=scale, zero=-2)
        net.op(name, [a, b], [y], options=options)
    data = net.data()
    feeds = feeds_for(data)
    library = compiled(data, interface_api="c")
    left = {row.name: row.reason for row in library.summary.nodes if "cmsis-nn" not in row.device}
    assert left == {}
    found = loaded(library, tmp_path).run(
        {t.name: x for t, x in zip(library.summary.inputs, feeds)}
    )
    (right,) = litert_runs(data, [feeds])
    for y, wanted in zip(found.values(), right):
        np.testing.assert_array_equal(y, wanted)
