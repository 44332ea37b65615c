"""Test the two files with 16-bit integers, their length, and operators that they cannot carry."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx_graph import model

import tvmrt
from tvmrt.custom import C, GraphBuilder, Kernel, Tensor
from tvmrt.error import UnsupportedError

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "examples/digits/digits_int8.onnx"
OPTIONS = {"target": "cortex-m0plus", "interface_api": "c", "module_name": "net"}
MAX_LINES = 3000
# simavr: QEMU 7.2 skips wrong instructions of this processor
AVR = "atmega1284p"

# Prints the bytes of the output to the serial line, then sleeps, which ends the emulator.
AVR_PROGRAM = """\
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>
#include "net.h"
static const uint8_t x[] = {%s};
static uint8_t y[%d];
static void put(uint8_t byte) {
  while (!(UCSR0A & (1 << UDRE0))) {
  }
  UDR0 = byte;
}
int main(void) {
  struct tvmgen_net_inputs inputs = {x};
  struct tvmgen_net_outputs outputs = {y};
  UCSR0B = 1 << TXEN0;
  put(tvmgen_net_run(&inputs, &outputs) == 0 ? '+' : '-');
  for (uint16_t i = 0; i < sizeof(y); ++i) {
    put("0123456789abcdef"[y[i] >> 4]);
    put("0123456789abcdef"[y[i] & 15]);
  }
  put('\\n');
  cli();
  sleep_mode();
}
"""


def _int8_network() -> onnx.ModelProto:
    """Return int8 layers of many kinds whose multipliers and sums exceed 16 bits."""
    rng = np.random.default_rng(11)
    weights = {
        "w": rng.integers(-127, 128, (12, 6, 3, 3)).astype(np.int8),
        "v": rng.integers(-127, 128, (12, 1, 3, 3)).astype(np.int8),
        "d": rng.integers(-127, 128, (12, 7)).astype(np.int8),
        "b": rng.integers(-90000, 90000, (12,)).astype(np.int32), "bs": np.float32(0.0004),
        "s": np.float32(0.04), "z": np.int8(-128), "s2": np.float32(3.1), "z2": np.int8(11),
        "s3": np.float32(40.5), "ws": np.float32(0.01), "wz": np.int8(0), "bz": np.int32(0),
    }  # fmt: skip

    def node(op, inputs, output, **attrs):
        return helper.make_node(op, inputs.split(), [output], **attrs)

    nodes = [
        node("DequantizeLinear", "x s z", "xd"), node("DequantizeLinear", "w ws wz", "wd"),
        node("DequantizeLinear", "b bs bz", "bd"), node("Conv", "xd wd bd", "c", pads=[1] * 4),
        node("QuantizeLinear", "c s2 z2", "cq"), node("DequantizeLinear", "cq s2 z2", "cd"),
        node("DequantizeLinear", "v ws wz", "vd"),
        node("Conv", "cd vd", "e", group=12, strides=[2, 2]),
        node("QuantizeLinear", "e s3 z2", "eq"), node("DequantizeLinear", "eq s3 z2", "ed"),
        node("MaxPool", "ed", "m", kernel_shape=[2, 2]),
        node("ReduceMax", "m", "f", axes=[2, 3], keepdims=0),
        node("DequantizeLinear", "d ws wz", "dd"), node("MatMul", "f dd", "g"),
        node("QuantizeLinear", "g s3 z2", "y"),
    ]  # fmt: skip
    return model(nodes, {"x": np.zeros((1, 6, 9, 9), np.int8)}, ["y"], weights, opset=13)


def _run_on_avr(folder: Path, library, x: np.ndarray) -> bytes:
    """Return the output's bytes of a network with one input and one output."""
    for tool in ("avr-gcc", "simavr"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    library.export(folder / "net.c")
    numbers = ", ".join(map(str, x.tobytes()))
    (folder / "main.c").write_text(AVR_PROGRAM % (numbers, library.summary.outputs[0].nbytes))
    command = ["avr-gcc", f"-mmcu={AVR}", "-std=c11", "-Os", "-Wall", "-Wextra", "-Werror"]
    command += ["main.c", "net.c", "-lm", "-o", "net.elf"]
    subprocess.run(command, cwd=folder, check=True)
    run = ["simavr", "-m", AVR, "-f", "16000000", "net.elf"]
    done = subprocess.run(run, cwd=folder, check=True, capture_output=True, text=True, timeout=100)
    found = re.search(r"\+([0-9a-f]+)", done.stdout + done.stderr)
    assert found, done.stdout + done.stderr
    return bytes.fromhex(found[1])


@pytest.mark.slow
def test_int8_network_has_the_same_bytes_with_integers_of_16_bits(tmp_path):
    network = _int8_network()
    x = np.random.default_rng(1).integers(-128, 128, (1, 6, 9, 9)).astype(np.int8)
    (expected,) = onnxruntime.InferenceSession(network.SerializeToString()).run(None, {"x": x})
    assert len(np.unique(expected)) > 3
    found = np.frombuffer(_run_on_avr(tmp_path, tvmrt.compile(network, **OPTIONS), x), np.int8)
    np.testing.assert_array_equal(found, expected.ravel())


@pytest.mark.slow
def test_network_with_floats_runs_with_integers_of_16_bits(tmp_path):
    x = (np.random.default_rng(0).random((1, 1, 8, 8)) * 16).astype(np.float32)
    (expected,) = onnxruntime.InferenceSession(DIGITS).run(None, {"image": x})
    found = np.frombuffer(_run_on_avr(tmp_path, tvmrt.compile(DIGITS, **OPTIONS), x), np.float32)
    np.testing.assert_allclose(found, expected.ravel(), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_softmax_and_normalization_have_the_bytes_of_tensorflow_lite(tmp_path, monkeypatch):
    pytest.importorskip("tvmrt.plugins.tflite")
    pytest.importorskip("ai_edge_litert")
    monkeypatch.syspath_prepend(str(ROOT / "tests/bench/firmware"))
    import tiny_networks
    from tflite_case import litert_runs

    net = tiny_networks.Int8Network(3, 12)
    net.dense(9)
    result = net._activation(net.values[net.last], scale=1 / 128, zero=0)
    net.op("L2_NORMALIZATION", [net.last], [result], options="L2NormOptions")
    net.last = result
    net.softmax()
    data = net.file()
    x = np.random.default_rng(4).integers(-128, 128, (1, 12)).astype(np.int8)
    ((expected,),) = litert_runs(data, [[x]])
    assert len(np.unique(expected)) > 3
    found = np.frombuffer(_run_on_avr(tmp_path, tvmrt.compile(data, **OPTIONS), x), np.int8)
    np.testing.assert_array_equal(found, np.ravel(expected))


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "zero"), [("int8", -128), ("int16", 0)])
def test_products_of_activations_have_the_bytes_of_tensorflow_lite(tmp_path, dtype, zero):
    pytest.importorskip("tvmrt.plugins.tflite")
    pytest.importorskip("ai_edge_litert")
    from tflite_case import Net, litert_runs

    net = Net()
    x_index = net.input((1, 40), dtype, scale=0.05, zero=zero)
    result = net.output((1, 40), dtype, scale=40.0 if dtype == "int16" else 0.7, zero=zero)
    net.op("MUL", [x_index, x_index], [result], options="MulOptions")
    limits = np.iinfo(dtype)
    x = np.linspace(limits.min, limits.max, 40).astype(dtype)[None]
    ((expected,),) = litert_runs(net.data(), [[x]])
    found = np.frombuffer(_run_on_avr(tmp_path, tvmrt.compile(net.data(), **OPTIONS), x), dtype)
    np.testing.assert_array_equal(found, np.ravel(expected))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"stream": "1"}], ids=["whole", "stream"])
def test_streaming_wake_word_is_short(tmp_path, options, monkeypatch):
    pytest.importorskip("tvmrt.plugins.tflite")
    monkeypatch.syspath_prepend(str(ROOT / "tests/bench/firmware"))
    monkeypatch.syspath_prepend(str(ROOT / "plugins/tflite/tests"))
    networks = pytest.importorskip("tiny_networks")
    library = tvmrt.compile(networks.sww(), **OPTIONS, **options)
    library.export(tmp_path / "net.c")
    lines = (tmp_path / "net.c").read_text().splitlines()
    assert len(lines) <= MAX_LINES
    assert max(map(len, lines)) <= 1000
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-c", "net.c", "-o", "net.o"]
    subprocess.run(command, cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    ("include", "statement", "words"),
    [
        ("#include <stdio.h>", "", "need <stdio.h>, which a .c file does not include"),
        ("", 'TVMAPISetLastError("no");', r"call TVMAPISetLastError\(\) of the runtime"),
    ],
    ids=["header", "function"],
)
def test_operator_that_needs_more_is_an_error(tmp_path, include, statement, words):
    with pytest.raises(UnsupportedError, match=words):
        _operator(include, statement).export(tmp_path / "net.c")
    assert not [*tmp_path.iterdir()]


def _operator(before: str, statement: str):
    """Return a network of one operator in C, with code before its function and in it."""
    body = f"""{before}
    static int32_t f(const float *x, const tvmrt_shape *s, float *y, const tvmrt_shape *t) {{
      (void)x, (void)s, (void)y, (void)t;
      {statement}
      return 0;
    }}
    """
    tensors = {"inputs": [Tensor("x", "float32")], "outputs": [Tensor("y", "float32")]}
    g = GraphBuilder()
    g.output("y", g.add(Kernel("Mine", "d", **tensors, c=C(body, "f")), g.input("x", (4,))))
    return tvmrt.compile(g, **OPTIONS)


HELPERS = {
    "a comment mark in a string": """
        static const char *text(void) { return "/* http://"; }
        #define ONE 1
        static int helper(int a) { return a + ONE + (text()[0] == '*'); }""",
    "a brace in each branch": """
        static int helper(int a) {
        #ifdef __GNUC__
          if (a < 9) {
        #else
          if (a < 8) {
        #endif
            return a + 1;
          }
          return 0;
        }""",
    "several variables": """
        static int table[2][2] = {{1, 2}, {3, 4}}, *first = &table[0][0], other;
        static int helper(int a) { return a + *first + other; }""",
}


@pytest.mark.slow
@pytest.mark.parametrize("before", HELPERS.values(), ids=HELPERS)
def test_operator_with_c_that_is_hard_to_split(tmp_path, before):
    _operator(before, "y[0] = (float)helper((int)x[0]);").export(tmp_path / "net.c")
    (tmp_path / "main.c").write_text("""
        #include "net.h"
        int main(void) {
          float x[4] = {5}, y[4];
          struct tvmgen_net_inputs inputs = {x};
          struct tvmgen_net_outputs outputs = {y};
          return tvmgen_net_run(&inputs, &outputs) == 0 && y[0] == 6 ? 0 : 1;
        }""")
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "main.c", "net.c", "-lm"]
    subprocess.run([*command, "-o", "main"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "main"], check=True)
