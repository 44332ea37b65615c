"""Test that the conformance kit finds about thirty faults of a device, each by the check made for
it.

That memory is never freed, ``test_conformance_kit.py`` has.
"""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path

import pytest

from tvmrt.conformance import Finding, run_checks
from tvmrt.conformance.device_under_test import load_device
from tvmrt.libinfo import find_include_path

pytest.importorskip("onnxruntime")

SOURCE = Path(__file__).parent / "matmul_device.c"
LAYERS, BATCHES, RESIDUAL = "MatMul, Add, Relu: layers", "MatMul: batches", "MatMul, Add, Add"
OPEN = "MatMul, Add, Relu: open rows"

# Fault of the mutant, the check that finds it, the networks that suffice, and the reported text.
MUTANTS = {
    1: ("right operands of three dimensions", "operators", BATCHES, "of the largest value"),
    2: ("any bias as one a column", "forms", "MatMul", "of the largest value"),
    4: ("one memory for all regions", "threads", RESIDUAL, "differs from that of one thread"),
    5: ("no bias", "operators", RESIDUAL, "of the largest value"),
    6: ("computes in its input", "tensors", "MatMul: constant", "writes to its inputs"),
    7: ("a buffer of 64", "operators", "MatMul: long sums", "of the largest value"),
    8: ("a tile of 64 rows", "operators", "MatMul: many rows", "MatMul: many rows"),
    9: ("registers twice", "operators", "MatMul: constant", "names must be unique"),
    10: ("writes beyond its output", "tensors", "MatMul: constant", "writes outside"),
    11: ("never returns", "operators", "MatMul: constant", "not ended after"),
    12: ("reads where its first run did", "tensors", "MatMul: constant", "gives other results"),
    13: ("sizes of nothing", "operators", "MatMul: constant", "declares 3, 0 and 0 bytes"),
    14: ("unregisters itself in a run", "operators", "MatMul: constant", "free them first"),
    15: ("a stale context", "threads", RESIDUAL, "differs from that of one thread"),
    16: ("tensors at multiples of 64", "tensors", "MatMul: constant", "gives other results"),
    18: ("contexts share scratch memory", "threads", RESIDUAL, "differs from that of one thread"),
    19: ("forgets byte_offset", "tensors", "MatMul: constant", "gives other results"),
    20: ("no bias before a rectifier", "operators", LAYERS, "of the largest value"),
    21: ("packs twice", "sizes", OPEN, "of the largest value"),
    22: ("is prepared once", "sizes", OPEN, "it is prepared already"),
    23: ("leaves what does not fill a vector", "operators", "MatMul: constant", "MatMul: constant"),
    24: ("adds to its output", "tensors", "MatMul: constant", "gives other results"),
    25: ("writes where its first run did", "tensors", "MatMul: constant", "gives other results"),
    26: ("the first matrix of a batch", "operators", "MatMul: one matrix", "MatMul: one matrix"),
    27: ("one width for all products", "operators", "MatMul: ", "of the largest value"),
    28: ("the weights of the product before", "operators", "MatMul, Add", "of the largest value"),
    29: ("frees its graph twice", "sizes", OPEN, "process"),
    30: ("takes sums that broadcast", "operators", "Add", "of the largest value"),
    31: ("keeps eight bits", "operators", "MatMul: long sums", "of the largest value"),
    32: ("refuses at load what it took", "operators", "MatMul: constant", "no weights"),
}
# These crash, hang or do not register a device, so they run in their own process.
WILD = (9, 11, 13, 29)


def plugin(folder: Path, number: int) -> Path:
    path = folder / f"libtvmrt_device_matmul{number}.so"
    include = [f"-I{p}" for p in find_include_path()]
    command = ["cc", "-O1", "-std=c99", "-shared", "-fPIC", *include, f"-DMUTANT={number}"]
    subprocess.run([*command, str(SOURCE), "-o", str(path)], check=True)
    return path


def findings(path: Path, number: int) -> list:
    _, check, only, _ = MUTANTS[number]
    if number in WILD:
        try:
            return run_checks(str(path), [check], only=[only], seconds=4 if number == 11 else 120)
        except ValueError as problem:  # the runtime does not register it
            return [Finding(check, "device", False, str(problem))]
    module = importlib.import_module(f"tvmrt.conformance.{check}")
    return module.check(load_device(str(path)), 1e-3, (only,))


@pytest.mark.everyday(3)
@pytest.mark.parametrize("number", MUTANTS, ids=lambda n: f"{n}-{MUTANTS[n][0]}")
def test_mutant_is_found(number, tmp_path):
    failed = [f for f in findings(plugin(tmp_path, number), number) if not f.passed]
    assert any(MUTANTS[number][-1] in f"{f.subject}: {f.detail}" for f in failed), failed
