"""Type hints for users of the package, checked with mypy."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest
from markdown_pages import ROOT

sys.path.insert(0, str(ROOT / "docs"))
import option_types

from tvmrt.compiler import request

PROGRAM = """
import numpy as np
import tvmrt
from tvmrt.contrib.graph_executor import GraphModule

network = tvmrt.load("a.onnx", dims={"batch": 8})
reveal_type(network)
library = tvmrt.compile("a.onnx", executor="aot", pools={"ram": 1024})
reveal_type(library.summary.arena_bytes)
module = tvmrt.runtime.load_module("a.so")
reveal_type(module["default"])
executor = GraphModule(module["default"](tvmrt.cpu(0)))
executor.set_input("x", np.zeros((1, 3), np.float32))
reveal_type(executor.get_output(0).numpy())
reveal_type(tvmrt.get_global_func("f"))
tvmrt.compile("a.onnx", executor=3)
tvmrt.load("a.onnx", tarjet="host")
network.benchmarks()
"""
SEEN = ["Network", "int", "PackedFunc", "ndarray", "PackedFunc"]
WRONG = [15, 16, 17]


def test_option_types_match_the_request():
    have = option_types.STUB.read_text(encoding="utf-8").splitlines()
    now = option_types.text().splitlines()
    own = len(now) - len(request.plugin_options())
    # options of plug-ins are last, and a plug-in may be missing
    assert now[:own] == have[:own], "run: python docs/option_types.py"
    assert {*now[own:]} <= {*have[own:]}, "run: python docs/option_types.py"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy_sees_types_and_mistakes_of_a_program(tmp_path):
    """mypy in a user's environment knows every type, and finds every wrong line and no other."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.lstrip("\n"), encoding="utf-8")
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nstrict = true\nmypy_path = {ROOT / 'python'}\n")
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", program.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    shown = re.findall(r'Revealed type is "(?:[\w.]*\.)?(\w+)', text)
    assert shown == SEEN, text
    assert sorted({int(line) for line in re.findall(r":(\d+): error", text)}) == WRONG, text
