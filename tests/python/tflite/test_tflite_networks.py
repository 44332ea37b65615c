"""Networks that TensorFlow's converter made of Keras layers, beside LiteRT's reference kernels."""

from __future__ import annotations

import pytest
from tflite_case import FILES, check_every_tensor

pytest.importorskip("ai_edge_litert")

EVERYDAY = ("convolutional_dynamic", "gated_units_int16", "squeeze_excite_int8")
NAMES = sorted(path.stem for path in FILES.glob("*.tflite"))


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in EVERYDAY else pytest.mark.slow) for n in NAMES]
)
def test_every_tensor_is_that_of_litert(name, tmp_path):
    assert check_every_tensor(FILES / f"{name}.tflite", tmp_path)
