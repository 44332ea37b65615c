"""Scale and zero point of quantised inputs and outputs in the header, metadata.json and inspect."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest
from archives import unpack
from firmware_program import build
from onnx import helper
from onnx_graph import model

import tvmrt
from tvmrt.cli.describe.archive import describe

# x: int8 in steps of 1/4 around -3; y: uint8 in steps of 1/8 around 10
STEPS = {
    "x_scale": np.float32(0.25), "x_zero": np.int8(-3),
    "y_scale": np.float32(0.125), "y_zero": np.uint8(10), "shape": np.array([4], np.int64),
}  # fmt: skip
MAIN = """\
#include <tvmgen_net.h>
static const int8_t x[4] = {-3, 1, 5, 9};
int main(void) {
  uint8_t y[4];
  struct tvmgen_net_inputs inputs = {x};
  struct tvmgen_net_outputs outputs = {y};
  if (tvmgen_net_run(&inputs, &outputs) != 0) return 1;
  for (int i = 0; i < 4; ++i) {
    const float real = (float)(x[i] - TVMGEN_NET_X_ZERO_POINT) * TVMGEN_NET_X_SCALE;
    const float found = (float)(y[i] - TVMGEN_NET_OUTPUT_ZERO_POINT) * TVMGEN_NET_OUTPUT_SCALE;
    if (found != 2 * real) return 2;
  }
  return 0;
}
"""


def _doubled(more: tuple = ()):
    """Return a network of integers in and out that doubles the reals that they stand for."""
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "x_scale", "x_zero"], ["real"]),
        helper.make_node("Reshape", ["real", "shape"], ["row"]),
        helper.make_node("Add", ["row", "row"], ["sum"]),
        helper.make_node("QuantizeLinear", ["sum", "y_scale", "y_zero"], ["quantised"]),
        helper.make_node("Reshape", ["quantised", "shape"], ["y"]),
        *more,
    ]
    feeds = {"x": np.zeros((1, 4), np.int8)}
    outputs = ["y", *(node.output[0] for node in more)]
    return model(nodes, feeds, outputs, weights=STEPS)


@pytest.mark.slow
def test_a_program_converts_with_the_macros_and_constant_inputs(tmp_path):
    library = tvmrt.compile(
        _doubled(), target="cortex-m0plus", interface_api="c", module_name="net"
    )
    library.export(tmp_path / "net.tar")
    root = unpack(tmp_path / "net.tar", tmp_path / "net")
    (tmp_path / "main.c").write_text(MAIN)
    sources = [tmp_path / "main.c", *(root / "codegen/host/src").glob("*.c")]
    includes = [root / "codegen/host/include"]
    program = build(tmp_path, sources, includes, ("-Wcast-qual", "-Wno-attributes"))
    assert subprocess.run([program], check=False).returncode == 0
    memory = json.loads((root / "metadata.json").read_text())["modules"]["net"]["memory"]
    (main,) = memory["functions"]["main"]
    assert main["inputs"]["x"] == {"size": 4, "dtype": "int8", "scale": 0.25, "zero_point": -3}
    assert main["outputs"]["output"]["scale"] == 0.125
    assert main["outputs"]["output"]["zero_point"] == 10
    rows = describe(tmp_path / "net.tar").as_dict()["quantised inputs and outputs"]
    assert [(r["name"], r["scale"], r["zero point"]) for r in rows] == [
        ("x", 0.25, -3),
        ("output", 0.125, 10),
    ]


@pytest.mark.slow
def test_an_input_with_other_readers_has_no_macros(tmp_path):
    other = helper.make_node("Neg", ["x"], ["negated"])
    library = tvmrt.compile(
        _doubled(more=(other,)), target="cortex-m0plus", interface_api="c", module_name="net"
    )
    header = library.sources.files["tvmgen_net.h"]
    assert "_X_SCALE" not in header and "_OUTPUT0_SCALE 0.125f" in header
    assert "_OUTPUT1_SCALE" not in header


@pytest.mark.slow
def test_inputs_in_pools_are_filled_through_the_struct():
    library = tvmrt.compile(
        _doubled(), target="cortex-m0plus", interface_api="c", module_name="net", workspace_io=True
    )
    header = library.sources.files["tvmgen_net.h"]
    assert "\n  void *x;" in header and "TVMGEN_NET_X_SCALE 0.25f" in header
