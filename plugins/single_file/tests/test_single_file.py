"""Test networks as two C files: they compile alone, and compute the same bits as the archive."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from firmware_call import Network
from varied_networks import varied_networks

import tvmrt
from tvmrt.cli import main
from tvmrt.error import UnsupportedError
from tvmrt.libinfo import find_include_path

STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wpedantic", "-Wmissing-prototypes"]
PICOLIBC = "--specs=picolibc.specs"
PICOLIBC_ARM = "/usr/lib/picolibc/arm-none-eabi/include"
PICOLIBC_RISCV = "/usr/lib/picolibc/riscv64-unknown-elf/include"
COMPILERS = {
    "gcc": ["gcc"],
    "clang": ["clang"],
    "m4": ["arm-none-eabi-gcc", PICOLIBC, "-mcpu=cortex-m4", "-mthumb"],
    "m0plus": ["arm-none-eabi-gcc", PICOLIBC, "-mcpu=cortex-m0plus", "-mthumb"],
    "m55": ["arm-none-eabi-gcc", PICOLIBC, "-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"],
    "rv32": ["riscv64-unknown-elf-gcc", PICOLIBC, "-march=rv32imc", "-mabi=ilp32"],
    "wasm32": [sys.executable, "-m", "ziglang", "cc", "--target=wasm32-wasi"],
    "lx106": ["xtensa-lx106-elf-gcc", "-mlongcalls"],
    "avr": ["avr-gcc", "-mmcu=atmega1284p"],
    "tcc": ["tcc"],
    "clang-m4": ["clang", "--target=arm-none-eabi", "-mcpu=cortex-m4", f"-isystem{PICOLIBC_ARM}"],
    "clang-rv32": ["clang", "--target=riscv32", "-march=rv32imac", f"-isystem{PICOLIBC_RISCV}"],
}
DIGITS = Path(__file__).parents[3] / "examples/digits/digits_int8.onnx"
NETWORKS = ["digits", *varied_networks()]
LIBRARY = {"math.h", "stddef.h", "stdint.h", "string.h"}
OPTIONS = {"target": "cortex-m0plus", "interface_api": "c", "module_name": "net"}


def _model(name: str) -> onnx.ModelProto:
    return onnx.load(DIGITS) if name == "digits" else varied_networks()[name]


def _run(command) -> None:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _shared(folder: Path, command, sources) -> ctypes.CDLL:
    """Return a library with these sources; skip the test without the compiler."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    with tempfile.NamedTemporaryFile(suffix=".so", dir=folder, delete=False) as file:
        _run([*command, "-fPIC", "-shared", *sorted(sources), "-lm", "-o", file.name])
    return ctypes.CDLL(file.name)


def _inputs(library) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {
        each.name: (rng.standard_normal(each.shape) * 2).astype(each.dtype)
        for each in library.summary.inputs
    }


def _includes(text: str) -> set[str]:
    return set(re.findall(r'^\s*#\s*include\s*[<"]([^>"]*)', text, re.MULTILINE))


@pytest.fixture(scope="module", params=NETWORKS)
def written(request, tmp_path_factory):
    """A network, its archive's C files, and its two files in a folder of their own."""
    folder = tmp_path_factory.mktemp("single")
    model = _model(request.param)
    library = tvmrt.compile(model, **OPTIONS)
    library.export_sources(folder / "many")
    (folder / "two").mkdir()
    library.export(folder / "two" / "net.c")
    return model, library, folder


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_files_compile_alone_without_warnings(written, compiler, level):
    command, folder = COMPILERS[compiler], written[2] / "two"
    if compiler == "wasm32":
        pytest.importorskip("ziglang")
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    headers = command[-1].removeprefix("-isystem")
    if headers != command[-1] and not Path(headers).is_dir():
        pytest.skip(f"{headers} is not installed")
    _run([*command, *STRICT, level, "-c", folder / "net.c", "-o", folder / "net.o"])


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_results_are_those_of_the_archive(written, compiler, level):
    _, library, folder = written
    includes = [f"-I{each}" for each in (folder / "many", *find_include_path())]
    two = _shared(folder, [compiler, *STRICT, level], [folder / "two" / "net.c"])
    many = _shared(folder, [compiler, "-std=c11", level, *includes], (folder / "many").glob("*.c"))
    inputs = _inputs(library)
    results = Network(library, two).run(inputs)
    for name, value in Network(library, many).run(inputs).items():
        assert value.tobytes() == results[name].tobytes(), name


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "tcc"])
def test_results_are_those_of_onnxruntime(written, compiler):
    model, library, folder = written
    inputs = _inputs(library)
    results = Network(library, _shared(folder, [compiler], [folder / "two" / "net.c"])).run(inputs)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for each, value in zip(session.get_outputs(), session.run(None, inputs)):
        np.testing.assert_allclose(results[each.name], value, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_only_the_four_headers_are_included_and_the_names_are_c_plus_plus(written):
    folder = written[2] / "two"
    source, header = ((folder / f"net.{kind}").read_text() for kind in "ch")
    assert _includes(source) <= {"net.h", *LIBRARY}
    assert _includes(header) == {"stddef.h", "stdint.h"}
    declared = set(re.findall(r"\b(tvmgen_net_\w+)\(", re.sub(r"/\*.*?\*/", "", header, flags=16)))
    assert declared
    for name in declared:  # nothing is declared that the file does not define
        assert re.search(rf"^\w[\w ]*\b{name}\([^;]*?\) \{{", source, re.MULTILINE), name
    (folder / "main.cpp").write_text('#include "net.h"\nint main() { return 0; }\n')
    _run(["g++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", folder / "main.cpp"])


def test_command_needs_no_options_and_names_functions_after_the_file(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("TVMRT_TARGET", raising=False)  # which chooses a target, as an option does
    assert main(["compile", str(DIGITS), "-o", str(tmp_path / "my digits.c")]) == 0
    (note,) = re.findall(r"^tvmrt: note: .*", capsys.readouterr().err, re.MULTILINE)
    assert "my digits.c is C for any processor" in note
    assert "--target NAME or --board NAME makes faster code" in note
    files = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert files.keys() == {"my digits.c", "my digits.h"}
    assert "int32_t tvmgen_my_digits_run(" in files["my digits.h"]
    assert _includes(files["my digits.c"]) <= {"my digits.h", *LIBRARY}
    _run(["cc", *STRICT, "-fsyntax-only", tmp_path / "my digits.c"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"pools": {"ccm": 65536}, "workspace_io": True},
        {"pools": {"ccm": 65536}, "place": {"*": "ccm"}},
        {"shapes": {"image": ["N<=4", 1, 8, 8]}, "requantize": "fixed-point"},
        {"ram": 2048},
        {"guard": "idle"},
        {"target": "rv32imac_zve32x"},
        {"target": "host", "runtime": "crt", "executor": "aot", "unpacked_api": True},
    ],
    ids=lambda options: next(iter(options)),
)
def test_files_of_networks_with_options_are_complete(options, tmp_path):
    tvmrt.compile(DIGITS, **{**OPTIONS, **options}).export(tmp_path / "net.c")
    _shared(tmp_path, ["gcc", *STRICT, "-O2", "-Wl,-z,defs"], [tmp_path / "net.c"])


@pytest.mark.slow
def test_program_of_the_page_runs(tmp_path):
    page = Path(__file__).parents[1] / "docs" / "c-file.md"
    (program,) = re.findall(r"^```c\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "main.c").write_text(program)
    assert main(["compile", str(DIGITS), "-o", str(tmp_path / "digits.c")]) == 0
    files = [tmp_path / "main.c", tmp_path / "digits.c"]
    _run(["cc", *STRICT, *files, "-lm", "-o", tmp_path / "main"])
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    zeros = np.zeros((1, 1, 8, 8), np.float32)
    (scores,) = onnxruntime.InferenceSession(str(DIGITS)).run(None, {"image": zeros})
    assert float(done.stdout.split(": ")[1]) == pytest.approx(scores[0, 0], rel=1e-4)


@pytest.mark.slow
def test_given_options_are_kept(tmp_path, capsys):
    command = ["compile", str(DIGITS), "-o", str(tmp_path / "a.c"), "--module-name", "other"]
    assert main([*command, "--board", "nrf52"]) == 0
    assert "tvmgen_other_run(" in (tmp_path / "a.h").read_text()
    assert "__ARM_FEATURE_DSP" in (tmp_path / "a.c").read_text()
    assert main([*command, "--target", "cortex-m0plus"]) == 0
    assert "note" not in capsys.readouterr().err


def test_networks_without_the_c_interface_are_errors(tmp_path, capsys):
    path = tmp_path / "net.c"
    assert main(["compile", str(DIGITS), "-o", str(path), "--interface-api", "packed"]) == 2
    assert "interface-api c" in capsys.readouterr().err
    with pytest.raises(ValueError, match='interface_api="c"'):
        tvmrt.compile(DIGITS).export(path)
    library = tvmrt.compile(DIGITS, **OPTIONS, profile=True)
    with pytest.raises(UnsupportedError, match="profile and record need a folder"):
        library.export(path)
    with pytest.raises(ValueError, match="choose another name"):
        tvmrt.compile(DIGITS, **OPTIONS).export(tmp_path / 'n"et.c')
    for name in ("math.c", "String.c", "stddef.c", "limits.c"):
        assert main(["compile", str(DIGITS), "-o", str(tmp_path / name)]) == 2
        assert f"{name}: its header would be {name[:-2].lower()}.h" in capsys.readouterr().err
    assert main(["compile", str(DIGITS), "-o", str(path), "--target", "x86-64"]) == 2
    assert "choose --target host for --runtime crt" in capsys.readouterr().err
    several = [str(DIGITS), "--module-name", "a,b", str(DIGITS)]
    assert main(["compile", *several, "-o", str(path)]) == 2  # before other options are judged
    assert "a .c file has one network" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


LIBRARY_CODES = "#include <tvm/runtime/crt/error_codes.h>"


@pytest.mark.slow
@pytest.mark.parametrize("compiler", [["gcc", "-std=c99"], ["g++", "-x", "c++", "-std=c++98"]])
def test_headers_of_networks_and_of_the_library_are_included_together(compiler, tmp_path):
    limited = {**OPTIONS, "shapes": {"image": ["N<=4", 1, 8, 8]}}  # another set of codes
    guarded = {**OPTIONS, "guard": "idle"}
    for name, options in {"aa": OPTIONS, "bb": limited, "cc": guarded}.items():
        tvmrt.compile(DIGITS, **{**options, "module_name": name}).export(tmp_path / f"{name}.c")
        _run(["gcc", *STRICT, "-c", tmp_path / f"{name}.c", "-o", tmp_path / "network.o"])
    own = [f'#include "{name}.h"' for name in ("aa", "bb", "cc")]
    body = "int main(void) { return kTvmErrorNetworkDimensionOutOfRange == 0x1104 ? 0 : 1; }"
    for place in range(4):
        lines = [*own[:place], LIBRARY_CODES, *own[place:]]
        for number, text in enumerate(["\n".join(lines), "\n".join(own[place:] + own[:place])]):
            (tmp_path / "main.c").write_text(f"{text}\n{body}\n")
            flags = ["-Wall", "-Wextra", "-Werror", "-Wpedantic"]
            folders = [f"-I{each}" for each in find_include_path()] if number == 0 else []
            _run([*compiler, *flags, *folders, tmp_path / "main.c", "-o", tmp_path / "main"])
            _run([tmp_path / "main"])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("compiler", ["gcc", "tcc"])
def test_infinite_weights_are_constants(compiler, dtype, tmp_path):
    limits = onnx.numpy_helper.from_array(np.array([np.inf, -np.inf, 0], dtype), "limits")
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, y = (onnx.helper.make_tensor_value_info(name, kind, [4, 3]) for name in "xy")
    node = onnx.helper.make_node("Max", ["x", "limits"], ["y"])
    graph = onnx.helper.make_graph([node], "limits", [x], [y], [limits])
    opset = onnx.helper.make_opsetid("", 17)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
    library = tvmrt.compile(model, **OPTIONS)
    library.export(tmp_path / "net.c")
    inputs = {"x": np.array([[-1e30, -np.inf, -2], [1, 2, 3], [0, -5, 4], [9, 8, -7]], dtype)}
    shared = _shared(tmp_path, [compiler], [tmp_path / "net.c"])
    (found,) = Network(library, shared).run(inputs).values()
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("output", "header"),
    [("net.c", "net.h"), ("mod.a --target host", "tvmgen_default.h")],
    ids=[".c", ".a"],
)
def test_header_that_tvmrt_did_not_write_is_kept(output, header, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / header
    path.write_text("#define MINE 1\n")
    command = ["compile", str(DIGITS), "-o", *output.split()]
    assert main(command) == 2
    assert f"{header} would be replaced" in capsys.readouterr().err
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {
        header: "#define MINE 1\n"
    }
    path.unlink()
    assert main(command) == 0
    written = path.read_text()
    path.write_text(written.replace("_run(", "_old("))
    assert main(command) == 0  # an older header of tvmrt is replaced
    assert path.read_text() == written


@pytest.mark.slow
@pytest.mark.parametrize("stem", ["3net", "int", "my-net", "a b", "über"])
def test_functions_have_valid_names_for_files_of_any_name(stem, tmp_path):
    file = tmp_path / f"{stem}.c"
    assert main(["compile", str(DIGITS), "-o", str(file)]) == 0
    run = re.search(r"(tvmgen_\w+_run)\(", file.with_suffix(".h").read_text())[1]
    program = f'#include "{stem}.h"\nint main(void) {{ return {run}(0, 0) == 0; }}\n'
    (tmp_path / "main.c").write_text(program)
    _run(["gcc", *STRICT, "-fsyntax-only", tmp_path / "main.c", file])


@pytest.mark.slow
def test_weights_for_an_archive_of_equal_options_fit_the_program(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = onnx.load(DIGITS)
    command = ["compile", "--params", "file", "-o"]
    assert main([*command, "net.c", str(DIGITS)]) == 0
    archive = "program.tar --target cortex-m0plus --interface-api c --module-name net"
    assert main([*command, *archive.split(), str(DIGITS)]) == 0
    for each in model.graph.initializer:  # a new training
        values = onnx.numpy_helper.to_array(each)
        if values.dtype == np.int8 and values.size > 100:
            each.CopyFrom(onnx.numpy_helper.from_array(values[..., ::-1].copy(), each.name))
    onnx.save(model, "new.onnx")
    assert main(["weights", "new.onnx", "--for", "program.tar", "-o", "new.bin"]) == 0
    (tmp_path / "main.c").write_text(WITH_WEIGHTS)
    _run(["gcc", *STRICT, "main.c", "net.c", "-lm", "-o", "main"])
    done = subprocess.run(["./main", "new.bin"], capture_output=True, text=True, check=True)
    image = {"image": (np.arange(64) % 17).astype(np.float32).reshape(1, 1, 8, 8)}
    (expected,) = onnxruntime.InferenceSession("new.onnx").run(None, image)
    (old,) = onnxruntime.InferenceSession(DIGITS).run(None, image)
    assert np.abs(old - expected).max() > 0.01
    found = np.array(done.stdout.split(), np.float32)
    np.testing.assert_allclose(found, expected.ravel(), rtol=1e-4, atol=1e-6)
    capsys.readouterr()
    assert main(["weights", "new.onnx", "--for", "net.c", "-o", "new.bin"]) == 2
    assert "its --target and its --module-name to an archive" in capsys.readouterr().err


@pytest.mark.slow
def test_weights_that_replace_those_of_another_program_are_reported_and_refused_by_it(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    command = ["compile", str(DIGITS), "--params", "file", "-o"]
    assert main([*command, "net.c"]) == 0
    (tmp_path / "main.c").write_text(WITH_WEIGHTS)
    _run(["gcc", *STRICT, "main.c", "net.c", "-lm", "-o", "main"])
    assert subprocess.run(["./main", "net.bin"], check=False).returncode == 0
    assert main([*command, "net.c"]) == 0  # again
    assert "warning" not in capsys.readouterr().err
    archive = ["--target", "cortex-m4", "--interface-api", "c"]
    assert main([*command, "net.tar", *archive]) == 0
    reported = "net.bin has weights for net.tar now; net.c, whose weights it may have had, refuses"
    assert reported in capsys.readouterr().err
    assert subprocess.run(["./main", "net.bin"], check=False).returncode == 2


WITH_WEIGHTS = """\
#include <stdio.h>
#include "net.h"
static _Alignas(16) unsigned char weights[1 << 14];
static float image[64], output[10];
int main(int argc, char **argv) {
  struct tvmgen_net_inputs inputs = {image};
  struct tvmgen_net_outputs outputs = {output};
  FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  if (file == NULL) return 1;
  const size_t size = fread(weights, 1, sizeof(weights), file);
  for (int i = 0; i < 64; ++i) image[i] = (float)(i % 17);
  if (tvmgen_net_set_weights(weights, size) != 0) return 2;
  if (tvmgen_net_run(&inputs, &outputs) != 0) return 3;
  for (int i = 0; i < 10; ++i) printf("%.9g ", (double)output[i]);
  return fclose(file);
}
"""
