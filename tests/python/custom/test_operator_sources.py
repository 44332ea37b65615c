"""Sources of operators: Python files and installed wheels."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import numpy as np
import pytest
from custom_case import EXAMPLES, example, kernel, onnx_model
from onnx import helper, save

from tvmrt.cli.describe import describe
from tvmrt.compiler.ir.custom import call_of
from tvmrt.custom import GraphBuilder, OpenCL, composed, gather, load_operators

X = np.linspace(-3, 3, 7, dtype=np.float32)


def run_commands(folder, domain: str, op: str, *options: str, **variables: str) -> np.ndarray:
    """Compile a network of one node on the command line; return its result in another process,
    which has no declaration."""
    node = helper.make_node(op, ["x"], ["y"], domain=domain)
    save(onnx_model([node], {"x": X}, {"y": "f4"}), folder / "net.onnx")
    np.savez(folder / "in.npz", x=X)
    compiling = ["compile", "net.onnx", "-o", "net.so", *options]
    running = ["run", "net.so", "--inputs", "in.npz", "--outputs", "out.npz"]
    for command, more in ((compiling, variables), (running, {})):
        subprocess.run(
            [sys.executable, "-m", "tvmrt", *command],
            cwd=folder, env={**os.environ, **more}, check=True,
        )  # fmt: skip
    return np.load(folder / "out.npz")["y"]


def test_network_is_compiled_with_the_operators_of_a_file(tmp_path):
    shutil.copy(EXAMPLES / "hard_swish.py", tmp_path / "own.py")
    y = run_commands(tmp_path, "example.swish", "HardSwish", "--operators", "own.py")
    np.testing.assert_allclose(y, X * np.clip(X / 6 + 0.5, 0, 1), 1e-5, 1e-6)


def test_installed_wheel_registers_its_operators(tmp_path):
    """Only the network names the operator; the wheel's entry point provides it."""
    setuptools = pytest.importorskip("setuptools", reason="setuptools builds the wheel")
    if int(setuptools.__version__.split(".")[0]) < 71:
        pytest.importorskip("wheel", reason="an old setuptools needs wheel to build one")
    source = tmp_path / "wheel"
    shutil.copytree(EXAMPLES / "wheel", source)
    installing = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    done = subprocess.run(
        [*installing, "--no-build-isolation", "--target", str(tmp_path / "site"), str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    path = os.pathsep.join(filter(None, [str(tmp_path / "site"), *sys.path]))
    y = run_commands(tmp_path, "example.wheel", "Squash", PYTHONPATH=path)
    np.testing.assert_allclose(y, X / (1 + np.abs(X)), 1e-6)


def test_sizes_and_options_of_an_opencl_body_are_functions_of_the_node():
    body = OpenCL(
        "__kernel void f_f32() {}\n__kernel void f_i8() {}",
        {"float32": "f_f32", "int8": "f_i8"},
        global_size=lambda x, y, *, group: [-(-x.size // group) * group, 2],
        local_size=lambda x, y, *, group: [group, 1],
        build_options=lambda x, y, *, group: f"-DSIZE={x.size}",
    )
    g = GraphBuilder()
    own = kernel(opencl=body, scalars={"group": "int"})
    g.add(own, g.input("x", (5, 10)), group=32)
    (node,) = g.graph().nodes
    attrs = own.opencl.attributes(call_of(node))
    assert (attrs["global_size"], attrs["local_size"]) == ([64, 2], [32, 1])
    assert (attrs["build_options"], attrs["function"]) == ("-DSIZE=50", "f_f32")
    assert (attrs["scalar_types"], attrs["scalars"]) == ("int", [32])


FILES = {
    "none.py": (None, "none.py: the operator file does not exist"),
    "broken_ops.py": ("1 / 0", "broken_ops.py cannot be loaded .ZeroDivisionError"),
    "empty.py": ("x = 1", "empty.py declares no operator at its top level"),
    "ops.so": ("", "ops.so: operators are declared in a Python file; give a .py file"),
}


@pytest.mark.parametrize("name", FILES)
def test_file_without_usable_operators_is_named(tmp_path, name):
    text, sentence = FILES[name]
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises((ValueError, OSError, ImportError), match=sentence):
        load_operators(tmp_path / name)


@pytest.fixture
def installed(monkeypatch):
    """Return a function that registers operators as an installed wheel does."""

    def install(*operators, value="own_ops:listed"):
        monkeypatch.setitem(sys.modules, "own_ops", SimpleNamespace(listed=list(operators)))
        points = [EntryPoint("point", value, "tvmrt.operators")]
        monkeypatch.setattr("tvmrt.compiler.custom.catalogue.entry_points", lambda group: points)
        return gather([])

    return install


def test_installed_override_is_opt_in(installed):
    listed = load_operators(EXAMPLES / "rnn_cell.py")
    assert [o.name for o in listed] == ["example.recurrent::RNNCell", "example.recurrent::Rnn"]
    catalogue = installed(example("direct_conv").direct_conv, *listed)
    assert catalogue.find("example.recurrent", "Rnn", 1) is listed[1]
    assert catalogue.find("", "Conv", 17) is None


def test_inspect_lists_operators_of_installed_wheels(installed, tmp_path):
    node = helper.make_node("Twice", ["x"], ["y"], "twice", domain="example.vendor")
    twice = composed("Twice", domain="example.vendor")(lambda g, x: g.Add(x, x))
    save(onnx_model([node], {"x": X}, {"y": "f4"}), tmp_path / "net.onnx")
    installed()
    assert "unknown operator" in describe(tmp_path / "net.onnx").properties["why_not"]
    installed(twice)
    assert describe(tmp_path / "net.onnx").properties["can_be_imported"]
    installed(value="absent_package:listed")
    why = describe(tmp_path / "net.onnx").properties["why_not"]
    assert "entry point point (absent_package:listed) of group tvmrt.operators cannot be" in why
