"""Compare Keras networks converted by TensorFlow with LiteRT's reference kernels."""

from __future__ import annotations

import pytest
from every_tensor import check_every_tensor
from tflite_case import FILES

pytest.importorskip("ai_edge_litert")

EVERYDAY = ("convolutional_dynamic", "gated_units_int16", "squeeze_excite_int8")
# networks that LiteRT cannot run have recorded outputs of another runtime
NAMES = sorted(p.stem for p in FILES.glob("*.tflite") if not p.with_suffix(".npz").exists())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in EVERYDAY else pytest.mark.slow) for n in NAMES]
)
def test_every_tensor_equals_litert(name, tmp_path):
    assert check_every_tensor(FILES / f"{name}.tflite", tmp_path)
