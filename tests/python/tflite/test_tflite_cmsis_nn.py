"""``.tflite`` networks on the device cmsis-nn: the arithmetic of the file, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from cmsis_nn_stand_in import compiled, loaded
from tflite_case import FILES, feeds_for, litert_runs

pytest.importorskip("ai_edge_litert")


@pytest.mark.parametrize("name", ["convolutional_int8", "separable_int8", "residual_int8"])
def test_layers_compute_what_litert_does(name, tmp_path):
    data = (FILES / f"{name}.tflite").read_bytes()
    feeds = feeds_for(data)
    library = compiled(data, interface_api="c")
    taken = {row.op_type for row in library.summary.nodes if row.device == "cmsis-nn"}
    assert taken
    network = loaded(library, tmp_path)
    found = network.run({t.name: x for t, x in zip(library.summary.inputs, feeds)})
    (right,) = litert_runs(data, [feeds])
    for y, wanted in zip(found.values(), right):
        np.testing.assert_array_equal(y, wanted)
