"""Costs of the firmware libraries stay below the committed figures and the required limits."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "bench" / "footprint"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_footprint", FOLDER / "bench_footprint.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def measured(bench):
    """Return sizes and instruction counts on a Cortex-M4."""
    missing = bench.board_of("cortex-m4").missing_tool()
    if missing is not None:
        pytest.skip(f"{missing} is not installed")
    return bench.measure(["cortex-m4"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "target",
    [
        "cortex-m4",
        pytest.param("cortex-m0plus", marks=pytest.mark.slow),
        pytest.param("cortex-m7", marks=pytest.mark.slow),
        pytest.param("cortex-m55", marks=pytest.mark.slow),
        "riscv32",
    ],
)
def test_footprint_has_not_grown(bench, request, target):
    missing = bench.board_of(target).missing_tool()
    if missing is not None:
        pytest.skip(f"{missing} is not installed")
    if target == "cortex-m4":
        found = request.getfixturevalue("measured")
    else:
        found = bench.measure([target])
    assert bench.grown(found, json.loads(bench.LIMITS.read_text())) == []


def test_footprint_growth_is_reported(bench):
    found = {"sizes": {"cortex-m4": {"graph": {"text": 9, "data": 0, "bss": 1}}}, "counts": {}}
    limits = {"cortex-m4 graph text": 8, "cortex-m4 graph data": 0}
    report = bench.grown(found, limits)
    assert [line.split(";")[0] for line in report] == [
        "cortex-m4 graph text is 9, the limit is 8",
        "cortex-m4 graph bss is 1, the limit is None",
    ]


@pytest.mark.parametrize(
    "part, text, bss",
    [
        pytest.param("aot", 0, 0, id="ahead-of-time-network"),
        pytest.param("workspace", 350, 0, id="workspace-calls"),
        pytest.param("lent", 480, 16, id="workspace-calls-in-lent-memory"),
        pytest.param("registry", 2500, 128, id="registry-modules-calls"),
        pytest.param("graph", 8000, 0, id="graph-executor"),
        pytest.param("graph_module", 8000, 128, id="graph-executor-module"),
    ],
)
def test_a_part_is_small(measured, part, text, bss):
    row = measured["sizes"]["cortex-m4"][part]
    assert row["text"] <= text
    assert row["data"] == 0
    assert row["bss"] <= bss
    assert set(row.get("needs", [])) <= {"memcpy", "memset", "memcmp"}


def test_workspace_calls_need_nothing_of_the_c_library_but_copies(measured):
    assert set(measured["sizes"]["cortex-m4"]["workspace"]["needs"]) <= {"memcpy", "memset"}


@pytest.mark.parametrize(
    "what, maximum",
    [
        ("packed call over direct call", 40),
        ("graph create", 40_000),
        ("graph run of 3 nodes over their kernels", 3 * 40),
        ("graph memory without its tensors", 3_000),
    ],
)
def test_a_step_is_short(measured, what, maximum):
    assert measured["counts"][what] <= maximum
