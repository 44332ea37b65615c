"""One library for several AArch64 levels on emulated processors: results, dispatch, errors."""

from __future__ import annotations

import subprocess
from pathlib import Path

import networks_under_qemu
import numpy as np
import pytest

import tvmrt
from tvmrt.compiler.codegen.target import ARM_LEVELS

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_int8.onnx"
LEVELS = {
    "neon": "cortex-a53",
    "dot": "neoverse-n1",
    "i8mm": "max",
}  # level: a processor whose highest level it is


@pytest.fixture(scope="module")
def fat(network, tmp_path_factory) -> Path:
    """The library with all levels."""
    path = tmp_path_factory.mktemp("arm") / "net.so"
    library = tvmrt.compile(network[0], target="aarch64-linux")
    assert library.manifest["levels"] == list(LEVELS)
    try:
        library.export_library(path)
    except tvmrt.error.CompileError as problem:
        pytest.skip(str(problem))
    return path


@pytest.fixture(scope="module")
def results(fat, network, machines):
    """Return the outputs of a level on its processor."""
    known: dict[str, dict[str, np.ndarray]] = {}

    def run(level: str) -> dict[str, np.ndarray]:
        if level not in known:
            with machines.serve("aarch64-linux", LEVELS[level]) as port:
                found = networks_under_qemu.run(port, fat, network[1])
                known[level] = dict(zip(network[2], found))
        return known[level]

    return run


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_every_level_computes_the_network_on_its_processor(level, results, network):
    """Compare with onnxruntime: integers bitwise; floats are equal on all levels."""
    found, narrow = results(level), results("neon")
    for name, wanted in network[2].items():
        if wanted.dtype == np.float32:
            np.testing.assert_allclose(found[name], wanted, rtol=2e-5, atol=2e-5, err_msg=name)
            np.testing.assert_array_equal(found[name], narrow[name], err_msg=name)
        else:
            np.testing.assert_array_equal(found[name], wanted, err_msg=name)


@pytest.mark.parametrize("level", LEVELS)
def test_the_widest_level_of_the_processor_is_taken(level, fat, program, machines):
    done = machines.run("aarch64-linux", LEVELS[level], program, fat)
    assert (done.returncode, done.stdout) == (0, level)
    done = machines.run("aarch64-linux", LEVELS[level], program, fat, TVMRT_LEVEL="neon")
    assert (done.returncode, done.stdout) == (0, "neon")


@pytest.mark.parametrize(
    ("forced", "sentence"),
    [
        (
            "i8mm",
            "TVMRT_LEVEL demands i8mm, which the processor lacks: this library has code for neon, "
            "dot, i8mm, and this processor has neon, dot; unset TVMRT_LEVEL or name another",
        ),
        (
            "v3",
            "TVMRT_LEVEL demands v3, which is not there: this library has code for neon, dot, "
            "i8mm, and this processor has neon, dot; unset TVMRT_LEVEL or name another",
        ),
    ],
)
def test_unsupported_forced_level_is_reported(forced, sentence, fat, program, machines):
    done = machines.run("aarch64-linux", "neoverse-n1", program, fat, TVMRT_LEVEL=forced)
    assert (done.returncode, done.stdout) == (1, sentence)


@pytest.mark.slow
def test_single_level_library_is_rejected_on_an_older_processor(program, machines):
    path = program.parent / "dot.so"
    made = tvmrt.compile(DIGITS, target="aarch64-linux", levels=["dot"])
    made.export_library(path)
    done = machines.run("aarch64-linux", "cortex-a53", program, path)
    assert (done.returncode, done.stdout) == (
        1, "this library has code for dot, and this processor has neon; compile the network with a "
        "level that it has",
    )  # fmt: skip
    assert machines.run("aarch64-linux", "max", program, path).stdout == "dot"


def test_level_instructions_are_only_in_its_functions(fat):
    """Code that runs before dispatch must not need these instructions."""
    command = ["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", str(fat)]
    code = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, set[str]] = {"sdot": set(), "smmla": set()}
    function = ""
    for line in code.splitlines():
        if line.endswith(">:"):
            function = line.split("<")[1][:-2]
        for instruction, functions in found.items():
            if f"\t{instruction}\t" in line:
                functions.add(function)
    assert found["sdot"]
    assert found["smmla"]
    for functions in found.values():
        assert all("tile_i8" in function for function in functions)


def test_level_table_matches_the_header():
    assert [level.name for level in ARM_LEVELS] == [*LEVELS, "bf16"]
