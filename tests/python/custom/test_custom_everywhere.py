"""Custom kernels and composed operators in archives, firmware, branches and functions."""

from __future__ import annotations

import pickle
import subprocess

import numpy as np
import pytest
from boards import BOARDS, run_network
from custom_case import branches, compiled, example, kernel, onnx_model, times
from onnx import helper

import tvmrt
from tvmrt.custom import GraphBuilder, composed
from tvmrt.libinfo import find_include_path

X = np.linspace(-6, 6, 30, dtype=np.float32).reshape(2, 3, 5)


def network() -> GraphBuilder:
    """Return a network of both kinds: twice the hard-swish."""
    double = composed("Double", "d")(lambda g, x: g.Add(x, x))
    g = GraphBuilder("both")
    g.output("y", g.add(double, g.add(example("hard_swish").hard_swish, g.input("x", X.shape))))
    return g


def test_operator_is_not_pickled():
    with pytest.raises(TypeError, match=r"d::Op cannot be pickled.*; export the compiled network"):
        pickle.dumps(kernel())


def test_archive_of_sources_is_complete(tmp_path):
    """The Model Library Format builds from the archive and the package's headers alone."""
    tvmrt.compile(network(), executor="aot").export_model_library_format(tmp_path / "net.tar")
    subprocess.run(["tar", "-xf", "net.tar"], cwd=tmp_path, check=True)
    folder = tmp_path / "codegen" / "host"
    assert any(p.name.startswith("custom_") for p in (folder / "include").iterdir())
    flags = [f"-I{path}" for path in find_include_path()]
    for source in sorted((folder / "src").glob("*.c")):
        command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", *flags, f"-I{folder}/include"]
        subprocess.run([*command, "-c", source, "-o", tmp_path / "part.o"], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-m4", "riscv32"])
def test_firmware_runs_both_kinds(tmp_path, target):
    board = BOARDS[target]
    library = tvmrt.compile(
        network(), target=target, interface_api="c", unpacked_api=True, module_name="net"
    )
    found = run_network(board, library, {"x": X}, tmp_path).outputs["y"]
    np.testing.assert_allclose(found, 2 * X * np.clip(X / 6 + 0.5, 0, 1), 1e-5, 1e-6)


@pytest.mark.parametrize("condition", [True, False])
def test_in_branches_and_functions_of_a_model(tmp_path, condition):
    end = helper.make_tensor_value_info("t", 1, [3])
    node = helper.make_node("If", ["c"], ["y"], **branches({"F": "local", "Neg": ""}, end))
    feeds = {"x": np.array([1, 2, 3], np.float32), "c": np.array(condition)}
    model = onnx_model([node], feeds, {"y": "f4"}, versions={"d": 1, "local": 1})
    own = helper.make_node("Op", ["a"], ["b"], domain="d")
    opsets = [helper.make_opsetid("d", 1)]
    model.functions.append(helper.make_function("local", "F", ["a"], ["b"], [own], opsets))
    (y,) = compiled(model, feeds, tmp_path, operators=[kernel(c=times(5))])
    np.testing.assert_array_equal(y, feeds["x"] * (5 if condition else -1))
