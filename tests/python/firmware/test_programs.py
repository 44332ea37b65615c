"""Firmware C of whole networks in programs on the host."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest
from archives import unpack
from firmware_program import DIGITS, build, program_text, run

import tvmrt

INTERFACES = [
    pytest.param({"interface_api": "c", "unpacked_api": True}, id="c-unpacked"),
    pytest.param({"interface_api": "packed", "unpacked_api": True}, id="packed-unpacked"),
    pytest.param({"interface_api": "packed"}, id="packed-packed"),
    pytest.param(
        {"interface_api": "c", "unpacked_api": True, "pools": {"sram": 1 << 16}}, id="c-pool"
    ),
]


def export(path, folder, name="digits", target="cortex-m4", executor="aot", **options):
    library = tvmrt.compile(path, target=target, runtime="crt", executor=executor,
                            module_name=name, **options)  # fmt: skip
    library.export(folder)
    return library


@pytest.mark.everyday(1)
@pytest.mark.parametrize("target", ["cortex-m4", "host"])
@pytest.mark.parametrize("options", INTERFACES)
def test_program_matches_onnxruntime(digits, images, golden, tmp_path, options, target):
    export(digits, tmp_path / "out", target=target, **options)
    text = program_text(["digits"], options["interface_api"], "pools" in options)
    (tmp_path / "main.c").write_text(text)
    sources = [tmp_path / "main.c", *sorted((tmp_path / "out").glob("*.c"))]
    program = build(tmp_path, sources, [tmp_path / "out"])
    np.testing.assert_allclose(run(program, images, 10), golden(digits), rtol=2e-4, atol=1e-6)


@pytest.mark.slow
def test_main_has_the_parameters_that_programs_for_tvm_pass(digits, images, golden, tmp_path):
    """The program declares the function itself, with tensors only, and uses TVM's headers alone."""
    export(digits, tmp_path / "net.tar", interface_api="c", unpacked_api=True, target="host")
    unpack(tmp_path / "net.tar", tmp_path / "net")
    text = program_text(["digits"], "c").replace(
        "static int32_t call",
        "#include <tvm/runtime/crt/logging.h>\n#include <tvm/runtime/crt/packed_func.h>\n"
        "void give_up(void);\nvoid give_up(void) { TVMPlatformAbort(0); }\n"
        "int (*const call_packed)(TVMPackedFunc *) = TVMPackedFunc_Call;\n"
        "int32_t tvmgen_digits___tvm_main__(void *in, void *out);\nstatic int32_t call",
    )
    called = "  return tvmgen_digits___tvm_main__(in, out);"
    text = re.sub(r"  struct .*?return [^;]*;", called, text, flags=re.DOTALL)
    text += "int TVMPackedFunc_Call(TVMPackedFunc *f) { return f == NULL; }\n"
    text += "void TVMPlatformAbort(tvm_crt_error_t code) { exit((int)code); }\n"
    (tmp_path / "main.c").write_text("#include <stdlib.h>\n" + text)
    net = tmp_path / "net"
    sources = [tmp_path / "main.c", *sorted((net / "codegen/host/src").glob("*.c"))]
    includes = [net / "codegen/host/include", net / "runtime/include"]
    found = run(build(tmp_path, sources, includes), images, 10)
    np.testing.assert_allclose(found, golden(digits), rtol=2e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("interface", ["c", "packed"])
def test_two_networks_in_one_program(images, golden, tmp_path, interface):
    paths = {"a": DIGITS / "digits_f32.onnx", "b": DIGITS / "digits_int8.onnx"}
    options = {"interface_api": interface, "unpacked_api": interface == "c"}
    for name, path in paths.items():
        export(path, tmp_path / "out", name, **options)
    (tmp_path / "main.c").write_text(program_text(["a", "b"], interface))
    sources = [tmp_path / "main.c", *sorted((tmp_path / "out").glob("*.c"))]
    found = run(build(tmp_path, sources, [tmp_path / "out"]), images, 20)
    expected = np.hstack([golden(path) for path in paths.values()])
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("interface", ["c", "packed"])
def test_the_archive_makes_a_library(digits, images, golden, tmp_path, interface):
    """The library has only the archive's files, which include those of the runtime."""
    options = {"interface_api": interface, "unpacked_api": interface == "c", "target": "host"}
    export(digits, tmp_path / "net.tar", **options)
    unpack(tmp_path / "net.tar", tmp_path / "net")
    command = ["make", "-s", "CC=cc", "AR=ar", "CFLAGS="]
    subprocess.run(command, cwd=tmp_path / "net", check=True)
    runtime = {path.name for path in (tmp_path / "net/runtime").rglob("*.c")}
    assert ("aot_executor.c" in runtime) == (interface == "packed")
    assert not runtime & {"graph_read.c", "graph_params.c", "page_allocator.c"}
    (tmp_path / "main.c").write_text(program_text(["digits"], interface))
    library = tmp_path / "net" / "libdigits.a"
    includes = [tmp_path / "net/codegen/host/include", tmp_path / "net/runtime/include"]
    program = build(tmp_path, [tmp_path / "main.c", library], includes)
    np.testing.assert_allclose(run(program, images, 10), golden(digits), rtol=2e-4, atol=1e-6)


@pytest.mark.slow
def test_runtime_files_of_an_archive_are_complete(digits, tmp_path):
    """A program may use any of its functions, by any executor, and links."""
    for executor in ("aot", "graph"):
        folder = tmp_path / executor
        export(digits, tmp_path / f"{executor}.tar", executor=executor, target="host")
        unpack(tmp_path / f"{executor}.tar", folder)
        subprocess.run(["make", "-s", "CC=cc", "AR=ar"], cwd=folder, check=True)
        (folder / "main.c").write_text("int main(void) { return 0; }\n")
        whole = ["-Wl,--whole-archive", "libdigits.a", "-Wl,--no-whole-archive", "-lm"]
        subprocess.run(["cc", "main.c", *whole, "-o", "main"], cwd=folder, check=True)


SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.mark.slow
@pytest.mark.parametrize("interface", ["c", "packed"])
def test_sanitizers_find_nothing(digits, images, golden, tmp_path, interface):
    export(digits, tmp_path / "out", interface_api=interface, unpacked_api=interface == "c")
    (tmp_path / "main.c").write_text(program_text(["digits"], interface))
    sources = [tmp_path / "main.c", *sorted((tmp_path / "out").glob("*.c"))]
    program = build(tmp_path, sources, [tmp_path / "out"], SANITIZERS)
    np.testing.assert_allclose(run(program, images, 10), golden(digits), rtol=2e-4, atol=1e-6)


BAD_CALLS = """\
#include <stddef.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvmgen_digits.h>

static double tensors[64];

int main(void) {
  struct tvmgen_digits_inputs in = {tensors};
  struct tvmgen_digits_outputs out = {NULL};
  if (tvmgen_digits_run(NULL, &out) != kTvmErrorFunctionCallInvalidArg) return 1;
  if (tvmgen_digits_run(&in, NULL) != kTvmErrorFunctionCallInvalidArg) return 2;
  if (tvmgen_digits_run(&in, &out) != kTvmErrorFunctionCallInvalidArg) return 3;
  out.output = (char *)tensors + 1;
  if (tvmgen_digits_run(&in, &out) != kTvmErrorFunctionCallInvalidArg) return 4;
  out.output = tensors;
  in.image = NULL;
  if (tvmgen_digits_run(&in, &out) != kTvmErrorFunctionCallInvalidArg) return 5;
  return 0;
}
"""

BAD_PACKED_CALLS = """\
#include <tvm/runtime/crt/error_codes.h>
#include <tvmgen_digits.h>

int main(void) {
  DLTensor tensors[2];
  TVMValue args[2], result;
  int codes[3] = {7, 7, 0}, code = kTVMNullptr;
  tensors[0].data = tensors[1].data = NULL;
  args[0].v_handle = &tensors[0];
  args[1].v_handle = NULL;
  if (tvmgen_digits_run(args, codes, 1, &result, &code, NULL) !=
      kTvmErrorFunctionCallNumArguments) return 1;
  if (tvmgen_digits_run(args, codes, 2, &result, &code, NULL) !=
      kTvmErrorFunctionCallInvalidArg) return 2;
  return 0;
}
"""


@pytest.mark.parametrize(
    "options, text",
    [
        pytest.param({"interface_api": "c", "unpacked_api": True}, BAD_CALLS, id="c"),
        pytest.param({"interface_api": "packed"}, BAD_PACKED_CALLS, id="packed"),
    ],
)
def test_bad_calls_get_a_code(tmp_path, options, text):
    export(DIGITS / "digits_f32.onnx", tmp_path / "out", **options)
    (tmp_path / "main.c").write_text(text)
    sources = [tmp_path / "main.c", *sorted((tmp_path / "out").glob("*.c"))]
    program = build(tmp_path, sources, [tmp_path / "out"])
    assert subprocess.run([program], check=False).returncode == 0
