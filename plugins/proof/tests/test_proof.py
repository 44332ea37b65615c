"""Frama-C proves networks, reports seeded faults, and unsupported networks are refused."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tvmrt.cli import main

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_int8.onnx"
OPERATORS = "tvmgen_default_lib1.c"
RUN = "tvmgen_default_lib0.c"
WEIGHTS = "tvmgen_default_weights.c"
CONV = "proof/include/tvm/runtime/kernels/board/conv_i8_2px_rv32.h"
COMMON = "proof/include/tvm/runtime/kernels/board/common_i8.h"
IM2COL = "proof/include/tvm/runtime/kernels/board/im2col_i8.h"
DEPTHWISE = "proof/include/tvm/runtime/kernels/board/depthwise_i8_3x3_dsp.h"
QUAD = "proof/include/tvm/runtime/kernels/board/requantize_i8_4ch_dsp.h"
LINES = "proof/include/tvm/runtime/kernels/board/line_buffer.h"
FLOAT = "proof/include/tvm/runtime/kernels/scalar/soft_float.h"


def compile_proof(model, folder, *more):
    arguments = ["compile", str(model), "-o", str(folder), "--interface-api", "c", "--proof", *more]
    return main([*arguments, *([] if "--target" in more else ["--target", "riscv32"])])


def prove(folder, *entries, path=None):
    """Return exit code and output of the script."""
    command = ["/bin/sh", str(folder / "proof" / "run.sh"), *entries]
    environment = None if path is None else {"PATH": path}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def frama_c():
    if shutil.which("frama-c") is None:
        pytest.skip("frama-c is not installed")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    pytest.importorskip("onnx")
    import proof_network

    folder = tmp_path_factory.mktemp("small")
    proof_network.write(folder / "small.onnx")
    assert compile_proof(folder / "small.onnx", folder / "net") == 0
    return folder / "net"


def test_without_frama_c_the_script_says_so_in_one_sentence(tmp_path):
    assert compile_proof(DIGITS, tmp_path / "net") == 0
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "dirname").symlink_to(shutil.which("dirname"))
    code, text = prove(tmp_path / "net", path=str(tools))
    assert code == 2
    assert text == (
        "frama-c is not installed; install it, for example Debian's package frama-c-base\n"
    )


@pytest.mark.parametrize(
    ("output", "options", "part"),
    [
        ("net.tar", ["--interface-api", "c"], "choose the name of a folder"),
        ("net", ["--interface-api", "packed"], "--proof needs"),
        ("net", ["--interface-api", "c", "--params", "file"], "--params flash"),
        ("net", ["--interface-api", "c", "--guard", "run"], "omit the options"),
    ],
)
def test_other_outputs_and_options_are_refused(output, options, part, tmp_path, capsys):
    arguments = ["compile", str(DIGITS), "-o", str(tmp_path / output), "--target", "riscv32"]
    assert main([*arguments, *options, "--proof"]) != 0
    assert part in capsys.readouterr().err
    assert not (tmp_path / output).exists()


@pytest.mark.slow
def test_the_digits_network_is_proved(frama_c, tmp_path):
    assert compile_proof(DIGITS, tmp_path / "net") == 0
    code, text = prove(tmp_path / "net")
    assert code == 0, text
    last = text.splitlines()[-1]
    assert last.startswith("total: 0 alarms, 0 admitted statements"), text
    assert len(re.findall(r" 0 alarms +\d+ s", text)) == 12  # eight operators, kernels and a run


# Name, the driver that reports the fault, and replacements (file, pattern, text).
FAULTS = {
    "buffer moved": ("run", (RUN, r"at_maxpool_20 = 128", "at_maxpool_20 = 160")),
    "buffer moved onto a live one": ("run", (RUN, r"at_maxpool_20 = 128", "at_maxpool_20 = 0")),
    "plan with overlapping tensors": (
        "run", (RUN, r"at_maxpool_20 = 128", "at_maxpool_20 = 16"),
        ("proof/contracts.h", r"workspace\[128\]", "workspace[16]"),
        ("proof/contracts.h", r"(keeps_\w+: )160 <= 0 \|\| 128 <= 128",
         r"\g<1>48 <= 0 || 128 <= 16"),
    ),
    "workspace one byte too small": (
        "run", (RUN, r"workspace\[288\]", "workspace[287]"),
        (RUN, r"TVMGEN_ASSERT\(sizeof[^;]*;", ""), (RUN, r"TVMGEN_ASSERT\(at_conv_[^;]*;", ""),
        ("proof/driver.c", r"bytes\[288\]", "bytes[287]"),
    ),
    "operator left out": (
        "run", (RUN, r"if \(tvmgen_default_maxpool_20\([^;]*!= 0\) \{\n +return -1;\n +\}", "")),
    "arguments exchanged": (
        "run", (RUN, r"at_conv_16\), \(int8_t \*\)\(workspace \+ at_maxpool_20",
                "at_maxpool_20), (int8_t *)(workspace + at_conv_16")),
    "wrong weights": (
        "run", (RUN, r"(\s)tvmgen_default_w_conv_16_bias,", r"\g<1>tvmgen_default_w_conv_4_bias,")),
    "NULL not refused": ("run", (RUN, r"inputs == NULL \|\| ", "")),
    "one iteration more": ("quantizelinear_0", (OPERATORS, "i0 < 16", "i0 < 17")),
    "one iteration less": ("quantizelinear_0", (OPERATORS, "i0 < 16", "i0 < 15")),
    "one row too many": ("maxpool_20", (OPERATORS, r"\.out = \{1, 2, 2\}", ".out = {1, 3, 2}")),
    "one channel too many": ("maxpool_20", (OPERATORS, r"\.channels = 8", ".channels = 9")),
    "stride of pixels": ("maxpool_20", (OPERATORS, r"\.x_stride = 8,\s+\.y_stride = 8\}",
                                        ".x_stride = 9, .y_stride = 8}")),
    "division by zero": ("maxpool_20", (OPERATORS, r"\.out = \{1, 2, 2\}", ".out = {0, 2, 2}")),
    "window of weights too long": ("gemm_24", (OPERATORS, r"\.length = 32", ".length = 40")),
    "more channels than weights": ("gemm_24", (OPERATORS, r"\.out_c = 5", ".out_c = 9")),
    "bias that overflows": ("gemm_24", (WEIGHTS, r"(gemm_24_bias\[\d+\] \w+ = \{\s*)-?\d+",
                                        r"\g<1>2147483647")),
    "shift by 32": ("conv_16", (CONV, r"upper\[i\] << 16", "upper[i] << 32")),
    "scale out of range": ("conv_16", (WEIGHTS, r"(conv_16_multipliers\[8\] \w+ = \{\s*)[-+.\w]+",
                                       r"\g<1>1e30f")),
    "no limit of shifts": ("kernels_1", (FLOAT, r"if \(n > 24\) return 0;", "")),
    "padding not written": (
        "conv_4", (IM2COL, r"memcpy\(TVMRT_ALIGNED\(last, 4\), &zeros, 4\);", "")),
    "element of a row not written": (
        "kernels_2", (COMMON, r"\*y\+\+ = (TVMRT_MICRO_CLAMP_BYTE\(q, lo, hi\);)",
                      r"y++; (void)\1")),
    "result not in the contract's bounds": (
        "kernels_1", (COMMON, r"\(q < -65536 \? -65536 : q > 65536 \? 65536 : q\)", "q * 16")),
    "write that is not in the contract": (
        "kernels_2", ("proof/kernels.h", r"assigns y\[0 \.\. n - 1\]", "assigns y[0 .. n - 2]")),
    "copy of another length": (
        "kernels_1", (CONV, r"end = from \+ n;", "end = from + n - 1;")),
    "sum of a column not written": ("kernels_1", (DEPTHWISE, r"sums\[0\] = a;", "(void)a;")),
    "row copied to another plane": ("kernels_1", (DEPTHWISE, r"to\[i \* plane \+ 1\]",
                                                  "to[(i + 1) * plane + 1]")),
    "column not requantised": ("kernels_3", (
        QUAD, r"from \+ n \* stride", "from + (n - 1) * stride")),
    "line buffer not filled": ("conv_10", (LINES, r"at \+= 8;", "at += 16;")),
    "copied run one byte short": ("kernels_1", (COMMON, r"for \(; n > 0; n--\) \{\n    \*to\+\+",
                                                "for (; n > 1; n--) {\n    *to++")),
    "contract without a driver": (
        "kernels_2", ("proof/kernels.h", r"  tvmrt_micro_requantize_once\([^;]*;", "")),
    "scratch too small": (
        "conv_10", (OPERATORS, r"provide\(scratch, 224\)", "provide(scratch, 223)")),
    "scratch that is not there": ("conv_10", ("proof/operators.c", r"memory_scratch\[224\]",
                                              "memory_scratch[220]")),
}  # fmt: skip


@pytest.mark.slow
def test_seeded_faults_are_reported(frama_c, small, tmp_path):
    assert len(FAULTS) >= 20
    code, text = prove(small)
    assert code == 0, text
    silent = {}
    for i, (name, (entry, *changes)) in enumerate(FAULTS.items()):
        folder = tmp_path / str(i)
        shutil.copytree(small, folder)
        for file, pattern, new in changes:
            changed, count = re.subn(pattern, new, (folder / file).read_text())
            assert count, f"{name}: {pattern} is not in {file}"
            (folder / file).write_text(changed)
        code, text = prove(folder, entry)
        if code != 1:
            silent[name] = text
    assert not silent, silent
