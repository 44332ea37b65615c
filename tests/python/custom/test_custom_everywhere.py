"""Custom kernels and composed operators in files, other processes and firmware."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from boards import BOARDS, run_network
from custom_case import EXAMPLES, compiled, example, kernel, onnx_model, times
from onnx import helper

import tvmrt
from tvmrt.custom import GraphBuilder
from tvmrt.libinfo import find_include_path

X = np.linspace(-6, 6, 2 * 3 * 5 * 5, dtype=np.float32).reshape(2, 3, 5, 5)
WEIGHTS = np.random.default_rng(4).standard_normal((4, 3, 1, 1)).astype(np.float32)
STATE = np.random.default_rng(5).standard_normal((2, 6)).astype(np.float32)
WIDE = 100  # shapes of the cell's inputs


def network() -> GraphBuilder:
    """Return a network of both kinds: a convolution, hard-swish, and a recurrent cell."""
    g = GraphBuilder("both")
    x, state = g.input("x", X.shape), g.input("state", STATE.shape)
    v = g.add(example("hard_swish").hard_swish, g.Conv(x, WEIGHTS), out_scale=0.1)
    rng = np.random.default_rng(6)
    w, r = (rng.standard_normal(s).astype(np.float32) / 4 for s in ((6, WIDE), (6, 6)))
    g.output("y", g.add(example("rnn_cell").rnn_cell, g.Flatten(v), state, w, r)[0])
    return g


def expected() -> np.ndarray:
    v = np.einsum("nchw,mc->nmhw", X, WEIGHTS[:, :, 0, 0])
    v = 0.1 * v * np.clip(v / 6 + 0.5, 0, 1)
    rng = np.random.default_rng(6)
    w, r = (rng.standard_normal(s).astype(np.float32) / 4 for s in ((6, WIDE), (6, 6)))
    return np.tanh(v.reshape(2, -1) @ w.T + STATE @ r.T)


FEEDS = {"x": X, "state": STATE}


def test_loaded_library_needs_no_declaration(tmp_path):
    """The file has the operators' code: a process without their declarations runs it."""
    tvmrt.compile(network()).export_library(tmp_path / "net.so")
    np.savez(tmp_path / "feeds.npz", **FEEDS)
    program = (
        "import sys, numpy as np, tvmrt\n"
        "net = tvmrt.runtime.load_module('net.so')['default'](tvmrt.cpu(0))\n"
        "ex = tvmrt.contrib.graph_executor.GraphModule(net)\n"
        "ex.run(**np.load('feeds.npz'))\n"
        "np.save('y.npy', ex.get_output(0).numpy())\n"
        "assert 'tvmrt.custom' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(), 1e-4, 1e-5)


def test_pickled_library_has_the_operators_of_importable_modules(tmp_path):
    (tmp_path / "library.pickle").write_bytes(pickle.dumps(tvmrt.compile(network())))
    program = (
        f"import pickle, sys; sys.path.insert(0, {str(EXAMPLES)!r})\n"
        "library = pickle.load(open('library.pickle', 'rb'))\n"
        "print(*sorted({o.op for o in library.summary.operators if '::' in o.op}))\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["example.swish::HardSwish"]
    with pytest.raises(TypeError, match="d::Op cannot be pickled: module"):
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
    if board.missing_tool():
        pytest.skip(f"{board.missing_tool()} is not installed")
    library = tvmrt.compile(
        network(), target=target, interface_api="c", unpacked_api=True, module_name="net"
    )
    found = run_network(board, library, FEEDS, tmp_path)
    np.testing.assert_allclose(found.outputs["y"], expected(), 1e-4, 1e-5)


def test_builder_is_reusable_and_reproducible():
    g = network()
    before = len(g.graph().nodes)
    texts = [tvmrt.compile(g).sources.files for _ in range(2)]
    assert texts[0] == texts[1]
    assert len(g.graph().nodes) == before


@pytest.mark.parametrize("condition", [True, False])
def test_in_branches_and_functions_of_a_model(tmp_path, condition):
    end = [helper.make_tensor_value_info("t", 1, [3])]
    branches = [
        helper.make_graph([helper.make_node(op, ["x"], ["t"], domain=domain)], "branch", [], end)
        for op, domain in (("F", "local"), ("Neg", ""))
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    feeds = {"x": np.array([1, 2, 3], np.float32), "c": np.array(condition)}
    model = onnx_model([node], feeds, {"y": "f4"}, versions={"d": 1, "local": 1})
    own = helper.make_node("Op", ["a"], ["b"], domain="d")
    opsets = [helper.make_opsetid("d", 1)]
    model.functions.append(helper.make_function("local", "F", ["a"], ["b"], [own], opsets))
    (y,) = compiled(model, feeds, tmp_path, operators=[kernel(c=times(5))])
    np.testing.assert_array_equal(y, feeds["x"] * (5 if condition else -1))


def test_networks_of_one_image_share_the_body(tmp_path):
    def net(name: str) -> GraphBuilder:
        g = GraphBuilder(name)
        g.output("y", g.add(example("hard_swish").hard_swish, g.input("x", (8,))))
        return g

    image = tvmrt.compile_together(
        {"a": net("a"), "b": net("b")},
        target="cortex-m4", interface_api="c", unpacked_api=True,
    )  # fmt: skip
    image.export(tmp_path / "image")
    assert len(list((tmp_path / "image").rglob("custom_*.h"))) == 1
