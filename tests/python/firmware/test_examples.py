"""The firmware example: built by its Makefile, run in QEMU, with the digits and any network."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from boards import BOARDS, run_image
from firmware_program import DIGITS
from onnx import helper
from onnx_graph import model

EXAMPLE = Path(__file__).parents[3] / "examples" / "firmware"
TOOLS = {
    "cortex-m0plus": ("arm-none-eabi-gcc", "qemu-system-arm"),
    "cortex-m4": ("arm-none-eabi-gcc", "qemu-system-arm"),
    "cortex-m7": ("arm-none-eabi-gcc", "qemu-system-arm"),
    "cortex-m55": ("arm-none-eabi-gcc", "qemu-system-arm"),
    "riscv32": ("riscv64-unknown-elf-gcc", "qemu-system-riscv32"),
}


@pytest.fixture
def board(request) -> str:
    """Return the board of the test's parameter; a Cortex-M4 otherwise."""
    name = getattr(request, "param", "cortex-m4")
    for tool in ("make", *TOOLS[name]):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    return name


NEIGHBOURS = {"cortex-m0plus", "cortex-m7"}  # they differ from another board in a few lines
PLACES = sorted({*TOOLS} - NEIGHBOURS)
every_board = pytest.mark.parametrize("board", PLACES, indirect=True)


def make(folder: Path, *arguments: str, ends_well: bool = True, example: Path = EXAMPLE) -> str:
    """Return the output of make, both streams together."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["make", "-s", "-C", example, f"BUILD={folder}", f"PYTHON={sys.executable}", *arguments],
        env=environment, text=True, timeout=600, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert (done.returncode == 0) == ends_well, done.stdout
    return done.stdout


@pytest.mark.everyday(1)
@pytest.mark.parametrize(
    "board, kind",
    [
        *((board, kind) for board in TOOLS if board not in NEIGHBOURS for kind in ("f32", "int8")),
        ("cortex-m0plus", "int8"),
        ("cortex-m7", "f32"),
    ],
    indirect=["board"],
)
def test_prints_the_right_digits(board, kind, tmp_path):
    printed = make(tmp_path, "run", f"BOARD={board}", f"MODEL={DIGITS}/digits_{kind}.onnx")
    with np.load(DIGITS / "digits_test.npz") as archive:
        labels = archive["labels"][10:20]
    lines = [f"image {i}: {label}" for i, label in enumerate(labels)]
    assert printed.splitlines() == [*lines, "10 of 10 right"]


@pytest.mark.slow
def test_make_rebuilds_after_changed_options(board, tmp_path):
    def made(*arguments):
        return make(tmp_path, "all", *arguments), (tmp_path / "net.tar").stat().st_mtime_ns

    network = f"MODEL={DIGITS}/digits_int8.onnx"
    _, first = made(network)
    assert made(network)[1] == first
    pools = "OPTIONS=--pool ram=9999@.bss.noinit.ram --place 'conv*=ram'"
    _, second = made(network, pools)
    assert second > first
    assert "9999" in (tmp_path / "net/metadata.json").read_text()
    assert made(network, pools)[1] == second
    assert made(f"MODEL={DIGITS}/digits_f32.onnx")[1] > second


@pytest.mark.slow
def test_own_board_is_two_files(board, tmp_path):
    copy = shutil.copytree(EXAMPLE, tmp_path / "firmware", ignore=lambda *_: ["build"])
    shutil.copytree(DIGITS, tmp_path / "digits")
    boards = copy / "boards"
    shutil.copy(boards / f"{board}.ld", boards / "mine.ld")
    options = (boards / f"{board}.mk").read_text(encoding="utf-8")
    without_fpu = options.replace("-mfloat-abi=hard -mfpu=fpv4-sp-d16", "-mfloat-abi=soft")
    assert without_fpu != options
    (boards / "mine.mk").write_text(without_fpu, encoding="utf-8")
    printed = make(tmp_path / "out", "run", "BOARD=mine", example=copy)
    assert printed.endswith("10 of 10 right\n")


def golden_file(network: onnx.ModelProto, inputs: dict[str, np.ndarray], folder: Path) -> list[str]:
    """Return arguments of make for a network and onnxruntime's results for the inputs."""
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(network.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    outputs = {f"out:{n}": v for n, v in zip(names, session.run(None, inputs))}
    onnx.save(network, folder / "net.onnx")
    np.savez(folder / "net.npz", **inputs, **outputs)
    return [f"MODEL={folder}/net.onnx"]


@pytest.mark.slow
@every_board
def test_takes_any_network_by_its_path(board, tmp_path):
    """Several inputs and outputs of several types, and libm functions that set errno."""
    node = helper.make_node
    nodes = [
        node("Acos", ["a/b:0"], ["angle"]),
        node("Tan", ["a/b:0"], ["tangent"]),
        node("Add", ["counts", "counts"], ["sums"]),
        node("ArgMax", ["a/b:0"], ["output"], axis=1),
        node("Not", ["flags"], ["unset"]),
    ]
    inputs = {
        "a/b:0": np.array([[0.5, -0.25, 2.0, 1e-7]], np.float32),
        "counts": np.array([5, -(1 << 40)], np.int64),
        "flags": np.array([True, False, True]),
    }
    network = model(nodes, inputs, [n.output[0] for n in nodes])
    printed = make(
        tmp_path / "build", "check", f"BOARD={board}", *golden_file(network, inputs, tmp_path)
    )
    assert {"sums: equal", "unset: equal", "output: equal"} <= set(printed.splitlines())


@pytest.mark.slow
def test_wrong_output_is_named(board, tmp_path):
    network = model([helper.make_node("Neg", ["x"], ["y"])], {"x": np.zeros(3, np.int8)}, ["y"])
    onnx.save(network, tmp_path / "net.onnx")
    np.savez(
        tmp_path / "net.npz", x=np.array([1, 2, 3], np.int8), **{"out:y": np.int8([-1, 0, -3])}
    )
    arguments = [f"BOARD={board}", f"MODEL={tmp_path}/net.onnx"]
    assert "y: wrong: 1 of 3 elements" in make(tmp_path / "b", "check", *arguments, ends_well=False)


@pytest.mark.slow
def test_replays_a_network(board, tmp_path):
    network = model(
        [helper.make_node("Neg", ["x"], ["y"], "turn")], {"x": np.zeros(3, np.int8)}, ["y"]
    )
    arguments = golden_file(network, {"x": np.array([1, 2, 3], np.int8)}, tmp_path)
    printed = make(tmp_path / "build", "replay", f"BOARD={board}", *arguments)
    assert "output y int8[3]\n-1 -2 -3\n" in printed
    assert "all 2 tensors are bit-identical to this machine's" in printed
    assert "turn" in printed


RESET = """\
#include <stdint.h>
#include <tvmgen_network.h>

#include "boards/board.h"

static float image[64], probabilities[10];

int main(void) {
  struct tvmgen_network_inputs inputs = {image};
  struct tvmgen_network_outputs outputs = {probabilities};
  struct tvmgen_network_step_state state;
  if (tvmgen_network_trace.header.magic == TVMRT_TRACE_MAGIC) { /* the second start */
    return board_save("trace.bin", &tvmgen_network_trace, sizeof(tvmgen_network_trace));
  }
  if (tvmgen_network_step_begin(&state, &inputs, &outputs) != 0) return 1;
  if (tvmgen_network_step(&state, 2) != TVMGEN_NETWORK_STEP_MORE) return 2;
  *(volatile uint32_t*)0xE000ED0C = 0x05FA0004; /* what a watchdog does: reset */
  for (;;) {
  }
}
"""


@pytest.mark.slow
def test_records_survive_a_reset(board, tmp_path):
    """Start-up code clears variables, but not the section of the record and the workspace."""
    build, boards = Path(f"{tmp_path}-trace"), EXAMPLE / "boards"
    make(tmp_path, "all", "APP=any_network", "TRACE=1", f"MODEL={DIGITS}/digits_f32.onnx")
    (tmp_path / "main.c").write_text(RESET)
    sources = [tmp_path / "main.c", *(boards / f"{n}.c" for n in ("semihost", "start_cortexm"))]
    includes = [EXAMPLE, build / "net/codegen/host/include", build / "net/runtime/include"]
    (tmp_path / "cycles.c").write_text("unsigned long tvmrt_platform_cycles(void) { return 0; }\n")
    machine = BOARDS[board]
    subprocess.run(
        [machine.compiler, "--specs=picolibc.specs", "-Os", *machine.flags, "-nostartfiles",
         f"-L{boards}", "-T", "cortex-m4.ld", *(f"-I{path}" for path in includes), *sources,
         tmp_path / "cycles.c", build / "net/libnetwork.a", "-lm", "-o", tmp_path / "reset.elf"],
        check=True,
    )  # fmt: skip
    run_image(machine, tmp_path / "reset.elf", tmp_path, timeout=600)
    header = struct.unpack_from("<IHHI20sIII", (tmp_path / "trace.bin").read_bytes())
    assert header[6] == 3, "records: the input, and the two operators before the reset"


@pytest.mark.slow
@pytest.mark.parametrize(
    "arrays, match",
    [
        pytest.param({"y": np.zeros(3, np.int8)}, "the .npz has no array x", id="name"),
        pytest.param({"x": np.zeros(4, np.int8)}, r"input x is int8[3], not int8[4]", id="shape"),
        pytest.param({"x": np.zeros(3, np.uint8)}, r"not uint8[3]", id="type"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(arrays, match, tmp_path):
    if shutil.which("make") is None or shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("make or arm-none-eabi-gcc is not installed")
    network = model([helper.make_node("Neg", ["x"], ["y"])], {"x": np.zeros(3, np.int8)}, ["y"])
    onnx.save(network, tmp_path / "net.onnx")
    np.savez(tmp_path / "net.npz", **arrays)
    printed = make(tmp_path / "build", "all", f"MODEL={tmp_path}/net.onnx", ends_well=False)
    assert match in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments, match",
    [
        pytest.param(["BOARD=z80"], "no board z80; the boards are cortex-m0plus", id="board"),
        pytest.param(["TOOL=z80"], "z80-gcc is not installed; README.md names", id="compiler"),
        pytest.param(["EMULATOR=qemu-system-z80"], "qemu-system-z80 is not installed", id="qemu"),
        pytest.param(["check", "INPUTS="], "there is none", id="inputs"),
        pytest.param(["MODEL=none.onnx"], "there is no network none.onnx", id="network"),
        pytest.param(["MODEL=my net.onnx"], "no path with spaces", id="spaces"),
    ],
)
def test_missing_tools_are_named(board, arguments, match, tmp_path):
    assert match in make(tmp_path, "run", *arguments, ends_well=False)


LONG = [
    "ad_autoencoder_int8", "ad_autoencoder_dynint8", "ad_autoencoder_f32", "kws_dscnn_f32",
    "resnet8_int8", "resnet8_qlinear", "resnet8_f32", "micro_kws_m_qoperator", "mnist_cnn_f32",
    "hand_keypoint_mlp_f32",
]  # fmt: skip


# one network on every board; the others, which have board tests of their own, in turn
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "board"),
    [
        *(("kws_dscnn_int8", board) for board in PLACES),
        *(
            pytest.param(name, PLACES[i % len(PLACES)], marks=pytest.mark.slow)
            for i, name in enumerate(LONG)
        ),
    ],
    indirect=["board"],
)
def test_gives_the_golden_outputs_of_real_networks(board, name, models_dir, tmp_path):
    """Keyword spotting, image classification, anomaly detection; integers are compared by bits."""
    if not (models_dir / f"{name}.onnx").is_file():
        pytest.skip(f"there is no {name}.onnx in TVMRT_MODELS")
    printed = make(tmp_path, "check", f"BOARD={board}", f"MODEL={models_dir}/{name}.onnx")
    assert "wrong" not in printed
    if name.endswith("_int8"):
        assert all(line.endswith(": equal") for line in printed.splitlines())
