"""`--reproducible`: the same bits on every processor, for any batch, compiler and thread count.

The host's result is the reference: each other machine must give the same bits. onnxruntime says
whether it is right.
"""

from __future__ import annotations

import json
import os
import shutil
from functools import cache
from pathlib import Path

import boards
import golden_case
import networks_under_qemu
import numpy as np
import onnx
import pytest
import reproducible_networks
from dispatch_runs import load_at
from onnx import helper
from onnx_graph import model
from reproducible_networks import GROUPS, check_equal

import tvmrt
from tvmrt.compiler import processor
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.error import UnsupportedError
from tvmrt.runtime.executor import AotModule

ort = pytest.importorskip("onnxruntime")
DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx"
BLOCKS = {"int8": "products", "int4": "products"}  # groups with weights in blocks of few bits
EVERY = [*GROUPS, *BLOCKS]
OTHERS = sorted(set(GROUPS) - {"products", "rows"})


def network(group: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    return reproducible_networks.network(BLOCKS.get(group, group))


def compiled(group: str, **options) -> tvmrt.compiler.CompiledLibrary:
    if group in BLOCKS:
        options["weights"] = group
    return tvmrt.compile(network(group)[0], executor="aot", reproducible=True, **options)


def run(module, group: str) -> dict[str, np.ndarray]:
    runner = AotModule(module["default"](tvmrt.cpu(0)))
    runner.run(**network(group)[1])
    names = [output.name for output in network(group)[0].graph.output]
    return {name: runner.get_output(i).numpy() for i, name in enumerate(names)}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Return a function from a group to its outputs on this machine; each is computed once."""
    folder = tmp_path_factory.mktemp("reference")

    @cache
    def outputs(group: str) -> dict[str, np.ndarray]:
        compiled(group, target="native").export_library(folder / f"{group}.so")
        return run(tvmrt.runtime.load_module(folder / f"{group}.so"), group)

    return outputs


@pytest.mark.parametrize(
    "group", ["products", "rows", *(pytest.param(g, marks=pytest.mark.slow) for g in OTHERS)]
)
def test_layers_are_right(group, reference):
    made, inputs = network(group)
    session = ort.InferenceSession(made.SerializeToString())
    for found, expected in zip(reference(group).values(), session.run(None, inputs)):
        np.testing.assert_allclose(found, expected, rtol=3e-5, atol=3e-6)


def test_row_of_a_batch_has_the_bits_of_the_row_alone():
    rng = np.random.default_rng(4)
    weights = {
        "w": rng.standard_normal((200, 65)).astype(np.float32), "scale": np.ones(65, np.float32),
        "c": rng.standard_normal((6, 1, 3)).astype(np.float32), "shape": np.array([0, 1, 65]),
    }  # fmt: skip
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("LayerNormalization", ["product", "scale"], ["even"]),
        helper.make_node("Softmax", ["even"], ["share"]),
        helper.make_node("Reshape", ["share", "shape"], ["plane"]),
        helper.make_node("Conv", ["plane", "c"], ["y"]),
    ]
    x = rng.standard_normal((8, 200)).astype(np.float32)
    made = model(nodes, {"x": x}, ["y"], weights)
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    network = tvmrt.load(made, reproducible=True, cache=False)
    together = network(x)
    for number, row in enumerate(x):
        np.testing.assert_array_equal(network(row[None])[0], together[number])


@pytest.mark.parametrize("threads", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_threads(threads, tmp_path):
    rng = np.random.default_rng(4)
    weights = {"w": rng.standard_normal((64, 64, 3, 3)).astype(np.float32) * np.float32(0.1)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("ReduceMean", ["c"], ["m"], axes=[2, 3]),
        helper.make_node("Softmax", ["c"], ["y"]),
    ]
    x = rng.standard_normal((1, 64, 40, 40)).astype(np.float32)
    made = model(nodes, {"x": x}, ["m", "y"], weights)
    options = {"reproducible": True, "cache": tmp_path}
    few, many = (tvmrt.load(made, threads=count, **options)({"x": x}) for count in (1, threads))
    for name, array in few.items():
        np.testing.assert_array_equal(many[name], array)


@pytest.mark.slow
@pytest.mark.parametrize("flags", ["-O0", "-O1", "-O2"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_compilers(compiler, flags, reference, monkeypatch, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    monkeypatch.setenv("TVMRT_CFLAGS", flags)
    for group in EVERY:
        path = tmp_path / f"{group}.so"
        compiled(group, target="native", cc=compiler).export_library(path)
        check_equal(run(tvmrt.runtime.load_module(path), group), reference(group))


def test_functions_of_the_c_library_are_refused():
    made = model([helper.make_node("Exp", ["x"], ["y"])], {"x": np.zeros(3)}, ["y"])
    with pytest.raises(UnsupportedError, match=r"y computes exp\(\) with the C library, .*float32"):
        tvmrt.compile(made, reproducible=True)


def test_random_float64_numbers_are_refused_and_float32_numbers_are_equal(tmp_path):
    def normal(kind: int, path: Path) -> np.ndarray:
        row = helper.make_node("RandomNormal", [], ["y"], shape=[300], seed=2.0, dtype=kind)
        library = tvmrt.compile(model([row], {}, ["y"]), executor="aot", reproducible=True,
                                target="x86-64", levels=[path.stem])  # fmt: skip
        library.export_library(path)
        runner = AotModule(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))
        runner.run()
        return runner.get_output(0).numpy()

    with pytest.raises(UnsupportedError, match=r"tvmrt_normal_float64\(\) with the C library"):
        normal(onnx.TensorProto.DOUBLE, tmp_path / "v2.so")
    if processor.machine() == "x86_64":
        first, second = (normal(1, tmp_path / f"{level}.so") for level in ("v2", "v3"))
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"winograd": True}, "winograd"),
        ({"precision": "bf16"}, "precision"),
        ({"target": "armv7-linux"}, "levels"),
    ],
)
def test_options_that_change_the_order_are_refused(options, error):
    with pytest.raises((ValueError, UnsupportedError), match=error):
        tvmrt.compile(network("products")[0], reproducible=True, **options)


def test_digest_names_network_and_arithmetic(tmp_path):
    """It is equal for all targets, and another one for another network."""

    def digest(**options) -> dict:
        library = tvmrt.compile(DIGITS, reproducible=True, **options)
        library.export(tmp_path / "net")
        manifest = json.loads(next((tmp_path / "net").glob("*manifest.json")).read_text())
        shutil.rmtree(tmp_path / "net")
        return manifest["reproducible"]

    here = digest()
    assert here["arithmetic"] == 1
    assert digest(target="aarch64-linux") == digest(executor="aot") == here
    assert digest(shapes={"image": (3, 1, 8, 8)})["digest"] != here["digest"]


@pytest.mark.slow
@pytest.mark.skipif(processor.machine() != "x86_64", reason="levels of x86-64")
@pytest.mark.parametrize("group", EVERY)
def test_levels(group, reference, monkeypatch, tmp_path):
    features = processor.flags()
    levels = ["v2"]
    levels += ["v3"] if "avx2" in features else []
    levels += ["v4", "v4vnni"] if "avx512_vnni" in features else []
    compiled(group, target="x86-64", levels=levels).export_library(tmp_path / "net.so")
    for level in levels:
        module = load_at(tmp_path / "net.so", level, monkeypatch, tmp_path / f"{level}.so")
        check_equal(run(module, group), reference(group))


@pytest.mark.slow
@pytest.mark.parametrize("group", EVERY)
@pytest.mark.parametrize(
    ("target", "level", "cpu"),
    [
        ("aarch64-linux", "neon", "cortex-a53"),
        ("armv7-linux", "vfp", "cortex-a9"),
        ("riscv64-linux", "rv64", "rv64"),
        ("riscv64-linux", "rvv", "rv64,v=true,vext_spec=v1.0,vlen=128"),
    ],
)
def test_other_processors(machines, target, level, cpu, group, reference, tmp_path):
    with machines.serve(target, cpu) as port:
        compiled(group, target=target, levels=[level]).export_library(tmp_path / "net.so")
        found = networks_under_qemu.run(port, tmp_path / "net.so", network(group)[1])
    check_equal(dict(zip(reference(group), found)), reference(group))


@pytest.mark.slow
@pytest.mark.parametrize("group", EVERY)
@pytest.mark.parametrize(
    "target", ["cortex-m0plus", "cortex-m4", "cortex-m33", "cortex-m55", "riscv32"]
)
def test_boards(group, target, reference, tmp_path):
    board = {**boards.BOARDS, **boards.MORE_BOARDS}[target]
    if missing := board.missing_tool():
        pytest.skip(f"{missing} is not installed")
    library = compiled(group, target=target, interface_api="c")
    found = boards.run_network(board, library, network(group)[1], tmp_path)
    check_equal(dict(zip(reference(group), found.outputs.values())), reference(group))


@pytest.mark.slow
@pytest.mark.parametrize("name", golden_case.smallest(12))
def test_real_networks(name, machines, tmp_path):
    """One golden input; also on a board, if it has the memory and the types."""
    path = Path(os.environ["TVMRT_MODELS"]) / f"{name}.onnx"
    inputs, _ = golden_case.load(path.parent, name)
    tvmrt.compile(path, target="native", reproducible=True).export_library(tmp_path / "here.so")
    runner = GraphModule(tvmrt.runtime.load_module(tmp_path / "here.so")["default"](tvmrt.cpu(0)))
    runner.run(**inputs)
    here = [runner.get_output(i).numpy() for i in range(runner.get_num_outputs())]
    with machines.serve("aarch64-linux", "cortex-a53") as port:
        library = tvmrt.compile(path, target="aarch64-linux", levels=["neon"], reproducible=True)
        library.export_library(tmp_path / "net.so")
        for one, other in zip(networks_under_qemu.run(port, tmp_path / "net.so", inputs), here):
            np.testing.assert_array_equal(one, other)
    library = tvmrt.compile(path, target="cortex-m4", interface_api="c", reproducible=True)
    summary = library.summary
    if summary.arena_bytes + summary.weights_bytes < 3 << 20:
        outcome = boards.run_network(boards.BOARDS["cortex-m4"], library, inputs, tmp_path / "m4")
        for one, other in zip(outcome.outputs.values(), here):
            np.testing.assert_array_equal(one.reshape(other.shape), other)
