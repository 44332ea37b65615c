"""Static programs with musl: the commands of docs/how-to/ship-to-other-machines.md."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tvmrt
from tvmrt.compiler.export import formats

pytest.importorskip("ziglang")
ort = pytest.importorskip("onnxruntime")
ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "ship-to-other-machines.md"
DIGITS = ROOT / "examples" / "digits" / "digits_f32.onnx"
EMULATORS = {"x86_64-linux-musl": "", "aarch64-linux-musl": "qemu-aarch64"}
INTERPRETER = 3  # ELF program header that names a dynamic loader
MAIN = """
#include <stdio.h>
#include "digits.h"
int main(void) {
  static float image[TVMGEN_DIGITS_IMAGE_SIZE / sizeof(float)];
  static float scores[TVMGEN_DIGITS_OUTPUT_SIZE / sizeof(float)];
  struct tvmgen_digits_inputs inputs = {image};
  struct tvmgen_digits_outputs outputs = {scores};
  for (unsigned i = 0; i < sizeof(image) / sizeof(float); i++) image[i] = (float)(i % 7) / 7;
  if (tvmgen_digits_run(&inputs, &outputs) != 0) return 1;
  for (unsigned i = 0; i < sizeof(scores) / sizeof(float); i++) printf("%.9g\\n", scores[i]);
  return 0;
}
"""


def _program_headers(data: bytes) -> list[int]:
    """Return the kinds of the program headers of a 64-bit ELF file."""
    (at,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<2H", data, 54)
    return [struct.unpack_from("<I", data, at + i * size)[0] for i in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("triple", EMULATORS)
def test_static_program_is_correct(triple, tmp_path):
    if formats.exporter(".c") is None:
        pytest.skip("no plug-in writes one C file")
    emulator = EMULATORS[triple]
    if emulator and shutil.which(emulator) is None:
        pytest.skip(f"{emulator} is not installed")
    tvmrt.compile(DIGITS, target="cortex-m0plus", interface_api="c", module_name="digits").export(
        tmp_path / "digits.c"
    )
    (tmp_path / "main.c").write_text(MAIN)
    command = re.search(r"^python3 (-m ziglang .*-static.*)$", PAGE.read_text(), re.MULTILINE)[1]
    words = shlex.split(command.replace("aarch64-linux-musl", triple))
    subprocess.run([sys.executable, *words], check=True, cwd=tmp_path, env=os.environ)
    assert INTERPRETER not in _program_headers((tmp_path / "digits").read_bytes())
    run = [*([emulator] if emulator else []), str(tmp_path / "digits")]
    printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    session = ort.InferenceSession(DIGITS)
    (wanted,) = session.get_inputs()
    image = (np.arange(64) % 7).astype(np.float32).reshape(1, 1, 8, 8) / np.float32(7)
    (expected,) = session.run(None, {wanted.name: image})
    np.testing.assert_allclose(
        np.array(printed.split(), np.float32), expected[0], rtol=2e-5, atol=1e-6
    )
