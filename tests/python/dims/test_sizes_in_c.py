"""C interface of networks with dynamic dimensions, on the host."""

from __future__ import annotations

import ctypes
import json
import re
import struct
import subprocess
import tarfile

import numpy as np
import onnx
import pytest
from dynamic_networks import CASES, FLOAT, INT64, Draft
from firmware_call import Memory, build_shared, pointers
from sized_call import program_text, read_results, sizes_of, write_runs
from test_data_dependent_dims import CASES as COUNTED

import tvmrt
from tvmrt import cli
from tvmrt.error import UnsupportedError
from tvmrt.libinfo import find_include_path

runtime = pytest.importorskip("onnxruntime")

C = {"interface_api": "c", "module_name": "net"}
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wmissing-prototypes", "-O1"]
SANITIZED = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
INVALID, MISMATCH, OUT_OF_RANGE = 0x0803, 0x1102, 0x1104


def sanitized(library, runs, folder):
    """Return the runs of a program under sanitizers."""
    library.export_sources(folder)
    (folder / "main.c").write_text(program_text(library))
    flags = [f"-I{path}" for path in [folder, *find_include_path()]]
    sources = [str(path) for path in sorted(folder.glob("*.c"))]
    program = [*STRICT, *SANITIZED, *flags, *sources, "-lm", "-o", str(folder / "program")]
    subprocess.run(["cc", *program], check=True)
    write_runs(library, runs, folder)
    subprocess.run([folder / "program"], cwd=folder, check=True)


@pytest.mark.parametrize(
    "name, target, pools",
    [("decoder", "cortex-m4", {"sram": 1 << 15}), ("convolutions", "cortex-m4", None)],
)
def test_run_touches_only_memory_of_its_sizes(name, target, pools, tmp_path):
    """Buffers have the sizes that the network reports, under sanitizers; large and small runs
    alternate."""
    case = CASES[name]
    model, rng = case.make(), np.random.default_rng(4)
    library = tvmrt.compile(model, dims=case.dims, target=target, pools=pools, **C)
    runs = [(sizes, case.inputs(rng, sizes)) for sizes in case.sizes(rng, 8)]
    sanitized(library, runs, tmp_path)
    session = runtime.InferenceSession(model.SerializeToString())
    found = read_results(library, tmp_path)
    assert len(found) == len(runs)
    for (_, inputs), results in zip(runs, found):
        for mine, theirs in zip(results, session.run(None, inputs)):
            assert mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_lengths_beyond_board_kernels_use_reference_kernels(tmp_path):
    """Board kernels use 16-bit extents: only the first layer is too long for them."""
    draft = Draft(8)
    x = draft.node("Conv", ["x", draft.weight(8, 2, 5)], pads=[2, 2], strides=[2])
    x = draft.node("Conv", [draft.node("Relu", [x]), draft.weight(8, 1, 3)], group=8, pads=[1, 1])
    y = draft.node("Conv", [x, draft.weight(6, 8, 3)], pads=[1, 1], strides=[3])
    model = draft.model({"x": (FLOAT, [1, 2, "n"])}, {y: FLOAT})
    library = tvmrt.compile(model, dims={"n": (3, 34000)}, target="cortex-m4", **C)
    first, second, third = (
        f.text for f in library.sources.functions if f.step.group.root.op == "conv"
    )
    assert "tvmrt_conv_f32(" in first
    assert "tvmrt_micro_depthwise_f32_run(" in second
    assert "tvmrt_micro_conv_f32_run(" in third
    rng = np.random.default_rng(2)
    given = [{"x": rng.normal(size=(1, 2, n)).astype(np.float32)} for n in (34000, 3, 33001)]
    sanitized(library, [(sizes_of(library, inputs), inputs) for inputs in given], tmp_path)
    session = runtime.InferenceSession(model.SerializeToString())
    for inputs, (mine,) in zip(given, read_results(library, tmp_path)):
        (theirs,) = session.run(None, inputs)
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["detector", "unique rows as they come", "fixed"])
def test_run_returns_data_dependent_sizes(name, tmp_path):
    """Under sanitizers, outputs have the found number of elements, which is returned."""
    if name == "fixed":
        draft = Draft()
        model, dims = draft.model({"x": (FLOAT, [7])}, {draft.node("NonZero", ["x"]): INT64}), None
        given = [{"x": np.array(x, np.float32)} for x in ([0, 1, 0, 2, 0, 0, 3], [0] * 7, [1] * 7)]
    else:
        case = COUNTED[name]
        model, dims, given = case.make(), case.dims, case.inputs(np.random.default_rng(5))
    library = tvmrt.compile(model, dims=dims, target="cortex-m4", **C)
    sanitized(library, [(sizes_of(library, inputs), inputs) for inputs in given], tmp_path)
    session = runtime.InferenceSession(model.SerializeToString())
    found = read_results(library, tmp_path)
    assert len({results[0].shape for results in found}) > 1
    for inputs, results in zip(given, found):
        for mine, theirs in zip(results, session.run(None, inputs)):
            assert mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_data_dependent_size_beyond_its_bound_ends_the_run(tmp_path):
    """The run returns an error code; sizes and outputs are unchanged."""
    library = tvmrt.compile(COUNTED["top k"].make(), dims={"n": 9}, target="cortex-m4", **C)
    library.export_sources(tmp_path)
    shared = build_shared(tmp_path)
    x, k = np.arange(15, dtype=np.float32), np.array([6])
    outputs, counts = [Memory(4 * 15), Memory(8 * 15)], (ctypes.c_int32 * 1)(-7)
    given = pointers([x.ctypes.data, k.ctypes.data]), pointers([m.address for m in outputs])
    before = [ctypes.string_at(m.address, m.nbytes) for m in outputs]
    assert shared.tvmgen_net_run(*given, sizes_of_dims(5), counts) == -1
    assert [ctypes.string_at(m.address, m.nbytes) for m in outputs] == before
    assert counts[0] == -7
    assert shared.tvmgen_net_run(*given, sizes_of_dims(5), None) == INVALID
    k[0] = 4
    assert shared.tvmgen_net_run(*given, sizes_of_dims(5), counts) == 0
    assert counts[0] == 4
    assert all(memory.is_sound() for memory in outputs)
    shapes = (ctypes.c_int32 * 7)()
    assert shared.tvmgen_net_measure(sizes_of_dims(5), counts, shapes, None) == 0
    assert list(shapes) == [3, 5, 1, 3, 4, 3, 4]
    counts[0] = 10
    assert shared.tvmgen_net_measure(sizes_of_dims(5), counts, shapes, None) == OUT_OF_RANGE


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """Return the network with batch and seq; inputs and outputs are in a caller-provided pool."""
    folder = tmp_path_factory.mktemp("encoder")
    case = CASES["encoder"]
    library = tvmrt.compile(case.make(), dims=case.dims, target="cortex-m4", **C)
    library.export_sources(folder)
    return library, build_shared(folder)


def sizes_of_dims(*numbers: int):
    return (ctypes.c_int32 * len(numbers))(*numbers)


def structs(batch: int, seq: int):
    """Return inputs, outputs with guards, and both as structs of pointers."""
    rng = np.random.default_rng(batch + seq)
    inputs = CASES["encoder"].inputs(rng, {"batch": batch, "seq": seq})
    outputs = [Memory(4 * batch * seq * 32), Memory(4 * batch * 32)]
    given = pointers([a.ctypes.data for a in inputs.values()])
    return inputs, outputs, given, pointers([m.address for m in outputs])


WRONG = [
    pytest.param((0, 5), OUT_OF_RANGE, id="below"),
    pytest.param((4, 5), OUT_OF_RANGE, id="beyond"),
    pytest.param((2, 41), OUT_OF_RANGE, id="second"),
    pytest.param((-1, 5), OUT_OF_RANGE, id="negative"),
    pytest.param((2, 2**31 - 1), OUT_OF_RANGE, id="largest"),
    pytest.param(None, INVALID, id="none"),
]


@pytest.mark.parametrize("sizes, code", WRONG)
def test_sizes_beyond_their_bounds_are_refused(encoder, sizes, code):
    """Every function with sizes refuses them; nothing is written."""
    _, shared = encoder
    _, outputs, given, results = structs(2, 5)
    before = [ctypes.string_at(m.address, m.nbytes) for m in outputs]
    dims = None if sizes is None else sizes_of_dims(*sizes)
    state, bytes_ = (ctypes.c_size_t * 64)(), (ctypes.c_size_t * 4)(80, 40, 1 << 20, 1 << 20)
    assert shared.tvmgen_net_run(given, results, dims) == code
    assert shared.tvmgen_net_run_checked(given, results, dims, bytes_) == code
    assert shared.tvmgen_net_step_begin(state, given, results, dims) == code
    assert shared.tvmgen_net_step(state, 1) == INVALID
    assert shared.tvmgen_net_measure(dims, None, None) == code
    assert [ctypes.string_at(m.address, m.nbytes) for m in outputs] == before


def test_error_code_is_explained(capsys):
    assert cli.main(["explain", hex(OUT_OF_RANGE)]) == 0
    text = capsys.readouterr().out
    assert "is out of range" in text
    assert "--dim" in text


def test_extents_and_bytes_follow_from_the_sizes(encoder):
    """The query function returns them, and the run checks the sizes of the caller's buffers."""
    library, shared = encoder
    inputs, outputs, given, results = structs(2, 7)
    shapes, needed = (ctypes.c_int32 * 9)(), (ctypes.c_size_t * 4)()
    assert shared.tvmgen_net_measure(sizes_of_dims(2, 7), shapes, needed) == 0
    assert list(shapes) == [2, 7, 2, 7, 2, 7, 32, 2, 32]
    ids, mask = inputs.values()
    assert list(needed) == [ids.nbytes, mask.nbytes, *(m.nbytes for m in outputs)]
    for i in range(4):
        for more in (-1, 1):
            has = (ctypes.c_size_t * 4)(*needed)
            has[i] += more
            wrong = more < 0 or i < 2  # an output buffer may be larger
            code = shared.tvmgen_net_run_checked(given, results, sizes_of_dims(2, 7), has)
            assert code == (MISMATCH if wrong else 0)
    assert shared.tvmgen_net_run_checked(given, results, sizes_of_dims(2, 7), needed) == 0
    assert all(memory.is_sound() for memory in outputs)
    session = runtime.InferenceSession(CASES["encoder"].make().SerializeToString())
    for memory, expected in zip(outputs, session.run(None, inputs)):
        found = np.frombuffer(ctypes.string_at(memory.address, memory.nbytes), np.float32)
        np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)
    header = library.sources.files["tvmgen_net.h"]
    assert "#define TVMGEN_NET_SEQ_MAX 40" in header
    assert f"#define TVMGEN_NET_OUTPUT0_SIZE {4 * 3 * 40 * 32}" in header


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("name", ["tagger", "convolutions", "decoder"])
def test_pools_are_those_of_the_largest_sizes(name, target):
    """Sizes are exact; a pool that is one byte smaller is refused with the sizes."""
    case = CASES[name]
    model = case.make()
    largest = case.inputs(np.random.default_rng(0), case.most())
    shapes = {n: a.shape for n, a in largest.items()}
    fixed = tvmrt.compile(model, shapes=shapes, target=target, **C).summary
    sized = tvmrt.compile(model, dims=case.dims, target=target, **C).summary
    assert sized.arena_bytes == fixed.arena_bytes
    assert sized.lower_bound_bytes == fixed.lower_bound_bytes
    if name == "tagger":
        pools = {"sram": sized.arena_bytes}
        tvmrt.compile(model, dims=case.dims, target=target, pools=pools, **C)
        short = {"sram": sized.arena_bytes - 1}
        sentence = (
            r"is 1 bytes too small for the network at its largest sizes \(seq = 1..30\); the peak"
        )
        with pytest.raises(ValueError, match=sentence):
            tvmrt.compile(model, dims=case.dims, target=target, pools=short, **C)


def test_tensors_in_pools_and_networks_together(tmp_path):
    """Inputs and outputs are in the workspace of two networks, each with sizes of its own."""
    names = ("perceptron", "tagger")
    models = {name: CASES[name].make() for name in names}
    image = tvmrt.compile_together(
        models, dims={n: CASES[n].dims for n in names}, target="cortex-m4", interface_api="c",
        workspace_io=True,
    )  # fmt: skip
    image.export(tmp_path / "out")
    shared = build_shared(tmp_path / "out")
    rng = np.random.default_rng(8)
    for name, size in (("tagger", 30), ("perceptron", 8), ("tagger", 3), ("perceptron", 5)):
        case = CASES[name]
        inputs = case.inputs(rng, dict.fromkeys(case.dims, size))
        place = {}
        for kind in ("inputs", "outputs"):
            function = getattr(shared, f"tvmgen_{name}_map_{kind}")
            function.restype = ctypes.c_void_p  # the struct of one pointer
            place[kind] = function()
        (given,) = (np.ascontiguousarray(a) for a in inputs.values())
        ctypes.memmove(place["inputs"], given.ctypes.data, given.nbytes)
        assert getattr(shared, f"tvmgen_{name}_run")(sizes_of_dims(size)) == 0
        session = runtime.InferenceSession(models[name].SerializeToString())
        (expected,) = session.run(None, inputs)
        found = np.frombuffer(ctypes.string_at(place["outputs"], expected.nbytes), np.float32)
        np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


def test_archives_list_their_dimensions(tmp_path, capsys):
    case = CASES["encoder"]
    library = tvmrt.compile(case.make(), dims=case.dims, target="riscv32", **C)
    library.export(tmp_path / "net.tar")
    with tarfile.open(tmp_path / "net.tar") as archive:
        message = json.load(archive.extractfile("./metadata.json"))["modules"]["net"]["dims"]
    assert message["dims"] == {"batch": [1, 3], "seq": [1, 40]}
    assert cli.main(["inspect", str(tmp_path / "net.tar")]) == 0
    text = capsys.readouterr().out
    assert re.search(r"seq +1 +40\s", text)
    assert re.search(r"inputs +mask +batch x seq", text)


PROFILED = """
#include <stdio.h>
#include <tvmgen_net.h>
uint32_t tvmrt_platform_cycles(void);
uint32_t tvmrt_platform_cycles(void) {
  static uint32_t now;
  return now += 7;
}
int main(void) {
  static int64_t ids[30];
  static float tags[30 * 7];
  struct tvmgen_net_inputs inputs = {ids};
  struct tvmgen_net_outputs outputs = {tags};
  struct tvmgen_net_dims dims = {11};
  FILE *out = fopen("dump.bin", "wb");
  if (out == NULL || tvmgen_net_run(&inputs, &outputs, &dims) != 0) return 1;
  if (fwrite(&tvmgen_net_trace, sizeof(tvmgen_net_trace), 1, out) != 1) return 2;
  return fclose(out) == 0 ? 0 : 3;
}
"""


def test_cycles_of_operators_are_recorded(tmp_path):
    model = CASES["tagger"].make()
    library = tvmrt.compile(model, dims={"seq": 30}, target="cortex-m4", profile=True, **C)
    library.export_sources(tmp_path)
    (tmp_path / "main.c").write_text(PROFILED)
    flags = [f"-I{path}" for path in [tmp_path, *find_include_path()]]
    sources = [str(path) for path in sorted(tmp_path.glob("*.c"))]
    program = str(tmp_path / "program")
    subprocess.run(["cc", *STRICT, *flags, *sources, "-lm", "-o", program], check=True)
    subprocess.run([program], cwd=tmp_path, check=True)
    records = (tmp_path / "dump.bin").read_bytes()[44:]  # after the header
    cycles = [row[2] for row in struct.iter_unpack("<HHIIII", records)]
    assert cycles == [7] * len(library.program.steps)


def test_networks_of_an_image_have_dimensions_of_their_own(tmp_path, capsys):
    """Use the command; an option for no network of the image is refused with the right form."""
    models = {name: tmp_path / f"{name}.onnx" for name in ("perceptron", "tagger")}
    for name, path in models.items():
        onnx.save(CASES[name].make(), path)
    words = ["compile", *map(str, models.values()), "-o", str(tmp_path / "image"),
             "--target", "cortex-m4", "--interface-api", "c"]  # fmt: skip
    bounds = ["--dim", "tagger:seq<=9", "--dim", "perceptron:batch=2..3"]
    assert cli.main([*words, *bounds]) == 0
    headers = {name: (tmp_path / "image" / f"tvmgen_{name}.h").read_text() for name in models}
    assert "#define TVMGEN_TAGGER_SEQ_MAX 9" in headers["tagger"]
    assert "#define TVMGEN_PERCEPTRON_BATCH_MIN 2" in headers["perceptron"]
    assert cli.main([*words, "--dim", "seq<=9"]) == 2
    assert "name one: NETWORK:DIMENSION=..." in capsys.readouterr().err


REFUSED = [
    pytest.param({"target": "cortex-m4", "unpacked_api": False}, 'executor="aot" with unpacked_api',
                 id="packed-operators"),
    pytest.param({"target": "cortex-m4", "record": True, **C},
    "record does not support dynamic dimensions",
                 id="record"),
]  # fmt: skip


@pytest.mark.parametrize("options, sentence", REFUSED)
def test_options_incompatible_with_dynamic_sizes_are_refused(options, sentence):
    case = CASES["perceptron"]
    with pytest.raises(UnsupportedError, match=sentence):
        tvmrt.compile(case.make(), dims=case.dims, **options)
