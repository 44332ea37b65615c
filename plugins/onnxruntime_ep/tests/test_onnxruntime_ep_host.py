"""The execution provider in a C program with address and leak sanitizers, without Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

onnxruntime = pytest.importorskip("onnxruntime", minversion="1.24")
from ep_case import network, session  # noqa: E402

from tvmrt.libinfo import find_include_path, find_lib_path  # noqa: E402

FOLDER = Path(__file__).parents[1]
SANITIZERS = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
VERSION = '-DTVMRT_SDK_VERSION="1.2.0"'


def cc(*words: object) -> None:
    subprocess.run(["gcc", *SANITIZERS, "-D_GNU_SOURCE", *map(str, words)], check=True)


def write_header(name: Path, to: Path) -> None:
    command = [sys.executable, FOLDER / "generate.py", name]
    to.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_c_program_registers_runs_and_unloads_without_leaks(tmp_path):
    filters = np.linspace(-1, 1, 72, dtype=np.float32).reshape(8, 1, 3, 3)
    text = """
        net (float[5,16] x) => (float[5,8] y) {
            image = Reshape(x, size)
            c = Conv<pads = [1, 1, 1, 1]>(image, w)
            p = GlobalAveragePool(c)
            y = Flatten(p)
        }"""
    network_model = network(text, w=filters, size=np.array([5, 1, 4, 4]))
    model = tmp_path / "conv_ctx.onnx"
    entries = {"ep.context_enable": "1", "ep.context_file_path": str(model)}
    session(network_model, entries=entries)
    assert b"TVMBackendAllocWorkspace" in model.read_bytes()  # of the runtime, which it must find

    write_header(FOLDER / "positions.ini", tmp_path / "positions.h")
    write_header(FOLDER / "tests" / "host_positions.ini", tmp_path / "host_positions.h")
    folders = (tmp_path, *find_include_path(), FOLDER.parents[1] / "src_runtime")
    includes = [f"-I{each}" for each in folders]
    runtime = Path(find_lib_path()[0])
    link = [runtime, f"-Wl,-rpath,{runtime.parent}"]
    plugin, program = tmp_path / "ep.so", tmp_path / "host"
    sources = sorted((FOLDER / "src").rglob("*.c"))
    cc("-shared", "-fPIC", VERSION, *includes, *sources, *link, "-o", plugin)
    cc(*includes, FOLDER / "tests" / "host.c", "-ldl", "-o", program)

    (library,) = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")
    # onnxruntime keeps some memory of its own; what the plug-in or the runtime loses is found
    (tmp_path / "known.txt").write_text("leak:libonnxruntime\n")
    known = {"LSAN_OPTIONS": f"suppressions={tmp_path / 'known.txt'}:print_suppressions=0"}
    done = subprocess.run(
        [program, library, plugin, model],
        capture_output=True, text=True, check=False, env={**os.environ, **known},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    x = np.arange(80, dtype=np.float32).reshape(5, 16) / 80
    got = np.array(done.stdout.split(), np.float32).reshape(5, 8)
    (want,) = session(network_model, ours=False).run(None, {"x": x})
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
