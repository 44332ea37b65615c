"""Weights that are read often are copied to RAM on boards whose flash has wait states."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import boards
import numpy as np
import pytest
import test_row_fusion
from onnx import TensorProto
from test_row_fusion import Network, example

import tvmrt
from tvmrt.cli import memory_report
from tvmrt.compiler.codegen.mcu_families import FlashReads, find_mcu_family

CALL = "tvmrt_micro_weights_in_ram("
SIZE = r"tvmrt_micro_weights_in_ram\(\w+, (\d+)\)"


def separable():
    """A layer of 3 x 3, and pointwise layers with small activations."""
    net = Network(3)
    net.conv(48, 3, 2, pads=[1] * 4)
    for _ in range(2):
        net.conv(48, 3, depthwise=True, pads=[1] * 4)
        net.conv(48, 1)
    return net.model([1, 3, 16, 16], TensorProto.INT8)


def by_rows():
    """Three layers; by rows, the last two need less memory."""
    net = Network(3)
    for _ in range(3):
        net.conv(24, 3, pads=[1] * 4)
    return net.model([2, 3, 24, 24], TensorProto.INT8)


def depthwise():
    """Layers of 3 x 3 and of 5 x 5 with dilation."""
    net = Network(16)
    net.conv(16, 3, depthwise=True, pads=[1] * 4)
    net.conv(16, 5, dilation=2, depthwise=True, pads=[4] * 4)
    return net.model([1, 16, 16, 16], TensorProto.INT8)


def compiled(board="stm32l4plus", model=None, **options):
    options = {"interface_api": "c", "unpacked_api": True, "module_name": "net", **options}
    return tvmrt.compile(model or separable(), board=board, **options)


# networks of chains over whole rows and over patches, bytes added to the smallest plan, and copies
CHAINS = [(by_rows, 11_000, 2), (test_row_fusion.separable, 800, 2)]


def compiled_chain(network, more: int, board="stm32l4plus"):
    smallest = compiled(board, network(), ram=1 << 30).summary.row_plans[-1]
    assert smallest.chains and not smallest.weights_in_ram
    return compiled(board, network(), ram=smallest.ram_bytes + more)


def copies(library) -> int:
    """Return the number of layers whose functions copy weights."""
    return sum(text.count(CALL) for name, text in library.sources.files.items() if "lib" in name)


def cycles(library, folder: Path) -> int:
    library.export(folder / "net.tar")
    command = [sys.executable, "-m", "tvmrt", "inspect", "net.tar", "--board", "stm32l4plus"]
    done = subprocess.run([*command, "--json"], cwd=folder, capture_output=True, check=True)
    return json.loads(done.stdout)["networks"]["net"]["cycles"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("board", "network", "more"),
    [
        *((board, separable, 0) for board in ("stm32l4plus", "stm32f1", "samd21", "gd32vf103")),
        *((board, depthwise, 0) for board in ("stm32l4plus", "stm32f1", "samd21", "gd32vf103")),
        *(("stm32l4plus", *row[:2]) for row in CHAINS),
        ("gd32vf103", test_row_fusion.separable, 2_000),
    ],
)
def test_results_are_those_of_onnxruntime(board, network, more, tmp_path):
    inputs, expected = example(network())
    library = compiled_chain(network, more, board) if more else compiled(board, network())
    assert copies(library) > 0
    target = find_mcu_family(board).target.replace("cortex-m4f", "cortex-m4")
    machine = {**boards.BOARDS, **boards.MORE_BOARDS}[target]
    found = boards.run_network(machine, library, inputs, tmp_path)
    for key, array in expected.items():
        np.testing.assert_array_equal(found.outputs[key], array)


@pytest.mark.slow
@pytest.mark.parametrize("network", [separable, by_rows])
def test_copies_take_fewer_cycles(network, tmp_path):
    if reason := boards.BOARDS["cortex-m4"].missing_tool():
        pytest.skip(f"no {reason}")
    library = compiled(model=network())
    without = library.summary.row_plans[-1]
    assert not without.weights_in_ram
    fewer = compiled(model=network(), ram=without.ram_bytes)
    assert library.summary.arena_bytes <= 1.5 * without.ram_bytes
    assert fewer.summary.arena_bytes <= without.ram_bytes
    assert cycles(library, tmp_path) < 0.97 * cycles(fewer, tmp_path)


def test_the_plan_and_the_printed_line_name_the_copies(tmp_path):
    library = compiled()
    plans = library.summary.row_plans
    (used,) = (plan for plan in plans if plan.used)
    assert used.ram_bytes == library.summary.arena_bytes
    sizes = [int(n) for text in library.sources.files.values() for n in re.findall(SIZE, text)]
    assert used.weights_in_ram == sum(sizes) and len(sizes) == copies(library)
    library.export(tmp_path / "net.tar")
    with tarfile.open(tmp_path / "net.tar") as archive:
        printed = memory_report.memory_pairs(json.load(archive.extractfile("./metadata.json")))
    assert f"{sum(sizes):,} B of weights copied from flash before use" in printed["plan default"]
    assert printed["plan smallest"].endswith(f"--ram {plans[-1].ram_bytes}")


@pytest.mark.parametrize(("network", "more", "count"), CHAINS)
def test_a_chain_copies_the_weights_of_its_layers_once(network, more, count):
    """The copies stand before the loop over images, and all calls of the layers read them."""
    library = compiled_chain(network, more)
    (text,) = (each for each in library.sources.files.values() if "{layer, output rows" in each)
    body = text[text.index("{layer, output rows") :]
    before, loop = body.split("for (int image", 1)
    chain = loop[: loop.index("\n}")]
    names = re.findall(r"const void \*const (\w+) = tvmrt_micro_weights_in_ram\((\w+),", before)
    assert len(names) == count and CALL not in loop
    for copy, weights in names:
        assert re.search(rf"\b{copy},", chain) and not re.search(rf"\b{weights}\b", chain)


@pytest.mark.parametrize(("kernel", "rows", "count"), [(5, 16, 1), (3, 2, 0)])
def test_depthwise_layers_copy_weights_that_are_read_again(kernel, rows, count):
    """The kernel for 5 x 5 with dilation reads them for each pixel, that of 3 x 3 for two rows."""
    net = Network(16)
    net.conv(16, kernel, dilation=kernel // 2, depthwise=True, pads=[(kernel // 2) ** 2] * 4)
    assert copies(compiled(model=net.model([1, 16, rows, 32], TensorProto.INT8))) == count


@pytest.mark.parametrize(
    ("board", "options"),
    [
        (None, {"target": "cortex-m4"}),  # the memory of the board is unknown
        ("corstone300", {}),  # without wait states
        ("stm32l4plus", {"params": "file"}),
        ("stm32l4plus", {"pools": {"sram": 1 << 19}, "place": {"*_weights": "sram"}}),
    ],
    ids=str,
)
def test_no_copies_without_slow_flash(board, options):
    assert copies(compiled(board, **options)) == 0


def test_no_copies_of_weights_that_the_cache_holds():
    """The largest layer has 3 KiB of weights, the STM32H7 a cache of 16 KiB for data."""
    assert find_mcu_family("stm32h7").reads == FlashReads(10, 32, 16 << 10)
    assert copies(compiled("stm32h7")) == 0


def test_a_limit_between_the_plans_takes_the_copies_that_fit():
    plans = compiled().summary.row_plans
    limited = compiled(ram=plans[0].ram_bytes - 1)
    assert limited.summary.arena_bytes < plans[0].ram_bytes
    assert copies(limited) < copies(compiled())


def test_plans_are_listed_by_memory_and_the_fastest_is_named(tmp_path):
    """Three layers that run by rows: the plan of whole layers is larger and faster."""
    library = compiled(model=by_rows())
    plans = library.summary.row_plans
    sizes = [plan.ram_bytes for plan in plans]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == len(sizes)
    cheapest = min(plans, key=lambda plan: plan.instructions - plan.saved_instructions)
    library.export(tmp_path / "net.tar")
    with tarfile.open(tmp_path / "net.tar") as archive:
        printed = memory_report.memory_pairs(json.load(archive.extractfile("./metadata.json")))
    (fastest,) = (text for key, text in printed.items() if "fastest" in f"{key} {text}")
    assert fastest.startswith(f"{cheapest.ram_bytes:,} B")
