"""Without a limit, layers run by rows where that saves memory for few instructions."""

from __future__ import annotations

import json
import tarfile

import boards
import numpy as np
import pytest
from onnx import TensorProto
from test_row_fusion import Network, compile_within, example

from tvmrt.cli import memory_report

ONE_PER_CENT = 1.01
HUGE = 1 << 30


def inverted_residuals():
    """Wide blocks at a high resolution, as the first layers of MobileNetV2 have."""
    net = Network(3)
    net.conv(8, 3, 2, pads=[1] * 4)
    for _ in range(3):
        net.bottleneck(48, residual=True)
    net.conv(16, 3, 2, pads=[1] * 4)
    return net.model([1, 3, 64, 64], TensorProto.INT8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "share"), [("cortex-m0plus", 0.6), ("cortex-m4", 0.6), ("cortex-m55", 1.0)]
)
def test_the_default_saves_memory_for_one_per_cent(target, share, tmp_path):
    model = inverted_residuals()
    inputs, expected = example(model)
    ram, instructions = {}, {}
    for name, limit in {"default": None, "fastest": HUGE}.items():
        library = compile_within(model, limit, target)
        ram[name] = library.summary.arena_bytes
        found = boards.run_network(boards.BOARDS[target], library, inputs, tmp_path / name, True)
        instructions[name] = found.instructions
        for key, array in expected.items():
            np.testing.assert_array_equal(found.outputs[key], array)
    assert ram["default"] <= share * ram["fastest"]
    assert instructions["default"] < ONE_PER_CENT * instructions["fastest"]


def test_the_default_is_one_of_the_plans_that_it_lists():
    summary = compile_within(inverted_residuals(), None).summary
    sizes = [plan.ram_bytes for plan in summary.row_plans]
    assert sizes[0] > summary.arena_bytes >= sizes[-1] and summary.arena_bytes in sizes
    # a limit of its size gives the same plan, a limit of the first one whole layers
    assert compile_within(inverted_residuals(), summary.arena_bytes).summary.arena_bytes in sizes
    whole = compile_within(inverted_residuals(), sizes[0]).summary
    assert whole.arena_bytes == sizes[0]
    assert len(whole.operators) > len(summary.operators)


def test_the_fastest_the_used_and_the_smallest_plan_are_printed(tmp_path):
    library = compile_within(inverted_residuals(), None)
    library.export(tmp_path / "net.tar")
    with tarfile.open(tmp_path / "net.tar") as archive:
        metadata = json.load(archive.extractfile("./metadata.json"))
    printed = memory_report.memory_pairs(metadata)
    plans = library.summary.row_plans
    (used,) = (plan for plan in plans if plan.used)
    assert used.ram_bytes == library.summary.arena_bytes
    assert 0 < used.slowdown <= 0.01
    names = {"fastest": plans[0], "default": used, "smallest": plans[-1]}
    for name, plan in names.items():
        text = next(text for key, text in printed.items() if name in f"{key} {text}")
        assert text.startswith(f"{plan.ram_bytes:,} B"), name
        assert text.endswith("no option" if plan.used else f"--ram {plan.ram_bytes}")
        limited = compile_within(inverted_residuals(), plan.ram_bytes).summary
        assert limited.arena_bytes <= plan.ram_bytes
        assert limited.weights_bytes == library.summary.weights_bytes
        assert f"({100 * plan.slowdown:.1f} %)" in text or not plan.chains


def test_patches_that_repeat_no_work_are_part_of_the_default():
    """Each row of a depthwise layer and of the layer before it is large."""
    net = Network(480)
    net.conv(480, 7, depthwise=True)
    net.conv(160, 1)
    summary = compile_within(net.model([1, 480, 5, 5], TensorProto.INT8), None).summary
    (used,) = (p for p in summary.row_plans if p.ram_bytes == summary.arena_bytes)
    assert used.patches == (2,) and not used.surplus_macs


def test_a_pool_with_less_memory_takes_the_fastest_plan_that_fits():
    default = compile_within(inverted_residuals(), None).summary
    plans = compile_within(inverted_residuals(), HUGE).summary.row_plans
    sizes = [plan.ram_bytes for plan in plans]
    smaller = next(size for size in sizes if size < default.arena_bytes)
    within = compile_within(inverted_residuals(), None, pools={"sram": smaller}).summary
    assert within.pools[0].used_bytes == smaller


@pytest.mark.parametrize(
    "options",
    [{"record": True}, {"pools": {"dtcm": 4096, "sram": 1 << 20}},
     {"pools": {"sram": 1 << 20}, "place": {"t3": "sram"}}],
    ids=str,
)  # fmt: skip
def test_layers_whose_tensors_are_asked_for_stay_whole(options):
    whole = len(compile_within(inverted_residuals(), HUGE).summary.operators)
    found = compile_within(inverted_residuals(), None, **options).summary
    assert len(found.operators) == whole


def test_tables_of_8_bit_functions_run_by_rows():
    """A pointwise function of quantised values is a table; it may be part of a chain."""
    net = Network(4)
    net.conv(8, 3)
    net.conv(8, 3)
    zero = net.shift
    names = [net.last, "scale", zero, "scale", "x_zero"]
    net._add("QLinearSigmoid", names, domain="com.microsoft")
    net.shift = "x_zero"
    net.conv(4, 3)
    model = net.model([1, 4, 40, 10], TensorProto.INT8)
    plans = compile_within(model, HUGE).summary.row_plans
    names = {name for plan in plans for chain in plan.chains for name in chain}
    library = compile_within(model, plans[-1].ram_bytes)
    assert names and library.summary.arena_bytes == plans[-1].ram_bytes
    assert any("tvmrt_table_i8" in text for text in library.sources.files.values())


def test_a_pool_between_two_plans_takes_the_smaller_one():
    """The default stays with the fastest plan where the smaller one saves less than a tenth; a pool
    of fewer bytes has no choice."""
    net = Network(3)
    net.conv(16, 3, pads=[1] * 4)
    before = net.last, net.shift
    net.conv(16, 3, pads=[1] * 4)
    net.conv(16, 3, pads=[1] * 4)
    net.add(*before)
    net.block(32, 2)
    net.block(64, 2)
    model = net.model([1, 3, 16, 16], TensorProto.INT8)
    fastest, smaller = (p.ram_bytes for p in compile_within(model, HUGE).summary.row_plans[:2])
    assert 0.9 * fastest < smaller < fastest
    assert compile_within(model, None).summary.arena_bytes == fastest
    found = compile_within(model, None, pools={"sram": fastest - 1}).summary
    assert found.pools[0].used_bytes == smaller
