"""Test that without the plug-in a ``.tflite`` file is refused with an error and all else works."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tflite_case import FILES

NETWORK = FILES / "gated_int8.tflite"
LEFT_OUT = "the plug-in tflite has .tflite, but TVMRT_PLUGINS leaves it out"


WORDS = [
    ["-m", "tvmrt", "compile", str(NETWORK), "-o", "net.so"],
    ["-m", "tvmrt", "inspect", str(NETWORK)],
    ["-m", "tvmrt", "verify", str(NETWORK)],
    ["-c", f"import tvmrt; tvmrt.load({str(NETWORK)!r})"],
]


@pytest.mark.parametrize("words", WORDS)
def test_file_is_refused_without_the_plugin(words, tmp_path):
    env = {**os.environ, "TVMRT_PLUGINS": "-tflite"}
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert f"{NETWORK}: {LEFT_OUT}" in done.stderr


@pytest.mark.parametrize("words", [WORDS[0], WORDS[-1]])
def test_reader_that_is_not_installed_is_named(words, tmp_path):
    (tmp_path / "flatbuffers.py").write_text("raise ModuleNotFoundError(name='flatbuffers')")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    advice = "a .tflite file needs the package flatbuffers: pip install 'tvmrt[compile]'"
    assert done.stderr.splitlines()[-1].endswith(f"rror: {advice}")
