"""Weights outside the program: checked by the C interface, replaced by those of a new training."""

from __future__ import annotations

import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from firmware_program import DIGITS, build
from onnx import numpy_helper

import tvmrt
from tvmrt.cli import main
from tvmrt.cli.error_codes import EXPLANATIONS

CODES = {each.name.removeprefix("Network"): each.code for each in EXPLANATIONS}
# Reads a blob and prints the code of set_weights() for address + shift and the given size, those
# of a run and of a run in steps after it, and the outputs of an image if they are 0.
PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvmgen_digits.h>
static _Alignas(16) unsigned char blob[1 << 17];
static float image[64], output[10];
int main(int argc, char **argv) {
  struct tvmgen_digits_inputs inputs = {image};
  struct tvmgen_digits_outputs outputs = {output};
  struct tvmgen_digits_step_state state;
  const int shift = atoi(argv[2]), most = atoi(argv[3]), stride = argc > 4 ? atoi(argv[4]) : 0;
  FILE *file = fopen(argv[1], "rb");
  if (argc < 4 || file == NULL || fread(image, sizeof(image), 1, stdin) != 1) return 3;
  const size_t size = fread(blob + shift, 1, sizeof(blob) - (size_t)shift, file);
  fclose(file);
  const void *at = shift < 0 ? NULL : blob + shift;
  if (tvmgen_digits_run(&inputs, &outputs) == 0) return 4;
  if (stride > 0) { /* every bit of the header, and one in `stride` bits of the contents */
    int codes[8] = {0}, answers = 0;
    for (size_t bit = 0; bit < 8 * size; bit += bit < 256 ? 1 : (size_t)stride) {
      blob[bit / 8] ^= (unsigned char)(1 << bit % 8);
      const int code = (int)tvmgen_digits_set_weights(at, size) - 0x1103;
      ++codes[code >= 0 && code < 8 ? code : 7];
      answers += tvmgen_digits_run(&inputs, &outputs) == 0;
      blob[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (int i = 0; i < 8; ++i) printf("%d ", codes[i]);
    printf("%d\\n", answers);
    return tvmgen_digits_set_weights(at, size) == 0 ? 0 : 5;
  }
  const size_t given = most < 0 ? size : (size_t)most;
  printf("%d ", (int)tvmgen_digits_set_weights(at, given));
  printf("%d ", (int)tvmgen_digits_run(&inputs, &outputs));
  printf("%d", (int)tvmgen_digits_step_begin(&state, &inputs, &outputs));
  for (int i = 0; i < 10; ++i) printf(" %.9g", output[i]);
  printf("\\n");
  return 0;
}
"""


def train_again(source: Path, target: Path) -> Path:
    """Write a network with other weights, and other scales of them, but the same activations."""
    network, random = onnx.load(source), np.random.default_rng(7)
    quantized = any(t.data_type == onnx.TensorProto.INT8 for t in network.graph.initializer)
    for tensor in network.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.int8 and array.ndim > 1:
            array = random.permutation(array.reshape(-1)).reshape(array.shape)
        elif array.dtype == np.float32 and array.size > 1:
            # the scale of a quantised bias is a product with the scale of the weights
            noise = 0.8 if quantized else 1 + 0.4 * random.standard_normal(array.shape)
            array = (array * noise).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    onnx.save(network, target)
    return target


def compile_digits(network: Path, archive: Path, *options: str) -> Path:
    arguments = ["--target", "riscv32"]
    arguments += ["--interface-api", "c", "--params", "file", "--module-name", "digits", *options]
    assert main(["compile", str(network), "-o", str(archive), *arguments]) == 0
    return archive


def build_program(archive: Path, text: str = PROGRAM) -> Path:
    folder = archive.with_suffix("")
    folder.mkdir()
    subprocess.run(["tar", "-xmf", archive, "-C", folder], check=True)
    (folder / "main.c").write_text(text)
    code = folder / "codegen" / "host"
    sources = [folder / "main.c", *sorted((code / "src").glob("*.c"))]
    return build(folder, sources, [code / "include"], ("-std=c11", "-Wno-missing-prototypes"))


def call(program: Path, image, blob: Path, shift: int = 0, most: int = -1, *more: int) -> list:
    done = subprocess.run(
        [program, blob, str(shift), str(most), *map(str, more)],
        input=image.tobytes(), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.decode().split()


def refused(name: str) -> list[str]:
    """Return the codes of set_weights(), run() and step_begin(): no run answers."""
    return [str(CODES[name]), *[str(CODES["WeightsNotLoaded"])] * 2]


@pytest.fixture(scope="module", params=["f32", "int8"])
def flashed(request, tmp_path_factory) -> tuple[Path, Path, Path]:
    """Return a network, its archive and a program that is not built again."""
    folder = tmp_path_factory.mktemp(f"flashed_{request.param}")
    network = DIGITS / f"digits_{request.param}.onnx"
    archive = compile_digits(network, folder / "net.tar")
    return network, archive, build_program(archive)


@pytest.mark.everyday(1)
def test_a_flashed_program_computes_with_the_weights_of_a_new_training(
    flashed, images, golden, tmp_path
):
    network, archive, program = flashed
    again = train_again(network, tmp_path / "again.onnx")
    blob = tmp_path / "new.bin"
    assert main(["weights", str(again), "--for", str(archive), "-o", str(blob)]) == 0
    for weights, source in ((archive.with_suffix(".bin"), network), (blob, again)):
        printed = call(program, images[3], weights)
        assert printed[:3] == ["0", "0", "0"]
        expected = golden(source)[3]
        np.testing.assert_allclose(np.float32(printed[3:]), expected, rtol=2e-5, atol=1e-7)
    assert not np.allclose(golden(network)[3], golden(again)[3], rtol=0.1, atol=0)


@pytest.mark.everyday(1)
def test_damaged_weights_are_refused_with_the_documented_code(flashed, images, tmp_path):
    network, archive, program = flashed
    own = archive.with_suffix(".bin")
    data = own.read_bytes()
    assert struct.unpack_from("<IIQII", data)[3:] == (len(data) - 32, zlib.crc32(data[32:]))
    for shift in (1, 4, 8):
        assert call(program, images[0], own, shift)[:3] == refused("WeightsMisplaced")
    for most in (0, 31, 32, len(data) - 1):
        assert call(program, images[0], own, 0, most)[:3] == refused("WeightsDamaged")
    assert call(program, images[0], own, 16)[:3] == ["0", "0", "0"]  # aligned elsewhere
    stride = 41 if network.name.endswith("int8.onnx") else 997
    *codes, answers = map(int, call(program, images[0], own, 0, -1, stride))
    content_bits = -(-(8 * len(data) - 256) // stride)
    # NotLoaded, DimensionOutOfRange, Misplaced, Unknown, Mismatch, Damaged, others, none
    assert codes == [0, 0, 0, 128, 96, 32 + content_bits, 0, 0]
    assert answers == 0
    text = tmp_path / "text.bin"
    text.write_bytes(b"no weights " * 9)
    assert call(program, images[0], text)[:3] == refused("WeightsUnknown")


@pytest.mark.slow
def test_weights_of_another_network_are_refused(flashed, images, tmp_path):
    network, _, program = flashed
    kind = "int8" if network.name.endswith("f32.onnx") else "f32"
    other = compile_digits(DIGITS / f"digits_{kind}.onnx", tmp_path / "other.tar")
    printed = call(program, images[0], other.with_suffix(".bin"))
    assert printed[:3] == refused("WeightsMismatch")


@pytest.mark.slow
def test_a_network_that_needs_another_program_gets_no_weights(flashed, tmp_path, capsys):
    network, archive, _ = flashed
    changed = onnx.load(network)
    node = next(each for each in changed.graph.node if each.op_type == "Conv")
    if node.input[0].endswith("dequantise"):  # the scale of the input, which is in the code
        scale = next(n.input[1] for n in changed.graph.node if n.op_type == "QuantizeLinear")
        weights = next(t for t in changed.graph.initializer if t.name == scale)
        weights.CopyFrom(numpy_helper.from_array(np.float32(0.005), scale))
    else:
        softmax = next(n for n in changed.graph.node if n.op_type == "Softmax")
        softmax.op_type = "LogSoftmax"
    onnx.save(changed, tmp_path / "changed.onnx")
    target = tmp_path / "out.bin"
    arguments = ["weights", str(tmp_path / "changed.onnx"), "--for", str(archive)]
    assert main([*arguments, "-o", str(target)]) == 2
    error = capsys.readouterr().err
    assert "needs another program" in error and "scales" in error
    assert not target.exists()


@pytest.mark.slow
def test_archives_without_replaceable_weights_are_refused(tmp_path, capsys):
    network = str(DIGITS / "digits_f32.onnx")
    archive = str(
        compile_digits(DIGITS / "digits_f32.onnx", tmp_path / "a.tar", "--params", "flash")
    )
    assert not (tmp_path / "a.bin").exists()
    assert main(["weights", network, "--for", archive, "-o", str(tmp_path / "b.bin")]) == 2
    assert "--params file" in capsys.readouterr().err
    (tmp_path / "c.tar").write_bytes(b"x" * 5000)
    arguments = ["weights", network, "--for", str(tmp_path / "c.tar")]
    assert main([*arguments, "-o", str(tmp_path / "b.bin")]) == 2
    assert "not the archive" in capsys.readouterr().err
    with pytest.raises(ValueError, match='params="file"'):
        tvmrt.compile(network, target="cortex-m4", interface_api="c").weights_blob()
    with pytest.raises(ValueError, match='params="flash"'):
        tvmrt.compile_together({"a": network}, target="cortex-m4", params="file")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    ["a.tar --target cortex-m4 --interface-api c", "a.so"],
    ids=["archive", "library"],
)
def test_files_that_have_no_weights_are_not_replaced(options, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    network = str(DIGITS / "digits_f32.onnx")
    path = tmp_path / ("a.params" if options == "a.so" else "a.bin")
    path.write_text("mine")
    command = ["compile", network, "--params", "file", "-o", *options.split()]
    assert main(command) == 2
    assert f"{path.name} would be replaced" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "mine"
    path.unlink()
    assert main(command) == 0
    written = path.read_bytes()
    assert main(command) == 0
    assert path.read_bytes() == written


@pytest.mark.slow
def test_weights_in_a_pool_are_copied_from_the_blob(images, golden, tmp_path):
    network = DIGITS / "digits_int8.onnx"
    archive = compile_digits(
        network, tmp_path / "net.tar", "--pool", "ram=65536@.bss.ram",
        "--place", "conv2_weights=ram", "--place", "dense_*=ram",
    )  # fmt: skip
    text = PROGRAM.replace(
        '  printf("%d ", (int)tvmgen_digits_run(',
        '  printf("%d ", (int)tvmgen_digits_run(&inputs, &outputs));\n'
        '  printf("%d ", (int)tvmgen_digits_load());\n'
        '  printf("%d ", (int)tvmgen_digits_run(',
        1,
    )
    program, own = build_program(archive, text), archive.with_suffix(".bin")
    printed = call(program, images[1], own)
    assert printed[:5] == ["0", str(CODES["WeightsNotLoaded"]), "0", "0", "0"]
    np.testing.assert_allclose(np.float32(printed[5:]), golden(network)[1], rtol=2e-5, atol=1e-7)
    assert call(program, images[1], own, 4)[2] == str(CODES["WeightsNotLoaded"])


@pytest.mark.slow
@pytest.mark.parametrize("board", ["cortex-m4", "riscv32"])
def test_the_example_runs_an_image_with_other_weights(board, tmp_path):
    import shutil

    from test_examples import TOOLS, make

    for tool in ("make", *TOOLS[board]):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    network = DIGITS / "digits_int8.onnx"
    arguments = ["run", f"BOARD={board}", "APP=digits"]
    assert "10 of 10 right" in make(tmp_path / "b", *arguments, "WEIGHTS=own")
    image = (tmp_path / "b" / "digits.elf").read_bytes()
    again = train_again(network, tmp_path / "again.onnx")
    blob = tmp_path / "new.bin"
    assert (
        main(["weights", str(again), "--for", str(tmp_path / "b" / "net.tar"), "-o", str(blob)])
        == 0
    )
    printed = make(tmp_path / "b", *arguments, f"WEIGHTS={blob}")
    assert (tmp_path / "b" / "digits.elf").read_bytes() == image
    with np.load(DIGITS / "digits_test.npz") as archive:
        pixels = archive["images"][10:20].astype(np.float32).reshape(-1, 1, 1, 8, 8) / 16
    session = pytest.importorskip("onnxruntime").InferenceSession(again)
    digits = [int(session.run(None, {"image": each})[0].argmax()) for each in pixels]
    rows = [row.split(": ")[1].split(",")[0] for row in printed.splitlines() if "image" in row]
    assert [int(row) for row in rows] == digits
    data = bytearray(blob.read_bytes())
    data[-3] ^= 4
    blob.write_bytes(data)
    refusal = make(tmp_path / "b", *arguments, f"WEIGHTS={blob}", ends_well=False)
    assert str(CODES["WeightsDamaged"]) in refusal and "right" not in refusal
