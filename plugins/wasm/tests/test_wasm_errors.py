"""Test errors of networks as WebAssembly: each is one sentence, and no file is written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from onnx import TensorProto, helper

import tvmrt
from tvmrt.cli import main
from tvmrt.error import UnsupportedError

DIGITS = str(Path(__file__).parents[3] / "examples/digits/digits_f32.onnx")
OPTIONS = {"target": "wasm32", "interface_api": "c"}


@pytest.mark.parametrize("name", ["net.wasm", "net.js"])
def test_without_a_compiler_the_error_has_the_command(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ziglang", None)
    assert main(["compile", DIGITS, "-o", str(tmp_path / name)]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "no C compiler for wasm32-wasi was found" in line
    assert "pip install 'tvmrt[cross]'" in line
    assert not [*tmp_path.iterdir()]


def test_a_compiler_without_webassembly_is_reported(tmp_path, capsys):
    assert main(["compile", DIGITS, "-o", str(tmp_path / "net.wasm"), "--cc", "false"]) == 2
    assert "C compiler false failed" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_a_compiler_in_a_folder_named_target_compiles_for_webassembly(tmp_path, capsys):
    compiler = tmp_path / "my target" / "cc"
    compiler.parent.mkdir()
    compiler.write_text('#!/bin/sh\necho "error: $*" >&2\nexit 1\n')
    compiler.chmod(0o755)
    assert main(["compile", DIGITS, "-o", str(tmp_path / "n.wasm"), "--cc", f"'{compiler}'"]) == 2
    assert " --target=wasm32-wasi " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("width", "words"),
    [(1 << 20, r"needs 8\.00 GiB"), (260 << 10, r"needs 2\.03 GiB")],  # input and output
)
def test_networks_beyond_the_memory_are_refused(width, words, tmp_path):
    """They have no weights; the C compiler is not started."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1024, width]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "large", [x], [y])
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    library = tvmrt.compile(model, **OPTIONS, max_memory=1 << 40)
    with pytest.raises(UnsupportedError, match=f"{words} .*a WebAssembly module has 2 GiB"):
        library.export(tmp_path / "net.wasm")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "cortex-m4"}, 'WebAssembly needs target="wasm32" and interface_api="c"'),
        ({"interface_api": "packed"}, 'needs target="wasm32" and interface_api="c"'),
        ({"profile": True}, "omit profile, record"),
        ({"pools": {"fast": 1 << 20}}, "pools that the caller provides"),
        ({"params": "file"}, 'and params="file", or write'),
    ],
)
def test_other_networks_are_refused(options, words, tmp_path):
    library = tvmrt.compile(DIGITS, **{**OPTIONS, **options})
    with pytest.raises((ValueError, UnsupportedError), match=r"net\.wasm: ") as raised:
        library.export(tmp_path / "net.wasm")
    assert words in str(raised.value)
    assert not [*tmp_path.iterdir()]
