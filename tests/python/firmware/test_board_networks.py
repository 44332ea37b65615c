"""Real microcontroller networks on boards, compared with their golden outputs.

Integer results must be bit-identical to onnxruntime's; floats agree within their noise.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from boards import (
    BOARDS,
    VECTORS,
    build_network,
    read_outcome,
    run_image,
    run_network,
    write_inputs,
)

import tvmrt

sys.path.insert(0, str(Path(__file__).parents[1] / "networks"))
import golden_case

if not golden_case.names():
    pytest.skip(
        "TVMRT_MODELS is not set: networks are not tested on boards", allow_module_level=True
    )

MODELS = Path(os.environ["TVMRT_MODELS"])
INDEX = json.loads((MODELS / "index.json").read_text())
NETWORKS = [name for name in golden_case.names() if INDEX[name].get("kind") == "mcu"]
# everyday: every network on one board; slow: on two of the other boards in turn
EVERYDAY = "cortex-m4"
OTHERS = ("cortex-m55", "riscv32", "cortex-m0plus")
PLACES = [(name, EVERYDAY) for name in NETWORKS] + [
    pytest.param(name, target, marks=pytest.mark.slow)
    for i, name in enumerate(NETWORKS)
    for target in sorted({OTHERS[i % 3], OTHERS[(i + 1) % 3]})
]


def is_integer(name: str) -> bool:
    """Return whether all matmul-like operators are integer, with their scales in the file."""
    ops = INDEX[name]["ops"]
    return "DynamicQuantizeLinear" not in ops and any("Quantize" in op or "QLinear" in op
                                                      for op in ops)  # fmt: skip


@pytest.mark.everyday(10)
@pytest.mark.parametrize(("name", "target"), PLACES)
def test_golden_outputs_on_the_board(name, target, tmp_path):
    board = BOARDS[target]
    library = tvmrt.compile(
        MODELS / f"{name}.onnx", target=target, interface_api="c", unpacked_api=True,
        module_name="net",
    )  # fmt: skip
    inputs, golden = golden_case.load(MODELS, name)
    check(name, run_network(board, library, inputs, tmp_path).outputs, golden)


def check(name: str, outputs: dict[str, np.ndarray], golden: dict[str, np.ndarray]) -> None:
    for key, expected in golden.items():
        found = outputs[key]
        if expected.dtype.kind in "iu":
            np.testing.assert_array_equal(found, expected, err_msg=key)
        elif is_integer(name):
            # the same integers; the final dequantisation may round differently
            np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-9, err_msg=key)
        else:
            golden_case.check(key, found, expected, golden_case.noise(MODELS, name))


@pytest.mark.parametrize(
    "name", ["kws_dscnn_int8", pytest.param("resnet8_qlinear", marks=pytest.mark.slow)]
)
def test_vectors_of_every_length_give_the_golden_outputs(name, tmp_path):
    """Run one image on processors with vectors of 128, 256 and 1,024 bits."""
    board = BOARDS["rv32imac_zve32x"]
    options = {"interface_api": "c", "unpacked_api": True, "module_name": "net"}
    library = tvmrt.compile(MODELS / f"{name}.onnx", target=board.target, **options)
    inputs, golden = golden_case.load(MODELS, name)
    image = build_network(board, library, tmp_path)
    write_inputs(library, inputs, tmp_path)
    for bits in (128, 256, 1024):
        (tmp_path / "outputs.bin").unlink(missing_ok=True)
        emulator = (*board.emulator[:-1], VECTORS % bits)
        run_image(replace(board, emulator=emulator), image, tmp_path)
        check(name, read_outcome(library, tmp_path).outputs, golden)
