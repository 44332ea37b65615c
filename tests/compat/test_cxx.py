"""Test the C++ headers: a program and a library using TVM's names, as C++11 and C++20."""

from __future__ import annotations

import platform
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import tvmrt

SOURCES = Path(__file__).parent / "cxx"
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wno-unused-function"]
DIALECTS = [
    ("g++", 11),
    ("clang++", 20),
    pytest.param("g++", 20, marks=pytest.mark.slow),
    pytest.param("clang++", 11, marks=pytest.mark.slow),
]
NETWORK = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1,4] x) => (float[1,3] y) <float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}>
{ a = MatMul(x, w) y = Softmax(a) }"""


def _options(*names: str) -> list[str]:
    command = [sys.executable, "-m", "tvmrt", "config", *names]
    return shlex.split(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _build(compiler: str, standard: int, name: str, out: Path, *options: str) -> Path:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    command = [
        compiler, f"-std=c++{standard}", *STRICT, *_options("--cflags"),
        str(SOURCES / name), *options, "-o", str(out),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


VALUES = ["0.5", "-1", "0.25", "0.125"]


def _softmax() -> np.ndarray:
    scores = np.array(list(map(float, VALUES))) @ np.arange(1, 13).reshape(4, 3)
    return np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()


@pytest.mark.slow
@pytest.mark.parametrize(("compiler", "standard"), DIALECTS)
def test_program_of_the_deployment_guide(tmp_path, compiler, standard):
    plugin = _build(compiler, standard, "plugin.cc", tmp_path / "plugin.so", "-shared", "-fPIC")
    program = _build(compiler, standard, "program.cc", tmp_path / "program", *_options("--libs"))
    tvmrt.compile(parser.parse_model(NETWORK)).export_library(tmp_path / "net.so")
    command = [program, plugin, tmp_path / "net.so", *VALUES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "done" in done.stderr
    np.testing.assert_allclose([float(line) for line in done.stdout.split()], _softmax(), atol=1e-5)


@pytest.mark.slow
def test_program_that_queries_the_graph_inputs(tmp_path):
    """Pass library, graph and parameters separately; read maps, shapes and strings from objects."""
    program = _build("g++", 11, "runner.cc", tmp_path / "runner", *_options("--libs"))
    compiled = tvmrt.compile(parser.parse_model(NETWORK), executor="graph")
    compiled.export_library(tmp_path / "mod.so")
    (tmp_path / "mod.json").write_text(compiled.get_graph_json())
    (tmp_path / "mod.params").write_bytes(tvmrt.save_param_dict(compiled.get_params()))
    done = subprocess.run([program, tmp_path, *VALUES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose([float(line) for line in done.stdout.split()], _softmax(), atol=1e-5)
    expected = [
        "x float32 1 4",
        "y:0 float32 1 3",
        "GetRef: the argument is null, expected an object of type runtime.ShapeTuple",
    ]
    assert done.stderr.splitlines() == expected


def test_metadata_of_every_function_as_a_class(tmp_path):
    """The class of C++ has what Python reads."""
    model = parser.parse_model(NETWORK)
    tvmrt.compile(model, module_name="net").export_library(tmp_path / "net.so")
    expected = tvmrt.runtime.load_module(tmp_path / "net.so").metadata()
    lines = [f"{expected.module_name} {expected.version}"]
    for f in expected.functions:
        sizes = f.workspace_size_bytes, f.io_size_bytes, f.constant_size_bytes
        lines.append(" ".join(map(str, [f.function_name, *sizes])))
        for kind, rows in ("in", f.inputs), ("out", f.outputs):
            lines += [
                " ".join(map(str, [kind, p.relay_name_hint, p.tir_name_hint, p.dtype, 1, *p.shape]))
                for p in rows
            ]
    program = _build("g++", 11, "metadata.cc", tmp_path / "program", *_options("--libs"))
    for network in "", "net":
        command = [program, tmp_path / "net.so", network]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == lines
    command = [program, tmp_path / "net.so", "other"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "the library has no network other")


def test_library_of_cxx_functions_from_python(tmp_path):
    """C++ exceptions become Python errors; Python exceptions pass through C++."""
    plugin = _build("g++", 17, "plugin.cc", tmp_path / "plugin.so", "-shared", "-fPIC")
    library = tvmrt.runtime.load_module(plugin)
    assert library["add_one"](41) == 42
    with pytest.raises(tvmrt.TVMError, match="expected int but got str"):
        library["add_one"]("text")
    assert library["spell"](7) == "number 7"
    vector = tvmrt.nd.array(np.array([1, 2], np.float32))
    library["scale"](vector, 1.5)
    np.testing.assert_array_equal(vector.numpy(), [1.5, 3])

    def fails(x):
        raise KeyError(f"key {x}")

    with pytest.raises(Exception, match="key 3"):
        library["call_twice"](fails, 3)
    assert tvmrt.get_global_func("test.cxx.greet")("you", False) == "hello you"
    whole = tvmrt.get_global_func("test.cxx.whole")(vector)
    np.testing.assert_array_equal(whole.numpy(), [1.5, 3])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="what it needs is there on x86-64")
def test_errors_of_libraries_that_tvms_macro_exported(tmp_path):
    """Such libraries need two C++ symbols, which the runtime defines; errors are kept per
    thread."""
    path = _build("g++", 17, "exported.cc", tmp_path / "exported.so", "-shared", "-fPIC")
    addone = tvmrt.runtime.load_module(path)["addone"]
    assert addone(41) == 42

    def wrong(_: int) -> str:
        with pytest.raises(tvmrt.TVMError) as raised:
            addone("text")
        return str(raised.value)

    with ThreadPoolExecutor(2) as threads:
        texts = [wrong(0), wrong(1), *threads.map(wrong, range(4))]
    assert all("expected one int in a file" in text for text in texts)
    assert all("exported.cc:7" in text for text in texts)
    assert addone(1) == 2
