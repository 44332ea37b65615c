"""Runs in slices: outputs equal one run, each slice is bounded, and wrong calls are refused."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest
from conditional_network import conditional_network
from firmware_program import DIGITS, build, run
from onnx import helper
from onnx_graph import model

import tvmrt

C = {"target": "cortex-m4", "interface_api": "c", "unpacked_api": True, "module_name": "net"}
SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

MAIN = """\
#include <stdint.h>
#include <stdio.h>
#include <tvmgen_net.h>

static uint64_t input[4096], output[4096];
%(pool)s

int main(void) {
  struct tvmgen_net_inputs inputs = {input};
  struct tvmgen_net_outputs outputs = {output};
  while (fread(input, %(in)s, 1, stdin) == 1) {
    struct tvmgen_net_step_state state;
    int32_t code = tvmgen_net_step_begin(&state, &inputs, &outputs%(given)s), slices = 0;
    if (code != 0) return 1;
    do {
      const int32_t before = state.next;
      code = tvmgen_net_step(&state, %(ops)d);
      ++slices;
      if (state.next - before > %(ops)d) return 2;
    } while (code == TVMGEN_NET_STEP_MORE);
    if (code != 0) return 3;
    if (slices != (TVMGEN_NET_OPERATOR_COUNT + %(ops)d - 1) / %(ops)d) return 4;
    if (tvmgen_net_step(&state, 1) != 0) return 5;
    if (fwrite(output, TVMGEN_NET_OUTPUT_SIZE, 1, stdout) != 1) return 6;
  }
  return 0;
}
"""
POOL = """\
static uint64_t memory[TVMGEN_NET_SRAM_WORKSPACE_POOL_SIZE / 8 + 3];
static struct tvmgen_net_workspace_pools pools;
"""


def sources_of(network, folder, main: str, **options):
    tvmrt.compile(network, **C, **options).export(folder / "out")
    (folder / "main.c").write_text(main)
    return [folder / "main.c", *sorted((folder / "out").glob("*.c"))]


@pytest.mark.everyday(2)
@pytest.mark.parametrize("ops", [1, 3, 1000])
def test_slices_equal_one_run(digits, images, golden, tmp_path, ops):
    main = MAIN % {"in": "TVMGEN_NET_IMAGE_SIZE", "ops": ops, "pool": "", "given": ""}
    options = SANITIZERS if ops == 3 else ()
    program = build(tmp_path, sources_of(digits, tmp_path, main), [tmp_path / "out"], options)
    np.testing.assert_allclose(run(program, images, 10), golden(digits), rtol=2e-4, atol=1e-6)


@pytest.mark.slow
def test_slices_use_caller_provided_memory(digits, images, golden, tmp_path):
    begin = "(pools.sram = (void *)(((uintptr_t)memory + 15) & ~(uintptr_t)15), &pools)"
    texts = {"in": "TVMGEN_NET_IMAGE_SIZE", "ops": 2, "pool": POOL, "given": f", {begin}"}
    sources = sources_of(digits, tmp_path, MAIN % texts, pools={"sram": 1 << 16})
    program = build(tmp_path, sources, [tmp_path / "out"], SANITIZERS)
    np.testing.assert_allclose(run(program, images, 10), golden(digits), rtol=2e-4, atol=1e-6)


def test_operators_under_a_condition_run_in_slices(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    network = conditional_network()
    main = MAIN % {"in": "TVMGEN_NET_X_SIZE", "ops": 1, "pool": "", "given": ""}
    sources = sources_of(network, tmp_path, main)
    assert "if (*(workspace" in (tmp_path / "out" / "tvmgen_net_step.c").read_text()
    program = build(tmp_path, sources, [tmp_path / "out"], SANITIZERS)
    rows = np.array([[1, 2, 3, 4], [-1, -2, -3, -4]], np.float32)
    session = runtime.InferenceSession(network.SerializeToString())
    expected = np.concatenate([session.run(None, {"x": row[None]})[0] for row in rows])
    np.testing.assert_allclose(run(program, rows, 4), expected, rtol=1e-5)


BAD_CALLS = """\
#include <stddef.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvmgen_net.h>

static double tensors[64];
enum { REFUSED = kTvmErrorFunctionCallInvalidArg };

int main(void) {
  struct tvmgen_net_inputs in = {tensors};
  struct tvmgen_net_outputs out = {NULL};
  struct tvmgen_net_step_state state = {{NULL}, {NULL}, 1000};
  if (tvmgen_net_step(&state, 1) != REFUSED) return 1;
  if (tvmgen_net_step_begin(NULL, &in, &out) != REFUSED) return 2;
  if (tvmgen_net_step_begin(&state, NULL, &out) != REFUSED) return 3;
  if (tvmgen_net_step_begin(&state, &in, NULL) != REFUSED) return 4;
  if (tvmgen_net_step_begin(&state, &in, &out) != REFUSED) return 5;
  if (tvmgen_net_step(&state, 1) != REFUSED) return 6;
  out.output = (char *)tensors + 1;
  if (tvmgen_net_step_begin(&state, &in, &out) != REFUSED) return 7;
  out.output = tensors;
  if (tvmgen_net_step_begin(&state, &in, &out) != 0) return 8;
  if (tvmgen_net_step(NULL, 1) != REFUSED) return 9;
  if (tvmgen_net_step(&state, 0) != REFUSED) return 10;
  if (tvmgen_net_step(&state, -1) != REFUSED) return 11;
  if (state.next != 0) return 12;
  return tvmgen_net_step(&state, 1) == TVMGEN_NET_STEP_MORE && state.next == 1 ? 0 : 13;
}
"""


def test_bad_calls_get_a_code_and_run_nothing(tmp_path):
    sources = sources_of(DIGITS / "digits_f32.onnx", tmp_path, BAD_CALLS)
    program = build(tmp_path, sources, [tmp_path / "out"], SANITIZERS)
    assert subprocess.run([program], check=False).returncode == 0


FAILING = """\
#include <tvm/runtime/crt/error_codes.h>
#include <tvmgen_net.h>

static float image[64], probabilities[10];

int main(void) {
  struct tvmgen_net_inputs in = {image};
  struct tvmgen_net_outputs out = {probabilities};
  struct tvmgen_net_step_state state;
  if (tvmgen_net_step_begin(&state, &in, &out) != 0) return 1;
  if (tvmgen_net_step(&state, 4) != TVMGEN_NET_STEP_MORE) return 2;
  if (tvmgen_net_step(&state, 4) != -1 || state.next != -1) return 3;
  if (tvmgen_net_step(&state, 4) != kTvmErrorFunctionCallInvalidArg) return 4;
  if (tvmgen_net_step_begin(&state, &in, &out) != 0) return 5;
  return state.next == 0 ? 0 : 6;
}
"""


def test_an_operator_that_fails_ends_the_run(tmp_path):
    sources = sources_of(DIGITS / "digits_f32.onnx", tmp_path, FAILING)
    operators = tmp_path / "out" / "tvmgen_net_lib1.c"
    text, found = re.subn(
        r"(\nint32_t tvmgen_net_dense\([^)]*\) \{)",
        r"\1\n  if (y) return -1;",
        operators.read_text(),
    )
    assert found == 1
    operators.write_text(text)
    program = build(tmp_path, sources, [tmp_path / "out"])
    assert subprocess.run([program], check=False).returncode == 0


def test_slicing_code_is_linked_on_use_only(tmp_path):
    main = "#include <tvmgen_net.h>\nint main(void) { return tvmgen_net_run(0, 0) == 0; }\n"
    sources = sources_of(DIGITS / "digits_f32.onnx", tmp_path, main)
    objects = []
    for source in sources[1:]:
        objects.append(source.with_suffix(".o"))
        flags = tvmrt.libinfo.find_include_path()
        command = ["cc", "-std=c99", "-c", source, "-o", objects[-1], *(f"-I{f}" for f in flags)]
        subprocess.run(command, check=True)
    subprocess.run(["ar", "rcs", tmp_path / "libnet.a", *objects], check=True)
    program = build(tmp_path, [sources[0], tmp_path / "libnet.a"], [tmp_path / "out"])
    names = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    assert "tvmgen_net_run" in names
    assert "tvmgen_net_step" not in names


def test_a_layer_may_be_called_step(tmp_path):
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "step")
    second = helper.make_node("Softmax", ["y"], ["z"], "workspace")
    network = model([node, second], {"x": np.zeros((1, 3), np.float32)}, ["z"],
                    {"w": np.eye(3, dtype=np.float32)})  # fmt: skip
    main = "#include <tvmgen_net.h>\nint main(void) { return 0; }\n"
    build(tmp_path, sources_of(network, tmp_path, main), [tmp_path / "out"])
