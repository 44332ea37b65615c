"""Test command lines of tvmc: the equivalent commands, and their results."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tvmrt
from tvmrt.cli import main
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.plugins.tvmc.command import GROUPS, shapes_of, target_of, without_groups


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """Return y = x @ w + 1, with a dynamic dimension of x."""
    w = np.arange(12, dtype="float32").reshape(3, 4)
    constants = [
        helper.make_tensor("w", TensorProto.FLOAT, w.shape, w.ravel()),
        helper.make_tensor("one", TensorProto.FLOAT, (1,), [1.0]),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Add", ["product", "one"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 3))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ("n", 4))
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    path = tmp_path_factory.mktemp("tvmc") / "model.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def right(model: Path, x: np.ndarray) -> np.ndarray:
    return onnxruntime.InferenceSession(str(model)).run(None, {"x": x})[0]


@pytest.fixture(scope="module")
def package(model) -> Path:
    path = model.with_name("module.tar")
    flags = ["--target", "llvm -mcpu=skylake", "--input-shapes", "x:[2,3]"]
    assert main(["tvmc", "compile", str(model), "-o", str(path), *flags]) == 0
    return path


def test_package_is_written_and_read_again(model, package, tmp_path, capfd):
    with tarfile.open(package) as tar:
        assert sorted(tar.getnames()) == ["mod.json", "mod.params", "mod.so"]
    x = np.random.default_rng(1).standard_normal((2, 3)).astype("float32")
    module = GraphModule(tvmrt.runtime.load_module(package)["default"](tvmrt.cpu(0)))
    module.run(x=x)
    np.testing.assert_allclose(module.get_output(0).numpy(), right(model, x), rtol=1e-6)
    np.savez(tmp_path / "in.npz", x=x)
    files = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz")]
    assert main(["tvmc", "run", str(package), *files, "--repeat", "2", "--number", "3"]) == 0
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_allclose(out["y"], right(model, x), rtol=1e-6)
    said = capfd.readouterr()
    assert said.err.strip() == f"tvmrt run {package} {' '.join(files)} --repeat 6"
    assert "6 runs: median" in said.out


def test_inputs_are_filled_and_the_largest_outputs_printed(model, package, capfd):
    asked = ["--fill-mode", "ones", "--print-top", "2"]
    assert main(["tvmc", "run", str(package), *asked]) == 0
    said = capfd.readouterr()
    flat = right(model, np.ones((2, 3), "float32")).ravel()
    assert "y: index 3 7\n" in said.out
    assert f"y: value {flat[3]:.6g} {flat[7]:.6g}\n" in said.out
    assert said.err.strip() == f"tvmrt run {package} --inputs ones.npz --outputs outputs.npz"
    assert main(["tvmc", "run", str(package), "--profile", "--print-time"]) == 0
    said = capfd.readouterr()
    assert said.err.strip() == f"tvmrt run {package} --random --repeat 2 --profile"


@pytest.mark.slow
def test_command_line_for_a_static_library_runs(model, tmp_path, capfd):
    flags = ["--output-format=a", "--runtime=crt", "--executor=aot", "--input-shapes", "x:[1,3]"]
    flags += ["--executor-aot-interface-api=c", "--executor-aot-unpacked-api=1"]
    output = tmp_path / "mod.a"
    assert main(["tvmc", "compile", str(model), "-o", str(output), *flags]) == 0
    wanted = f"tvmrt compile {model} --executor aot --shape x=1,3 --runtime crt --interface-api c"
    assert wanted in capfd.readouterr().err
    assert output.read_bytes().startswith(b"!<arch>\n")
    assert "tvmgen_default_run(" in (tmp_path / "tvmgen_default.h").read_text()
    assert target_of("c -mcpu=cortex-r5") == "cortex-r5f"


@pytest.mark.slow
def test_static_library_needs_no_executor_and_takes_compiler_options(
    model, tmp_path, capfd, monkeypatch
):
    monkeypatch.setenv("TVMRT_CFLAGS", "")  # restored after the command has set it
    flags = ["--input-shapes", "x:[1,3]", "--cross-compiler-options", "-O3 -DOPTION"]
    output = tmp_path / "mod.a"
    assert main(["tvmc", "compile", str(model), "-f", "a", "-o", str(output), *flags]) == 0
    wanted = f"TVMRT_CFLAGS='-O3 -DOPTION' tvmrt compile {model} --shape x=1,3 -o {output}"
    assert wanted in capfd.readouterr().err
    assert output.read_bytes().startswith(b"!<arch>\n")


def test_unsupported_flags_are_reported(model, tmp_path, capfd):
    flags = ["--desired-layout", "NHWC", "--pass-config", "a=1", "--tuning-records", "r.json"]
    flags += ["-O", "3", "--input-shapes", "x:[1,3]", "-f", "mlf", "--executor", "aot"]
    flags += ["--runtime-crt-system-lib", "1", "--executor-graph-link-params=0"]
    output = tmp_path / "mlf.tar"
    assert main(["tvmc", "compile", str(model), "-o", str(output), *flags]) == 0
    said = capfd.readouterr().err
    for flag in (
        "desired-layout", "pass-config", "tuning-records", "opt-level", "runtime-crt-system-lib",
        "executor-graph-link-params",
    ):  # fmt: skip
        assert f"note: --{flag} is not supported: " in said
    wanted = f"compile {model} --executor aot --shape x=1,3 -o {output}"
    assert f"tvmrt {wanted}\n" in said
    with tarfile.open(output) as tar:
        assert "./metadata.json" in tar.getnames() or "metadata.json" in tar.getnames()
    assert main(["tvmc", "tune", "--target", "llvm", "-o", "records.json", str(model)]) == 0
    assert "kernels are selected without tuning" in capfd.readouterr().err


def test_targets_and_shapes():
    for text, name in (
        (None, None),
        ("llvm", None),
        ("llvm -mcpu=skylake-avx512", None),
        ("llvm -mcpu=native", "native"),
        ("c -mcpu=cortex-m7", "cortex-m7"),
        ("c -keys=cpu -mcpu=cortex-m33+nofp", "cortex-m33"),
        ("llvm -mtriple=aarch64-linux-gnu", "aarch64-linux"),
    ):
        assert target_of(text) == name
    assert shapes_of("x:[1,3, 4] y: [2]") == ["x=1,3,4", "y=2"]


def test_flags_of_groups():
    known = {"--target", "--executor-aot-interface-api"}
    rest, reported = without_groups(
        ["m.onnx", "--target", "llvm", "--target-llvm-mcpu", "cortex-m4", "--target-c-keys=cpu",
         "--executor-aot-interface-api", "c"],
        known,
    )  # fmt: skip
    assert rest == [
        "m.onnx",
        "--target",
        "llvm -mcpu=cortex-m4",
        "--executor-aot-interface-api",
        "c",
    ]
    assert reported == [f"--target-c-keys is not supported: {GROUPS['target']}"]
    words = ["--target-llvm-mtriple=aarch64-linux-gnu", "m.onnx"]
    assert without_groups(words, known)[0] == [
        "m.onnx",
        "--target",
        "llvm -mtriple=aarch64-linux-gnu",
    ]


@pytest.mark.parametrize(
    "flags, text",
    [
        (["--target", "cuda"], "unknown target 'cuda'"),
        (["--target", "llvm -mtriple=ppc64"], "unknown target triple"),
        (["--input-shapes", "x 1 3"], "is not of the form"),
        (["--executor", "aot"], "a package is for the graph executor: name the output of aot"),
    ],
)
def test_unsupported_requests_are_reported(model, tmp_path, flags, text, capfd):
    output = tmp_path / "module.tar"
    assert main(["tvmc", "compile", str(model), "-o", str(output), *flags]) == 2
    assert text in capfd.readouterr().err
    assert not output.exists()
    assert main(["tvmc", "run", str(model), "--device", "cuda"]) == 2
    assert "there is no device 'cuda' to run on" in capfd.readouterr().err
    for line in (
        ["run", str(model), "--device", "micro", "--project-dir", "p"],
        ["micro", "build", "p"],
    ):
        assert main(["tvmc", *line]) == 2
        assert "firmware is built from the archive" in capfd.readouterr().err
