"""Compare int8 and uint8 SOFTMAX and LOG_SOFTMAX for many scales and row lengths bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_case import Net, litert_runs, ours

from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend import import_model

pytest.importorskip("ai_edge_litert")

SCALES = (1e-6, 0.001, 0.0123, 0.0625, 0.1, 0.5, 2.0, 15.9, 16.0, 40.0)
# Scale and zero point of the result.
RESULTS = {
    "LOG_SOFTMAX": {"int8": (1 / 16, 127), "uint8": (1 / 16, 255)},
    "SOFTMAX": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0)},
}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("operator", RESULTS)
def test_int8_softmax_equals_litert(operator, dtype, tmp_path):
    net, rng, info, feeds = Net(), np.random.default_rng(1), np.iinfo(dtype), []
    scale_of_y, zero_of_y = RESULTS[operator][dtype]
    options = {"SoftmaxOptions": {"beta": 1.0}, "LogSoftmaxOptions": {}}
    name = "SoftmaxOptions" if operator == "SOFTMAX" else "LogSoftmaxOptions"
    for scale in SCALES:
        for depth in (1, 2, 10, 300):
            x = net.input((12, depth), dtype, scale=scale, zero=3)
            y = net.output((12, depth), dtype, scale=scale_of_y, zero=zero_of_y)
            net.op(operator, [x], [y], 2, name, **options[name])
            rows = rng.integers(info.min, info.max, (12, depth), endpoint=True)
            rows[4:7], rows[7] = rows[4:7] // 8, info.max
            rows[8:] = rng.integers(0, 3, (4, depth)) + 5
            feeds.append(rows.astype(dtype))
    (right,) = litert_runs(net.data(), [feeds])
    for mine, wanted in zip(ours(net.data(), feeds, tmp_path), right):
        np.testing.assert_array_equal(mine, wanted)


def test_logarithms_have_the_scale_that_the_format_fixes():
    net = Net()
    x = net.input((3, 5), "int8", scale=0.1)
    y = net.output((3, 5), "int8", scale=0.05, zero=127)
    net.op("LOG_SOFTMAX", [x], [y], 2, "LogSoftmaxOptions")
    with pytest.raises(UnsupportedError, match="LOG_SOFTMAX of int8 has scale 1/16 and zero point"):
        import_model(net.data())
