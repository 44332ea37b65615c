"""Networks in the firmware's graph executor: on boards, in exactly the stated memory."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import boards
import numpy as np
import pytest
from firmware_program import DIGITS, STRICT

import tvmrt
from tvmrt.compiler.export.firmware_graph import place_params
from tvmrt.compiler.export.model_library_format import metadata
from tvmrt.libinfo import find_firmware_path, find_include_path

ROOT = Path(find_firmware_path())
RUNTIME = [*ROOT.glob("src_backend/*.c"), *ROOT.glob("src_runtime/firmware/*/*.c")]
PARAMS = pytest.mark.parametrize("params", ["flash", "file"])

PROGRAM = """\
#include <stdio.h>
#include <tvmgen_digits.h>

static uint8_t arena[TVMGEN_DIGITS_GRAPH_ARENA_SIZE - MISSING_BYTES + 16]
    __attribute__((aligned(16)));
static float image[64], result[10];

int main(void) {
  int64_t shapes[2] = {64, 10};
  DLTensor in = {image, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &shapes[0], NULL, 0};
  DLTensor out = {result, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &shapes[1], NULL, 0};
  FILE *from = fopen("images.bin", "rb"), *to = fopen("results.bin", "wb");
  TVMGraphExecutor *net;
  int rc;
  if (from == NULL || to == NULL) return 1;
  for (int i = 0; i < 16; ++i) arena[sizeof(arena) - 16 + i] = 0xa5;
  rc = tvmgen_digits_graph_create(arena, sizeof(arena) - 16, &net);
  if (rc == kTvmErrorPlatformNoMemory && net == NULL) return 100;
  if (rc != 0) return 2;
  if (TVMGraphExecutor_SetInput(net, "image", &in) != 0) return 3;
  while (fread(image, sizeof(image), 1, from) == 1) {
    if (TVMGraphExecutor_Run(net) != 0) return 4;
    if (TVMGraphExecutor_GetOutput(net, 0, &out) != 0) return 5;
    if (fwrite(result, sizeof(result), 1, to) != 1) return 6;
  }
  for (int i = 0; i < 16; ++i) {
    if (arena[sizeof(arena) - 16 + i] != 0xa5) return 7;
  }
  if (TVMGraphExecutor_Release(&net) != 0 || net != NULL) return 8;
  return fclose(to);
}
"""


def compile_graph(path, **options):
    return tvmrt.compile(
        path, target="cortex-m4", executor="graph", module_name="digits", **options
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, target, params",
    [
        ("int8", "cortex-m4", "flash"),
        ("f32", "cortex-m4", "file"),
        ("int8", "riscv32", "file"),
    ],
)
def test_the_archive_runs_on_the_board(name, target, params, images, golden, tmp_path):
    digits = DIGITS / f"digits_{name}.onnx"
    board = boards.BOARDS[target]
    library = tvmrt.compile(
        digits, target=target, executor="graph", module_name="digits", params=params
    )
    library.export(tmp_path / "net.tar")
    warnings = "-Os -ffreestanding -Wall -Wextra -Werror -Wconversion"
    archive = boards.build_library(tmp_path / "net.tar", board, tmp_path / "net", warnings)
    (tmp_path / "main.c").write_text(PROGRAM)
    includes = [tmp_path / "net/codegen/host/include", tmp_path / "net/runtime/include"]
    image = boards.link_image(
        board, [tmp_path / "main.c"], [archive], tmp_path / "image.elf", includes,
        ["-DMISSING_BYTES=0"],
    )  # fmt: skip
    images[:20].tofile(tmp_path / "images.bin")
    boards.run_image(board, image, tmp_path)
    found = np.fromfile(tmp_path / "results.bin", np.float32).reshape(20, 10)
    np.testing.assert_allclose(found, golden(digits)[:20], rtol=2e-4, atol=1e-6)


SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory) -> Path:
    """Build the firmware libraries for the host, with sanitizers."""
    folder = tmp_path_factory.mktemp("runtime")
    includes = [f"-I{path}" for path in find_include_path()]
    command = ["cc", *STRICT, *SANITIZED, *includes, "-c", *map(str, RUNTIME)]
    subprocess.run(command, check=True, cwd=folder)
    objects = [path.name for path in folder.glob("*.o")]
    subprocess.run(["ar", "rcs", "libruntime.a", *objects], check=True, cwd=folder)
    return folder / "libruntime.a"


def run_on_host(folder: Path, library, runtime: Path, images, missing: int = 0):
    """Return exit code and results; ``missing`` bytes are subtracted from the stated memory."""
    library.export(folder / "net")
    (folder / "main.c").write_text(PROGRAM)
    images.tofile(folder / "images.bin")
    sources = [folder / "main.c", *sorted((folder / "net").glob("*.c")), runtime]
    includes = [f"-I{path}" for path in [folder / "net", *find_include_path()]]
    command = ["cc", *STRICT, *SANITIZED, f"-DMISSING_BYTES={missing}", *includes]
    subprocess.run([*command, *map(str, sources), "-lm", "-o", folder / "program"], check=True)
    done = subprocess.run([folder / "program"], cwd=folder, check=False, capture_output=True)
    assert done.stderr == b""
    return done.returncode, np.fromfile(folder / "results.bin", np.float32).reshape(-1, 10)


@pytest.mark.slow
@PARAMS
def test_the_stated_memory_is_enough(params, runtime, images, golden, tmp_path):
    digits = DIGITS / "digits_int8.onnx"
    library = compile_graph(digits, params=params)
    code, found = run_on_host(tmp_path, library, runtime, images)
    assert code == 0
    np.testing.assert_allclose(found, golden(digits), rtol=2e-4, atol=1e-6)


@PARAMS
@pytest.mark.parametrize("target", ["cortex-m4", "riscv32"])
def test_memory_is_reported_before_building(target, params, tmp_path):
    """The archive's number equals the macro on the target."""
    compiler = boards.BOARDS[target].compiler
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    library = tvmrt.compile(
        DIGITS / "digits_f32.onnx", target=target, executor="graph", module_name="digits",
        params=params,
    )  # fmt: skip
    library.export(tmp_path / "net")
    memory = metadata([library])["modules"]["digits"]["memory"]
    (tmp_path / "claim.c").write_text(
        "#include <tvmgen_digits.h>\n"
        f"typedef char claim[TVMGEN_DIGITS_GRAPH_ARENA_SIZE == {memory['graph_executor_bytes']}"
        " ? 1 : -1];\n"
    )
    includes = [f"-I{path}" for path in [tmp_path / "net", *find_include_path()]]
    flags = [*boards.BOARDS[target].flags, "-ffreestanding", "-fsyntax-only"]
    subprocess.run([compiler, *flags, *includes, tmp_path / "claim.c"], check=True)


@pytest.mark.slow
@PARAMS
def test_one_byte_less_returns_an_error_code(params, runtime, images, tmp_path):
    library = compile_graph(DIGITS / "digits_int8.onnx", params=params)
    code, _ = run_on_host(tmp_path, library, runtime, images, 1)
    assert code == 100


def test_an_operator_refuses_a_tensor_that_is_too_small(runtime, images, tmp_path):
    """The shapes of the graph are damaged."""
    library = compile_graph(DIGITS / "digits_int8.onnx")
    graph = json.loads(library.get_graph_json())
    entry = graph["node_row_ptr"][1]
    (size,) = graph["attrs"]["shape"][1][entry]
    text, changed = f"[{size}]", f"[{'1' * len(str(size))}]"
    name = "tvmgen_digits_graph.c"
    codes = ", ".join(map(str, text.encode()))
    source = library.sources.files[name].replace("\n ", "")
    assert codes in source
    library.sources.files[name] = source.replace(codes, ", ".join(map(str, changed.encode())))
    code, found = run_on_host(tmp_path, library, runtime, images)
    assert code == 4 and not found.size


DAMAGE = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvmgen_digits.h>

/* Runs the network after one byte of its graph has changed, as often as asked; prints the codes. */
int main(int argc, char **argv) {
  static float image[64], result[10];
  int64_t shapes[2] = {64, 10};
  DLTensor in = {image, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &shapes[0], NULL, 0};
  DLTensor out = {result, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &shapes[1], NULL, 0};
  char *json = malloc(JSON_BYTES);
  void *arena = aligned_alloc(16, TVMGEN_DIGITS_GRAPH_ARENA_SIZE);
  if (argc != 2 || json == NULL || arena == NULL) return 1;
  srand(7);
  for (int i = atoi(argv[1]); i > 0; --i) {
    TVMGraphExecutor *net;
    int rc;
    memcpy(json, tvmgen_digits_graph_json, JSON_BYTES);
    json[rand() % JSON_BYTES] = (char)(32 + rand() % 95);
    rc = tvmrt_graph_create(json, JSON_BYTES, &tvmgen_digits_module, arena,
                            TVMGEN_DIGITS_GRAPH_ARENA_SIZE, &net, NULL);
    if (rc == 0) rc = TVMGraphExecutor_SetInput(net, "image", &in);
    if (rc == 0) rc = TVMGraphExecutor_Run(net);
    if (rc == 0) rc = TVMGraphExecutor_GetOutput(net, 0, &out);
    printf("0x%04x\\n", (unsigned)rc);
  }
  free(json);
  free(arena);
  return 0;
}
"""


def test_a_changed_byte_of_the_graph_is_never_a_fault(runtime, tmp_path):
    """Sanitizers check the run; a byte may also have no effect."""
    library = compile_graph(DIGITS / "digits_int8.onnx")
    library.export(tmp_path / "net")
    (tmp_path / "main.c").write_text(DAMAGE)
    sources = [tmp_path / "main.c", *sorted((tmp_path / "net").glob("*.c")), runtime]
    includes = [f"-I{path}" for path in [tmp_path / "net", *find_include_path()]]
    size = len(library.get_graph_json())
    command = ["cc", *STRICT, "-std=c11", *SANITIZED, f"-DJSON_BYTES={size}", *includes]
    subprocess.run([*command, *map(str, sources), "-lm", "-o", tmp_path / "program"], check=True)
    done = subprocess.run(
        [tmp_path / "program", "5000"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    codes = set(done.stdout.split())
    assert {"0x0000", "0x0100", "0x1002", "0x1003"} <= codes
    assert codes <= {"0x0000", "0x0100", "0x0503", "0x0702", "0x0800", "0x0802", "0x0803", "0x1002",
                     "0x1003", "0x1005", "0x1007"}  # fmt: skip


@pytest.mark.parametrize("odd", [1, 3, 8])
def test_params_are_read_in_place(odd):
    arrays = {"a" * odd: np.zeros(16, np.float32), "b": np.zeros(16, np.float32),
              "c": np.zeros(5, np.int8), "d": np.zeros(5, np.int8)}  # fmt: skip
    params = place_params(arrays)
    assert params.copied_bytes == 16  # the one after five bytes
    assert 0 <= params.pad < 16


@pytest.mark.slow
def test_two_graphs_are_in_one_image(runtime, tmp_path):
    """Each graph has its function table; the system library is that of one of them."""
    for name in ("f32", "int8"):
        path = DIGITS / f"digits_{name}.onnx"
        library = tvmrt.compile(path, target="cortex-m4", executor="graph", module_name=name)
        library.export(tmp_path / "net")
    (tmp_path / "main.c").write_text(
        "#include <tvmgen_f32.h>\n#include <tvmgen_int8.h>\n"
        "static uint8_t a[TVMGEN_F32_GRAPH_ARENA_SIZE] __attribute__((aligned(16)));\n"
        "static uint8_t b[TVMGEN_INT8_GRAPH_ARENA_SIZE] __attribute__((aligned(16)));\n"
        "int main(void) {\n  TVMGraphExecutor *x, *y;\n"
        "  return tvmgen_f32_graph_create(a, sizeof(a), &x) != 0 ||\n"
        "         tvmgen_int8_graph_create(b, sizeof(b), &y) != 0;\n}\n"
    )
    sources = [tmp_path / "main.c", *sorted((tmp_path / "net").glob("*.c")), runtime]
    includes = [f"-I{path}" for path in [tmp_path / "net", *find_include_path()]]
    command = ["cc", *STRICT, *SANITIZED, *includes, *map(str, sources), "-lm", "-o"]
    subprocess.run([*command, tmp_path / "program"], check=True)
    assert subprocess.run([tmp_path / "program"], check=False).returncode == 0
