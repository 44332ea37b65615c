"""The integer kernels under the address and undefined-behaviour sanitisers: nothing is read or
written outside.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import test_conv_i8
import test_depthwise_i8
from i8_case import usable_formats
from kernel_build import BACKEND, PARALLEL, ROOT

from tvmrt.codegen.c.text import laid_out

pytestmark = pytest.mark.slow

MACHINE = {
    # by a model of the registers, as the sanitisers do not see what those read
    "amx": ["-march=native", "-include", str(Path(__file__).parent / "amx_model.h")],
    "vnni512": ["-march=native"],
    "avxvnni": ["-mavx2", "-mfma", "-mavx512vl", "-mavx512vnni"],
    "avx2": ["-mavx2", "-mfma"],
    "plain": [],
}
FLAGS = [
    "-std=c99",
    "-O1",
    "-g",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-DTASKS=2",
    *PARALLEL,
]


CASES = {f"conv-{fmt}": (test_conv_i8, fmt) for fmt in usable_formats()} | {
    f"depthwise-{fmt}": (test_depthwise_i8, fmt) for fmt in usable_formats() if fmt != "amx"
}  # for whose depthwise layers VNNI is taken


@pytest.mark.parametrize("types", ["u8-u8-u8", "s8-u8-outliers"])
@pytest.mark.parametrize(("module", "fmt"), CASES.values(), ids=CASES)
def test_nothing_outside_is_touched(tmp_path, fmt, types, module):
    batch = module.BATCH
    calls = batch.calls(fmt, types).values()
    source, program = tmp_path / "all.c", tmp_path / "all"
    source.write_text(
        "#include <tvm/runtime/c_backend_api.h>\n" + laid_out(batch.program(fmt, types)) + BACKEND
    )
    command = [
        "gcc",
        *FLAGS,
        *MACHINE[fmt],
        f"-I{ROOT / 'include'}",
        str(source),
        "-o",
        str(program),
    ]
    subprocess.run(command, check=True)
    data = b"".join(a.tobytes() for call in calls for a in call.arrays() if a is not None)
    (tmp_path / "in").write_bytes(data)
    done = subprocess.run(
        [program, tmp_path / "in", tmp_path / "out"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    answer = np.frombuffer((tmp_path / "out").read_bytes(), np.uint8)
    expected = np.concatenate([call.expected.reshape(-1).view(np.uint8) for call in calls])
    np.testing.assert_array_equal(answer, expected)
