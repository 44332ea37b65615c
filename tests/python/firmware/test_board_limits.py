"""Costs of networks on boards do not exceed the limits next to the benchmark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from boards import BOARDS, run_network
from compilers import Build

import tvmrt

BENCH = Path(__file__).parents[2] / "bench" / "firmware" / "bench_firmware.py"
EVERYDAY = [
    ("sine_f32", "cortex-m4"),
    ("kws_int8", "cortex-m4"),
    ("kws_f32", "cortex-m55"),
    ("kws_int8", "rv32imac_zve32x"),
]
# The large float networks skip the board with the slowest emulation.
LARGE = ("ic_f32", "vww_f32", "ad_f32")
ALL = [
    (f"{name}_{kind}", target)
    for name in ("sine", "kws", "ic", "vww", "ad")
    for kind in ("f32", "int8")
    for target in ("cortex-m4", "cortex-m55", "riscv32")
    if target != "cortex-m55" or f"{name}_{kind}" not in LARGE
]
ALL += [(name, "rv32imac_zve32x") for name in ("ic_int8", "vww_int8")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"),
    [*EVERYDAY, *(pytest.param(*c, marks=pytest.mark.slow) for c in ALL if c not in EVERYDAY)],
)
def test_costs_have_not_grown(name, target):
    pytest.importorskip("onnxruntime")
    if BOARDS[target].missing_tool():
        pytest.skip(f"{BOARDS[target].missing_tool()} is not installed")
    command = [sys.executable, str(BENCH), name, "--target", target, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


TEMPORAL = ("tc_resnet", "wake_word_rows", "separable3", "separable3_rows", "tcn",
            "dilated_separable", "matchbox", "matchbox_columns", "sensors_rows")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", TEMPORAL)
def test_convolutions_over_time_take_at_most_one_instruction_per_mac(name):
    pytest.importorskip("onnxruntime")
    if BOARDS["cortex-m55"].missing_tool():
        pytest.skip(f"{BOARDS['cortex-m55'].missing_tool()} is not installed")
    command = [sys.executable, str(BENCH.with_name("temporal.py")), name, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("error 0\n"), done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m4", "cortex-m55", "riscv32"])
def test_no_kind_of_layer_is_much_slower_than_similar_ones(target):
    pytest.importorskip("ai_edge_litert")
    if BOARDS[target].missing_tool():
        pytest.skip(f"{BOARDS[target].missing_tool()} is not installed")
    command = [sys.executable, str(BENCH.with_name("layer_costs.py")), "--target", target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kws_int8", "ic_int8"])
def test_two_roundings_cost_at_most_a_tenth_more_on_helium(name, tmp_path):
    pytest.importorskip("onnxruntime")
    board = BOARDS["cortex-m55"]
    if board.missing_tool():
        pytest.skip(f"{board.missing_tool()} is not installed")
    sys.path.insert(0, str(BENCH.parent))
    import own_networks

    model = own_networks.build(name)
    counts = []
    for requantize in ("float", "fixed-point"):
        library = tvmrt.compile(
            model, target="cortex-m55", interface_api="c", unpacked_api=True, module_name="net",
            requantize=requantize,
        )  # fmt: skip
        folder = tmp_path / requantize
        folder.mkdir()
        inputs = own_networks.example(model, 99)
        counts.append(run_network(board, library, inputs, folder, True).instructions)
    assert counts[1] <= 1.1 * counts[0], counts


# Clang 14 has no short calls on RV32, and no functions that save registers.
CLANGS = [
    ("clang", "cortex-m4"),
    pytest.param("zig", "cortex-m4", marks=pytest.mark.slow),
    pytest.param("zig", "riscv32", marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("compiler", "target"), CLANGS)
def test_clang_code_is_close_to_gcc(compiler, target):
    """The limits are GCC's; the archive's own Makefile chooses the options."""
    pytest.importorskip("onnxruntime")
    build = Build(compiler, "-Os", "plain", target)
    if build.missing_tool():
        pytest.skip(f"{build.missing_tool()} is not installed")
    command = [sys.executable, str(BENCH), "kws_int8", "--target", build.target, "--check"]
    command += ["--cc", " ".join(build.command()), "--slack", "1.15"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
