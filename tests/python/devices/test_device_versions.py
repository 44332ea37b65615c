"""Devices built with an earlier or a later header of the same version are loaded and run.

first_version/ has device.h as it was for the first plug-ins. It is never changed.
"""

from __future__ import annotations

import numpy as np
import pytest
from unary import HERE, built, chain, executor

import tvmrt

X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
FIRST = (f"-I{HERE}/first_version",)


@pytest.mark.parametrize(
    ("name", "macros", "flags"),
    [
        ("first", ("ALONE", "FIRST", 'REFUSES="abs"'), FIRST),
        ("later", ('REFUSES="abs"', "LATER"), ()),
    ],
)
def test_device_of_another_header(tmp_path, name, macros, flags):
    tvmrt.load_device_plugin(str(built(tmp_path, name, *macros, flags=flags)))
    library = tvmrt.compile(chain("Neg", "Relu", "Abs", "Neg"), devices=[name])
    found = [row.onnx_nodes for row in library.summary.regions]
    together = [["Neg_t0"], ["Relu_t1"]] if "ALONE" in macros else [["Neg_t0", "Relu_t1"]]
    assert found == [*together, ["Neg_y"]]
    library.export_library(tmp_path / "n.so")
    network = executor(tmp_path / "n.so")
    network.run(x=X)
    np.testing.assert_array_equal(network.get_output(0).numpy(), -np.maximum(-X, 0))
