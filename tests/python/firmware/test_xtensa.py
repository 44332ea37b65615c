"""Code for Xtensa runs in QEMU's simulator of the ESP8266's core."""

from __future__ import annotations

import numpy as np
import pytest
import xtensa_board
from archives import unpack
from board_layers import layers

import tvmrt


@pytest.mark.parametrize("quantised", [True, False], ids=["int8", "f32"])
def test_every_kind_of_layer_runs(quantised, images, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    if xtensa_board.missing_tool():
        pytest.skip(f"{xtensa_board.missing_tool()} is not installed")
    network = layers(quantised)
    session = onnxruntime.InferenceSession(network.SerializeToString())
    (expected,) = session.run(None, {"image": images[0]})
    library = tvmrt.compile(network, board="esp8266", interface_api="c", module_name="net")
    found = xtensa_board.run_network(library, images[0], tmp_path)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("board", "tool"), [("esp32", "xtensa-esp32-elf"), ("esp32s3", "xtensa-esp32s3-elf")]
)
def test_archives_of_other_cores_name_their_compilers(board, tool, tmp_path):
    """No registry has these compilers; the test above checks the network's C."""
    library = tvmrt.compile(layers(True), board=board, interface_api="c", module_name="net")
    library.export(tmp_path / "net.tar")
    unpack(tmp_path / "net.tar", tmp_path / "net")
    text = (tmp_path / "net/Makefile").read_text()
    assert f"CC = {tool}-gcc" in text and f"AR = {tool}-ar" in text and "-mlongcalls" in text
