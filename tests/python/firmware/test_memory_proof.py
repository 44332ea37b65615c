"""The stated sizes are exact: a network runs with just these bytes between canaries, and refuses
one byte less, a misaligned pool and tensors of other sizes without writing anything."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import astuple
from pathlib import Path

import boards
import numpy as np
import proof_program
import pytest
from firmware_program import DIGITS, build

import tvmrt
from tvmrt.cli.footprint import measure
from tvmrt.libinfo import find_include_path

sys.path.insert(0, str(Path(__file__).parents[1] / "networks"))
import golden_case

SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
MAX_BYTES = 1 << 19  # of a network's file, so that its C arrays stay readable
BOARD_BYTES = 3 << 20  # of RAM for a network
LIBC_STACK = 256  # of memcpy, expf and similar functions, which the bound does not include
POOLS = [
    pytest.param({"sram": 1 << 30}, id="one-pool"),
    pytest.param({"dtcm": 700, "sram": 1 << 30}, id="two-pools"),
]


def compile_network(network, target="cortex-m4", **options):
    return tvmrt.compile(
        network, target=target, runtime="crt", executor="aot", interface_api="c",
        unpacked_api=True, module_name="net", **options,
    )  # fmt: skip


def run_here(library, inputs, folder: Path) -> dict[str, np.ndarray]:
    """Run the program of proof_program on the host with sanitizers; return the outputs."""
    library.export(folder / "out")
    (folder / "main.c").write_text(proof_program.program_text(library))
    sources = [folder / "main.c", *sorted((folder / "out").glob("*.c"))]
    program = build(folder, sources, [folder / "out"], SANITIZERS)
    write_inputs(library, inputs, folder)
    done = subprocess.run([program], cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, f"claim {done.returncode}: {done.stderr.decode()[:2000]}"
    return read_outputs(library, folder)


def write_inputs(library, inputs, folder: Path) -> None:
    arrays = [np.ascontiguousarray(inputs[t.name], t.dtype) for t in library.summary.inputs]
    (folder / "inputs.bin").write_bytes(b"".join(a.tobytes() for a in arrays))


def read_outputs(library, folder: Path) -> dict[str, np.ndarray]:
    data, found, at = (folder / "outputs.bin").read_bytes(), {}, 0
    for t in library.summary.outputs:
        found[t.name] = np.frombuffer(data[at : at + t.nbytes], t.dtype).reshape(t.shape)
        at += t.nbytes
    return found


@pytest.mark.slow
@pytest.mark.parametrize("pools", POOLS)
def test_digits_run_in_just_the_stated_bytes(digits, images, golden, tmp_path, pools):
    library = compile_network(digits, pools=pools)
    found = run_here(library, {"image": images[0]}, tmp_path)
    expected = golden(digits)[:1]
    np.testing.assert_allclose(found["probabilities"], expected, rtol=2e-4, atol=1e-6)


def small_networks() -> list[str]:
    folder = os.environ.get("TVMRT_MODELS")
    names = golden_case.names()
    return [n for n in names if (Path(folder) / f"{n}.onnx").stat().st_size <= MAX_BYTES]


def every_network(test):
    """Test all of them; this takes long."""
    none = pytest.param("none", marks=pytest.mark.skip(reason="TVMRT_MODELS names no folder"))
    return pytest.mark.slow(pytest.mark.parametrize("name", small_networks() or [none])(test))


@every_network
def test_networks_run_in_just_the_stated_bytes(name, tmp_path):
    folder = Path(os.environ["TVMRT_MODELS"])
    inputs, golden = golden_case.load(folder, name)
    library = compile_network(folder / f"{name}.onnx", pools={"sram": 1 << 30})
    found = run_here(library, inputs, tmp_path)
    for key, expected in golden.items():
        golden_case.check(key, found[key], expected, golden_case.noise(folder, name))


def run_on_board(library, inputs, folder: Path) -> dict[str, np.ndarray]:
    """Run the program on its board, with a painted stack that must stay below the stated bound."""
    board = boards.BOARDS[library.target.name]
    folder.mkdir(exist_ok=True)
    library.export(folder / "net.tar")
    archive = boards.build_library(folder / "net.tar", board, folder / "net")
    (folder / "main.c").write_text(proof_program.program_text(library, boards.STACK_TEXT))
    includes = [folder / "net/codegen/host/include", folder / "net/runtime/include"]
    main, image = folder / "main.c", folder / "image.elf"
    boards.link_image(board, [main], [archive], image, includes)
    write_inputs(library, inputs, folder)
    boards.run_image(board, image, folder)
    used = int(np.fromfile(folder / "costs.bin", np.uint32)[0])
    code = [p for p in (folder / "net/codegen/host/src").glob("*.c") if "weights" not in p.name]
    stated = measure(code, includes, library.target).functions["tvmgen_net_run_checked"].stack
    assert stated.nbytes is not None, stated
    assert used <= stated.nbytes + LIBC_STACK
    return read_outputs(library, folder)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-m4", "riscv32"])
def test_the_stack_on_a_board_stays_below_the_stated_bound(
    digits, images, golden, tmp_path, target
):
    library = compile_network(digits, target, pools={"dtcm": 700, "sram": 1 << 30})
    found = run_on_board(library, {"image": images[0]}, tmp_path)
    expected = golden(digits)[:1]
    np.testing.assert_allclose(found["probabilities"], expected, rtol=2e-4, atol=1e-6)


@every_network
def test_networks_on_a_board_keep_to_the_stated_bytes(name, tmp_path):
    folder = Path(os.environ["TVMRT_MODELS"])
    inputs, golden = golden_case.load(folder, name)
    library = compile_network(folder / f"{name}.onnx", pools={"sram": 1 << 30})
    summary = library.summary
    needed = summary.arena_bytes + sum(t.nbytes for t in [*summary.inputs, *summary.outputs])
    if needed > BOARD_BYTES:
        pytest.skip(f"needs {needed} bytes of RAM")
    found = run_on_board(library, inputs, tmp_path)
    for key, expected in golden.items():
        golden_case.check(key, found[key], expected, golden_case.noise(folder, name))


CLAIM = """\
#define TVMGEN_NET_SRAM_CAPACITY 100
#include <tvmgen_net.h>
int main(void) { return 0; }
"""


@pytest.mark.parametrize("compiler", ["cc -std=c99", "cc -std=c11", "c++ -x c++ -std=c++11"])
def test_board_with_less_memory_is_refused_by_the_compiler(tmp_path, compiler):
    library = compile_network(DIGITS / "digits_f32.onnx", pools={"sram": 1 << 20})
    library.export(tmp_path / "out")
    (tmp_path / "main.c").write_text(CLAIM)
    flags = [f"-I{path}" for path in [tmp_path / "out", *find_include_path()]]
    command = [*compiler.split(), *flags, "-c", "main.c", "-o", "main.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "tvmgen_net_fits_sram" in done.stderr


def test_the_header_states_the_sizes_of_the_summary(tmp_path):
    library = compile_network(DIGITS / "digits_int8.onnx", pools={"dtcm": 700, "sram": 1 << 20})
    library.export(tmp_path / "out")
    text = (tmp_path / "out" / "tvmgen_net.h").read_text()
    summary = library.summary
    assert f"#define TVMGEN_NET_WORKSPACE_SIZE {summary.arena_bytes}\n" in text
    assert f"#define TVMGEN_NET_IO_SIZE_BYTES {256 + 40}\n" in text
    for pool in summary.pools:
        name = f"TVMGEN_NET_{pool.name.upper()}_WORKSPACE_POOL_SIZE"
        assert f"#define {name} {pool.used_bytes}\n" in text
        assert pool.lower_bound_bytes <= pool.used_bytes <= pool.capacity_bytes
    assert summary.lower_bound_bytes <= summary.arena_bytes


CODES = [
    "NetworkPoolMisplaced", "NetworkPoolTooSmall", "NetworkTensorMismatch",
    "NetworkWeightsNotLoaded", "NetworkDimensionOutOfRange",
]  # fmt: skip


@pytest.mark.parametrize("name", CODES)
def test_explain_decodes_the_codes(name):
    from tvmrt.cli.explain import explain

    title, cause, remedy = astuple(explain(name))
    assert title.startswith(f"kTvmError{name} (0x11")
    assert cause and remedy
