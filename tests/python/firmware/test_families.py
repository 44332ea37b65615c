"""Processors by name run a network; board families define their memory."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
from boards import BOARDS, MORE_BOARDS, OWN_LOOPS, run_network
from onnx import helper
from onnx_graph import model

import tvmrt
from tvmrt.compiler.codegen.mcu_families import MCU_FAMILIES
from tvmrt.compiler.codegen.target import FIRMWARE
from tvmrt.compiler.export.firmware_build import tools_of

EVERYDAY = ("cortex-m33",)
# Espressif's compilers are in no registry; test_xtensa.py runs code for another core.
NOT_RUN = {"xtensa-lx6", "xtensa-lx7"}
TARGETS = [
    target if target in EVERYDAY else pytest.param(target, marks=pytest.mark.slow)
    for target in MORE_BOARDS
]


def network(channels: int = 5, size: int = 6, classes: int = 4):
    """Return two layers between an image and a few numbers, in int8 or float."""
    rng = np.random.default_rng(2)

    def part(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    steps = {"s": np.float32(0.04), "z": np.int8(-5), "ws": np.float32(0.01), "wz": np.int8(0)}
    weights = {
        "w": part(channels, 3, 3, 3), "b": part(channels), "d": part(channels, classes),
        "q": rng.integers(-127, 128, (channels, 3, 3, 3)).astype(np.int8), **steps,
    }  # fmt: skip

    def node(op, inputs, output, **attrs):
        return helper.make_node(op, inputs.split(), [output], **attrs)

    nodes = [
        node("Conv", "x w b", "c", pads=[1] * 4), node("Relu", "c", "r"),
        node("GlobalAveragePool", "r", "g"), node("Flatten", "g", "f"),
        node("MatMul", "f d", "m"), node("Softmax", "m", "y"),
        node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"),
        node("DequantizeLinear", "q ws wz", "wd"), node("Conv", "xd wd", "i"),
        node("QuantizeLinear", "i s z", "k"),
    ]  # fmt: skip
    x = part(1, 3, size, size)
    return model(nodes, {"x": x}, ["y", "k"], weights), {"x": x}


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_a_network_runs_on_the_processor(target, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    board = MORE_BOARDS[target]
    assert tuple(flag for flag in board.flags if flag != OWN_LOOPS) == FIRMWARE[target]
    net, feeds = network()
    expected = onnxruntime.InferenceSession(net.SerializeToString()).run(None, feeds)
    library = tvmrt.compile(net, target=target, interface_api="c", module_name="net")
    found = run_network(board, library, feeds, tmp_path).outputs
    np.testing.assert_allclose(found["y"], expected[0], rtol=1e-4, atol=1e-6)
    assert np.abs(found["k"].astype(int) - expected[1]).max() <= 1
    assert (found["k"] == expected[1]).mean() > 0.98


def test_every_board_is_one_that_the_compiler_knows_and_that_a_board_test_runs():
    names = {row.target for row in MCU_FAMILIES.values()}
    assert names - NOT_RUN <= {*BOARDS, *MORE_BOARDS, "cortex-m4f", "xtensa-lx106"}
    assert FIRMWARE["cortex-m4f"] == FIRMWARE["cortex-m4"]
    for row in MCU_FAMILIES.values():
        compiler, _ = tools_of(row.machine())
        if shutil.which(compiler) is None:
            continue
        command = [compiler, *row.machine().flags, "-E", "-x", "c", "/dev/null"]
        subprocess.run(command, check=True, capture_output=True)


def test_a_board_is_its_processor_and_its_memory():
    net, _ = network()
    library = tvmrt.compile(net, board="stm32f4", interface_api="c")
    assert library.target.name == "cortex-m4f"
    (pool,) = library.summary.pools
    assert (pool.name, pool.capacity_bytes) == ("workspace", 128 << 10)
    assert (
        tvmrt.compile(net, board="stm32f7", interface_api="c").target.flags[-1].endswith("sp-d16")
    )


@pytest.mark.parametrize(
    ("options", "sizes", "words"),
    [
        ({"board": "stm32f40"}, (), 'board="stm32f40" is not known; did you mean stm32f4?'),
        ({"board": "nrf52", "target": "cortex-m3"}, (), "has the processor cortex-m4f; omit"),
        ({"board": "stm32f0"}, (200, 32), "(STM32F072): pool workspace of 16384 bytes is "),
        ({"board": "stm32f0"}, (200, 32), "the peak is at operator Conv_i_chain with "),
        ({"board": "stm32f4"}, (600, 64), 'pools={"sram": 131072, "ccm": 65536}'),
        ({"board": "stm32h7", "pools": {"dtcm": 1 << 20}}, (), "has 131072; use"),
        ({"board": "stm32f0"}, (64, 6, 1024), "more than the flash of stm32f0 (STM32F072)"),
    ],
)  # fmt: skip
def test_network_too_large_for_a_board_is_reported_with_bytes(options, sizes, words):
    with pytest.raises(ValueError) as raised:
        tvmrt.compile(network(*sizes)[0], interface_api="c", **options)
    assert words in str(raised.value)
