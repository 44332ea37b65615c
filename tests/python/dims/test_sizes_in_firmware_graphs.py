"""Networks with dynamic dimensions in the firmware's graph executor, compared with onnxruntime: on
the host under sanitizers, and on a board emulated by QEMU."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from boards import BOARDS, build_library, link_image, run_image
from dynamic_networks import CASES, FLOAT, INT64, Draft
from keyword_network import KEYWORD
from onnx import TensorProto

import tvmrt
from tvmrt.libinfo import find_firmware_path, find_include_path

BOOL = TensorProto.BOOL

runtime = pytest.importorskip("onnxruntime")

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wmissing-prototypes", "-O1"]
SANITIZED = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
MISMATCH, OUT_OF_RANGE = 0x1005, 0x1104

PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include <tvmgen_net.h>

/* Each run: a byte, then for each input its number of axes, extents and data. Results go out the
 * same way, after a code and its text. */
enum { INPUTS = %(inputs)d, OUTPUTS = %(outputs)d, AXES = 8, TEXT = 80 };
static uint8_t arena[TVMGEN_NET_GRAPH_ARENA_SIZE + 16] __attribute__((aligned(16)));
static const char *const names[] = {%(names)s};

static size_t bytes_of(const DLTensor *t) {
  size_t n = (t->dtype.bits + 7u) / 8;
  for (int i = 0; i < t->ndim; ++i) n *= (size_t)t->shape[i];
  return n;
}

/* Memory of exactly the bytes that the extents take. */
static void *room(const DLTensor *t) { return malloc(bytes_of(t) ? bytes_of(t) : 1); }

static int set_input(TVMGraphExecutor *net, int i, FILE *in, void **held) {
  static int64_t shape[AXES];
  DLTensor t = *tvmrt_graph_input(net, i);
  if (fread(&t.ndim, sizeof(t.ndim), 1, in) != 1 || t.ndim > AXES) return 1;
  if (fread(shape, sizeof(*shape), (size_t)t.ndim, in) != (size_t)t.ndim) return 1;
  t.shape = shape;
  t.strides = NULL;
  t.data = room(&t);
  if (t.data == NULL || fread(t.data, 1, bytes_of(&t), in) != bytes_of(&t)) return 1;
  int code = TVMGraphExecutor_SetInput(net, names[i], &t);
  if (code != 0) { /* it was not taken, and what was set before stays */
    free(t.data);
    return code;
  }
  free(*held);
  *held = t.data;
  return 0;
}

static int get_output(TVMGraphExecutor *net, int i, FILE *out) {
  DLTensor t = *tvmrt_graph_output(net, i);
  int64_t longer[AXES];
  t.data = room(&t);
  if (t.data == NULL) return 1;
  int code = TVMGraphExecutor_GetOutput(net, i, &t);
  fwrite(&t.ndim, sizeof(t.ndim), 1, out);
  fwrite(t.shape, sizeof(*t.shape), (size_t)t.ndim, out);
  fwrite(t.data, 1, bytes_of(&t), out);
  for (int k = 0; k < t.ndim; ++k) longer[k] = t.shape[k] + 1;
  t.shape = longer; /* another size than the result's is not written to */
  if (code == 0 && TVMGraphExecutor_GetOutput(net, i, &t) == 0) code = 2;
  free(t.data);
  return code;
}

int main(void) {
  FILE *in = fopen("runs.bin", "rb"), *out = fopen("results.bin", "wb");
  void *held[INPUTS] = {NULL};
  TVMGraphExecutor *net;
  char kind;
  if (in == NULL || out == NULL) return 1;
  for (int i = 0; i < 16; ++i) arena[sizeof(arena) - 16 + i] = 0xa5;
  if (tvmgen_net_graph_create(arena, sizeof(arena) - 16, &net) != 0) return 2;
  while (fread(&kind, 1, 1, in) == 1) {
    int code = 0;
    char text[TEXT] = {0};
    for (int i = 0; i < INPUTS; ++i) {
      int next = set_input(net, i, in, &held[i]);
      if (code == 0) code = next;
    }
    if (code == 0) code = TVMGraphExecutor_Run(net);
    for (int i = 0; i < TEXT - 1 && code != 0; ++i) {
      text[i] = TVMGetLastError()[i];
      if (text[i] == 0) break;
    }
    fwrite(&code, sizeof(code), 1, out);
    fwrite(text, sizeof(text), 1, out);
    for (int i = 0; i < OUTPUTS && code == 0; ++i) {
      if (get_output(net, i, out) != 0) return 3;
    }
  }
  for (int i = 0; i < 16; ++i) {
    if (arena[sizeof(arena) - 16 + i] != 0xa5) return 4;
  }
  for (int i = 0; i < INPUTS; ++i) free(held[i]);
  fclose(in);
  return fclose(out);
}
"""


def program_text(library) -> str:
    program = library.program
    return PROGRAM % {
        "inputs": len(program.inputs),
        "outputs": len(program.outputs),
        "names": ", ".join(f'"{name}"' for name in program.input_names),
    }


def write_runs(library, runs, folder) -> None:
    parts = []
    for inputs in runs:
        parts.append(b"r")
        for name, type in zip(library.program.input_names, library.program.input_types):
            array = np.ascontiguousarray(inputs[name], str(type.dtype))
            parts += [np.int32(array.ndim).tobytes(), np.int64(array.shape).tobytes()]
            parts.append(array.tobytes())
    (folder / "runs.bin").write_bytes(b"".join(parts))


def read_results(library, folder) -> list[tuple[int, str, list[np.ndarray]]]:
    data, at, found = (folder / "results.bin").read_bytes(), 0, []

    def take(dtype, count):
        nonlocal at
        array = np.frombuffer(data, dtype, count, at)
        at += array.nbytes
        return array

    while at < len(data):
        code, text, results = int(take(np.int32, 1)[0]), take("S80", 1)[0].decode(), []
        for type in library.program.output_types if code == 0 else ():
            shape = take(np.int64, int(take(np.int32, 1)[0]))
            results.append(take(str(type.dtype), int(np.prod(shape))).reshape(shape))
        found.append((code, text, results))
    return found


def finder():
    """Return indices of nonzero elements, twice these indices, the rows that a condition keeps, and
    the boxes kept of one dynamic box and three constant ones."""
    d = Draft(13)
    places = d.node("NonZero", ["x"])
    doubled = d.node("Mul", [d.node("Cast", [places], to=FLOAT), d.constant(2.0, np.float32)])
    kept = d.node("Compress", ["x", "keep"], axis=0)
    relu = d.node("Relu", [d.node("MatMul", [kept, d.weight(3, 5)])])
    boxes = d.constant([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]]], np.float32)
    limits = [d.constant([n], t) for n, t in ((3, np.int64), (0.5, np.float32), (0.5, np.float32))]
    boxed = d.node("NonMaxSuppression", [boxes, "scores", *limits])
    open_ = {"x": (FLOAT, ["rows", 3]), "keep": (BOOL, ["rows"]), "scores": (FLOAT, [1, 1, 3])}
    return d.model(open_, {places: INT64, doubled: FLOAT, relu: FLOAT, boxed: INT64})


def found_in(rng, rows, share):
    x = rng.normal(size=(rows, 3)).astype(np.float32)
    x[rng.random(x.shape) >= share] = 0
    scores = (rng.random((1, 1, 3)) < share).astype(np.float32)
    return {"x": x, "keep": rng.random(rows) < share, "scores": scores}


def compiled(model, dims, target="cortex-m4", **options):
    return tvmrt.compile(
        model, dims=dims, target=target, executor="graph", module_name="net", **options
    )


def check(model, runs, found) -> None:
    session = runtime.InferenceSession(model.SerializeToString())
    assert len(found) == len(runs)
    for inputs, (code, text, results) in zip(runs, found):
        assert (code, text) == (0, "")
        for mine, theirs in zip(results, session.run(None, inputs)):
            assert mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def firmware(tmp_path_factory):
    """Build the firmware libraries for the host, with sanitizers."""
    folder, root = tmp_path_factory.mktemp("firmware"), Path(find_firmware_path())
    folders = ("src_backend", "src_runtime/firmware/*")
    sources = [str(path) for name in folders for path in sorted(root.glob(f"{name}/*.c"))]
    includes = [f"-I{path}" for path in find_include_path()]
    subprocess.run(["cc", *STRICT, *SANITIZED, *includes, "-c", *sources], check=True, cwd=folder)
    objects = [path.name for path in folder.glob("*.o")]
    subprocess.run(["ar", "rcs", "libfirmware.a", *objects], check=True, cwd=folder)
    return folder / "libfirmware.a"


def on_this_machine(library, runs, folder, firmware):
    library.export_sources(folder)
    (folder / "main.c").write_text(program_text(library))
    write_runs(library, runs, folder)
    includes = [f"-I{path}" for path in [folder, *find_include_path()]]
    sources = [str(path) for path in sorted(folder.glob("*.c"))]
    program = [*STRICT, *SANITIZED, *includes, *sources, str(firmware), "-lm"]
    subprocess.run(["cc", *program, "-o", str(folder / "program")], check=True)
    subprocess.run([folder / "program"], cwd=folder, check=True)
    return read_results(library, folder)


@pytest.mark.parametrize("name, params", [("decoder", "flash"), ("convolutions", "file")])
def test_every_size_is_right_in_just_its_memory(name, params, firmware, tmp_path):
    """Large and small sizes alternate; inputs and outputs have exactly their bytes."""
    case = CASES[name]
    model, rng = case.make(), np.random.default_rng(8)
    library = compiled(model, case.dims, params=params)
    runs = [case.inputs(rng, sizes) for sizes in case.sizes(rng, 12)]
    check(model, runs, on_this_machine(library, runs, tmp_path, firmware))


def test_invalid_sizes_return_a_code_and_a_message(firmware, tmp_path):
    """The error has symbol, actual and allowed value; the next runs are unaffected."""
    case = CASES["decoder"]
    model, rng = case.make(), np.random.default_rng(9)
    library = compiled(model, case.dims)
    good = case.inputs(rng, {"batch": 2, "seq": 3, "past": 7})
    long = {**good, "past_v": np.ones((2, 4, 25, 8), np.float32)}
    two = {**good, "past_v": np.ones((2, 4, 9, 8), np.float32)}
    flat = {**good, "ids": np.ones(6, np.int64)}
    wide = {**good, "mask": np.ones((2, 1, 3, 11), np.float32)}
    heads = {**good, "past_k": np.ones((2, 5, 7, 8), np.float32)}
    runs = [good, long, good, two, good, flat, wide, heads, good]
    found = on_this_machine(library, runs, tmp_path, firmware)
    check(model, [good] * 4, [found[i] for i in (0, 2, 4, 8)])
    assert [(code, text) for code, text, _ in found if code] == [
        (OUT_OF_RANGE, "past: found 25, allowed 0 to 24 (input past_v)"),
        (OUT_OF_RANGE, "past: found 9, allowed 7 as in another input (input past_v)"),
        (MISMATCH, "found 1 axes, allowed 2 (input ids)"),
        (OUT_OF_RANGE, "axis 3: found 11, allowed 10 from other dimensions (input mask)"),
        (OUT_OF_RANGE, "axis 1: found 5, allowed 4 (input past_k)"),
    ]


@pytest.mark.slow
def test_results_have_data_dependent_sizes(firmware, tmp_path):
    """Select none, all and some of two rows and more: boxes, elements, and results from them."""
    model, rng = finder(), np.random.default_rng(11)
    library = compiled(model, {"rows": (1, 9)})
    runs = [found_in(rng, rows, share) for rows in (9, 1, 4) for share in (0.0, 1.0, 0.4)]
    check(model, runs, on_this_machine(library, runs, tmp_path, firmware))


DAMAGE = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvmgen_net.h>

/* Runs the network after one byte of its graph has changed, as often as asked; prints the codes. */
int main(int argc, char **argv) {
  int64_t shape[2] = {3, 16};
  char *json = malloc(JSON_BYTES);
  void *x = calloc(3 * 16, 4), *arena = aligned_alloc(16, TVMGEN_NET_GRAPH_ARENA_SIZE);
  DLTensor in = {x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
  if (argc != 2 || json == NULL || x == NULL || arena == NULL) return 1;
  srand(7);
  for (int i = atoi(argv[1]); i > 0; --i) {
    TVMGraphExecutor *net;
    memcpy(json, tvmgen_net_graph_json, JSON_BYTES);
    json[rand() % JSON_BYTES] = (char)(32 + rand() % 95);
    int rc = tvmrt_graph_create(json, JSON_BYTES, &tvmgen_net_module, arena,
                                TVMGEN_NET_GRAPH_ARENA_SIZE, &net, NULL);
    if (rc == 0) rc = TVMGraphExecutor_SetInput(net, "x", &in);
    if (rc == 0) rc = TVMGraphExecutor_Run(net);
    if (rc == 0) rc = TVMGraphExecutor_Run(net);
    printf("0x%04x\\n", (unsigned)rc);
  }
  free(json);
  free(x);
  free(arena);
  return 0;
}
"""


def test_a_changed_byte_of_the_graph_is_never_a_fault(firmware, tmp_path):
    """Sanitizers check a run of less than the maximum size."""
    library = compiled(CASES["perceptron"].make(), CASES["perceptron"].dims)
    library.export_sources(tmp_path)
    (tmp_path / "main.c").write_text(DAMAGE)
    includes = [f"-I{path}" for path in [tmp_path, *find_include_path()]]
    size = f"-DJSON_BYTES={len(library.get_graph_json())}"
    sources = [str(path) for path in sorted(tmp_path.glob("*.c"))]
    program = [*STRICT, "-std=c11", *SANITIZED, size, *includes, *sources, str(firmware), "-lm"]
    subprocess.run(["cc", *program, "-o", str(tmp_path / "program")], check=True)
    command = [tmp_path / "program", "5000"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # valid, another name of the input, damaged, inconsistent
    assert {"0x0000", "0x0702", "0x1002", "0x1003"} <= set(done.stdout.split())


@pytest.mark.parametrize(
    "target, name",
    [
        ("cortex-m4", "tagger"),
        pytest.param("cortex-m4", "keyword", marks=pytest.mark.slow),
        pytest.param("riscv32", "tagger", marks=pytest.mark.slow),
    ],
)
def test_every_size_is_right_on_the_board(target, name, tmp_path):
    board = BOARDS[target]
    case = KEYWORD if name == "keyword" else CASES[name]
    model, rng = case.make(), np.random.default_rng(5)
    library = compiled(model, case.dims, target)
    library.export(tmp_path / "net.tar")
    warnings = "-Os -ffreestanding -Wall -Wextra -Werror -Wconversion"
    archive = build_library(tmp_path / "net.tar", board, tmp_path / "net", warnings)
    (tmp_path / "main.c").write_text(program_text(library))
    includes = [archive.parent / "codegen/host/include", archive.parent / "runtime/include"]
    image = link_image(board, [tmp_path / "main.c"], [archive], tmp_path / "image.elf", includes)
    runs = [case.inputs(rng, sizes) for sizes in case.sizes(rng, 20)]
    write_runs(library, runs, tmp_path)
    run_image(board, image, tmp_path)
    found = read_results(library, tmp_path)
    if name == "keyword":  # one pooled integer may be rounded differently
        session = runtime.InferenceSession(model.SerializeToString())
        assert len(found) == len(runs)
        for inputs, (_, _, results) in zip(runs, found):
            expected = session.run(None, inputs)
            np.testing.assert_allclose(results[0], expected[0], rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(results[1], expected[1], atol=0.04)
    else:
        check(model, runs, found)
