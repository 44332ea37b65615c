"""``examples/audio``: the callback computes only, and removes noise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import onnx
import onnxruntime
import pytest

import tvmrt
from tvmrt.libinfo import find_include_path, find_lib_path

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples/audio"
COUNTER = ROOT / "tests/python/runtime/data/count_calls.c"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="periods are those of Linux"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The program, its network, and the library that counts calls."""
    folder = tmp_path_factory.mktemp("audio")
    subprocess.run(
        [sys.executable, str(EXAMPLE / "denoiser.py"), str(folder / "denoise.onnx")], check=True
    )
    library = tvmrt.compile(
        folder / "denoise.onnx", executor="aot", real_time=True, target="native"
    )
    library.export_library(folder / "denoise.so")
    runtime = Path(find_lib_path()[0])
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2"]
    includes = [f"-I{each}" for each in find_include_path()]
    links = [str(runtime), f"-Wl,-rpath,{runtime.parent}", "-lm", "-pthread"]
    program = ["cc", *flags, *includes, str(EXAMPLE / "audio.c"), *links]
    subprocess.run([*program, "-o", str(folder / "audio")], check=True)
    command = ["cc", "-std=gnu11", "-shared", "-fPIC", str(COUNTER), "-ldl"]
    subprocess.run([*command, "-o", str(folder / "counter.so")], check=True)
    return folder


def run(folder, *options, prefix=(), **environment):
    command = [*prefix, str(folder / "audio"), str(folder / "denoise.so"), *options]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def test_the_callback_allocates_and_locks_nothing_under_load(folder):
    done = run(folder, "--seconds", "4", "--load", "2", LD_PRELOAD=str(folder / "counter.so"))
    assert done.returncode == 0, done.stderr
    calls, periods = map(int, re.search(r"counted: (\d+) in (\d+) periods", done.stderr).groups())
    assert (calls, periods) == (0, 750), done.stderr
    assert re.search(r"blocks: 750 of 256 frames, \d+ xruns", done.stdout)
    levels = dict(re.findall(r"(pauses|tones): (.*)", done.stdout))
    (quiet, noisy), (after, before) = (
        map(float, re.findall(r"-?\d+\.\d", levels[name])) for name in ("pauses", "tones")
    )
    assert quiet < noisy - 10  # dB
    assert abs(after - before) < 1.5


def test_its_thread_only_sleeps_between_callbacks(folder):
    done = run(folder, "--seconds", "2", prefix=["strace", "-f", "-o", str(folder / "trace")])
    assert done.returncode == 0, done.stderr
    calls = [line.split(None, 1) for line in (folder / "trace").read_text().splitlines()]
    sleeps = [i for i, (_, call) in enumerate(calls) if call.startswith("clock_nanosleep(")]
    thread = calls[sleeps[0]][0]
    during = [call for tid, call in calls[sleeps[0] : sleeps[-1] + 1] if tid == thread]
    names = Counter(re.match(r"(?:<\.\.\. )?(\w+)", call).group(1) for call in during)
    assert set(names) == {"clock_nanosleep"} and names["clock_nanosleep"] >= 375


def test_unknown_options_and_networks_are_refused(folder):
    done = run(folder, "--frames", "3")
    assert done.returncode == 2 and "usage: audio LIBRARY.so" in done.stderr
    model = onnx.load(ROOT / "examples/digits/digits_int8.onnx")
    tvmrt.compile(model).export_library(folder / "digits.so")
    done = subprocess.run(
        [folder / "audio", folder / "digits.so"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "window" in done.stderr


def test_the_network_is_that_of_onnxruntime(folder):
    session = onnxruntime.InferenceSession(folder / "denoise.onnx")
    net = tvmrt.load(folder / "denoise.so")
    inputs = net.example_inputs()
    found = net(inputs)
    for name, expected in zip(("samples", "new_noise"), session.run(None, inputs)):
        assert abs(found[name] - expected).max() < 1e-4 * abs(expected).max()
