"""Test that the conformance kit finds each fault of ``mutant_device.c`` and accepts the correct
device. The device is built once; an environment variable selects the fault."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tvmrt.conformance import CHECKS, run_checks
from tvmrt.libinfo import find_include_path

pytest.importorskip("onnxruntime")

SOURCE = Path(__file__).parent / "mutant_device.c"
CONV, MATMUL = "Conv of int8", "MatMul of int8"

# Fault of the mutant, the check that finds it, and the networks that suffice.
MUTANTS = {
    1: ("pads bytes with 0 in place of the zero point", "operators", CONV),
    2: ("rounds ties away from zero", "operators", MATMUL),
    3: ("ignores low and high", "operators", CONV),
    4: ("ignores the zero point of weights", "operators", "MatMul of uint8"),
    5: ("takes the first of the channels' scales", "operators", MATMUL),
    6: ("ignores the zero point of results", "operators", MATMUL),
    7: ("ignores the zero point of inputs", "operators", MATMUL),
    8: ("ignores the bias of bytes", "operators", CONV),
    9: ("cuts fractions off", "operators", "Add of int8"),
    10: ("loses the bias from channel 64 on", "operators", "Conv: "),
    11: ("sums up 256 products at most", "operators", "Gemm"),
    12: ("makes 0 of NaN in Relu", "operators", "Relu"),
    13: ("leaks weights of reduced precision", "reduced", "MatMul"),
    14: ("is right at the largest size alone", "sizes", "Relu"),
    15: ("ignores dilations", "operators", "Conv: "),
    16: ("takes the pads of the other side", "operators", "Conv: "),
    17: ("ignores groups", "operators", "Conv: "),
    18: ("takes one stride for both axes", "operators", "Conv: "),
    19: ("reads the first image of a batch", "operators", "Conv: "),
    20: ("computes nothing in async_run", "asynchronous", "Add"),
    21: ("says in async_wait that a run has ended which has not", "asynchronous", "Add"),
    22: ("writes after a run was stopped", "asynchronous", "Add"),
    23: ("frees in post_run what release_graph frees", "asynchronous", "Add"),
    24: ("loses the bias in reduced precision", "reduced", "Gemm"),
    25: ("keeps four bits in float16", "reduced", "MatMul"),
    27: ("computes whole tiles of the largest size", "sizes", "Relu"),
    28: ("reads unsigned bytes as signed ones", "operators", "Conv of uint8"),
    29: ("scales sums that are to stay integers", "operators", "MatMulInteger"),
    30: ("wraps around in place of saturating", "operators", "Add of int8"),
    31: ("exchanges the scales of two tensors", "operators", "Add of int8"),
    32: ("adds a tensor to itself wrongly", "operators", "Add"),
    33: ("computes 4096 elements at most", "operators", "Relu"),
    34: ("forgets byte_offset", "tensors", "Relu"),
    35: ("writes an element beyond its result", "tensors", "Add"),
    36: ("has one memory for all regions", "threads", "MatMul, Add, Add"),
    37: ("makes 0 of NaN in products of elements", "operators", "Mul"),
    38: ("has one mark of the end for all runs", "asynchronous", "MatMul: "),
    39: ("keeps 16 bits of a sum", "operators", "MatMulInteger"),
    40: ("leaks memory at each change of sizes", "sizes", "MatMul: "),
    41: ("leaks what allocate reserved", "leaks", "MatMul: "),
    42: ("keeps eight bits of a sum of floats", "operators", "MatMul: "),
    43: ("fails in optimize_graph", "reduced", "MatMul: "),
    44: ("takes one dilation for both axes", "operators", "Conv: "),
    45: ("keeps an operand of its first run", "operators", "MatMul: "),
    46: ("leaks memory in async_run", "leaks", "MatMul: "),
    47: ("has kernels of five rows and columns at most", "operators", "Conv: "),
    48: ("takes the first of the columns' zero points", "operators", "MatMul of uint8"),
    49: ("has scales of 16 channels", "operators", CONV),
    50: ("makes 0 of NaN times 0", "operators", "Mul"),
}


@pytest.fixture(scope="module")
def plugin(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("mutants") / "libtvmrt_device_mutant.so"
    include = [f"-I{folder}" for folder in find_include_path()]
    flags = ["-O2", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, *include, SOURCE, "-o", path, "-lpthread", "-lm"], check=True)
    return str(path)


@pytest.mark.slow
def test_correct_device_passes(plugin, monkeypatch):
    monkeypatch.delenv("TVMRT_MUTANT", raising=False)
    found = run_checks(plugin)
    assert not [finding for finding in found if not finding.passed]
    assert {finding.check for finding in found} == set(CHECKS)


@pytest.mark.everyday(1)
@pytest.mark.parametrize("number", MUTANTS, ids=lambda n: f"{n}-{MUTANTS[n][0]}")
def test_mutant_is_found(number, plugin, monkeypatch):
    _, check, only = MUTANTS[number]
    monkeypatch.setenv("TVMRT_MUTANT", str(number))
    assert [f for f in run_checks(plugin, [check], only=[only], seconds=300) if not f.passed]


@pytest.mark.slow
@pytest.mark.parametrize(("check", "only"), sorted({row[1:] for row in MUTANTS.values()}))
def test_correct_device_passes_all_mutant_checks(check, only, plugin, monkeypatch):
    """Make sure that no mutant is found because of a fault of the kit."""
    monkeypatch.delenv("TVMRT_MUTANT", raising=False)
    found = run_checks(plugin, [check], only=[only], seconds=300)
    assert found
    assert not [finding for finding in found if not finding.passed]
