"""Winograd convolutions: accuracy, selection, and layers that are computed directly."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.cli import main
from tvmrt.compiler import processor
from tvmrt.runtime.executor import AotModule

LEVELS = ("v2", "v3", "v4")


def convolution(channels=(32, 40), size=(21, 18), kernel=3, batch=1, groups=1, **attributes):
    """Return Conv, an add with another Conv, Relu and Mul as epilogues."""
    rng = np.random.default_rng(sum(size))
    ins, outs = channels
    attributes = {"pads": [kernel // 2] * 4, "group": groups, **attributes}

    def weights(count, depth, name):
        shape = (count, depth, kernel, kernel)
        w = rng.standard_normal(shape, np.float32) / np.float32(kernel * depth**0.5)
        return numpy_helper.from_array(w, name)

    initializers = [
        weights(outs, ins // groups, "w"),
        weights(outs, ins // groups, "v"),
        numpy_helper.from_array(rng.standard_normal(outs, np.float32), "b"),
        numpy_helper.from_array(rng.standard_normal((outs, 1, 1), np.float32), "factors"),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["other"], "first", **attributes),
        helper.make_node("Conv", ["x", "w", "b"], ["sums"], "second", **attributes),
        helper.make_node("Add", ["sums", "other"], ["both"]),
        helper.make_node("Relu", ["both"], ["positive"]),
        helper.make_node("Mul", ["positive", "factors"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, ins, *size])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "net", [x], [y], initializers)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def inputs_of(model) -> np.ndarray:
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    return np.random.default_rng(9).standard_normal(shape, np.float32)


def run(path, x) -> np.ndarray:
    executor = AotModule(tvmrt.runtime.load_module(str(path))["default"](tvmrt.cpu(0)))
    executor.set_input(0, x)
    executor.run()
    return executor.get_output(0).numpy()


def compiled(model, path, **options):
    """Return the summary of the library, which is written to ``path``."""
    library = tvmrt.compile(model, executor="aot", **options)
    library.export_library(path)
    return library.summary


def assert_near_onnxruntime(y, model, x) -> None:
    (right,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    assert np.abs(y - right).max() < 5e-6 * np.abs(right).max()


@pytest.mark.everyday(3)
@pytest.mark.parametrize("target", ["native", "host"])
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param({}, id="two-layers"),
        pytest.param({"pads": [0, 0, 0, 0]}, id="valid"),
        pytest.param({"pads": [2, 0, 1, 3]}, id="uneven-pads"),
        pytest.param({"batch": 3, "channels": (48, 33)}, id="batch"),
    ],
)
def test_results_match_onnxruntime(shape, target, tmp_path):
    model = convolution(**shape)
    x = inputs_of(model)
    summary = compiled(model, tmp_path / "net.so", winograd=True, target=target)
    assert [row.name for row in summary.winograd] == ["first", "second"]
    assert all(row.size in (2, 4) and row.gain > 1 for row in summary.winograd)
    assert_near_onnxruntime(run(tmp_path / "net.so", x), model, x)


def test_there_are_fewer_multiplications(tmp_path):
    model = convolution((64, 64), (32, 32))
    usual = compiled(model, tmp_path / "usual.so", winograd=False)
    fewer_muls = compiled(model, tmp_path / "fewer_muls.so", winograd=True)
    direct, fewer = (sum(op.macs for op in s.operators) for s in (usual, fewer_muls))
    assert fewer == pytest.approx(direct / 4)  # 36 multiplications for 16 pixels instead of 144
    assert fewer_muls.weights_bytes == pytest.approx(4 * usual.weights_bytes, rel=0.01)


def deep(channels: int, layers: int, extent: int):
    """Return a chain of 3x3 convolutions."""
    rng, shape = np.random.default_rng(3), (channels, channels, 3, 3)
    initializers, nodes, last = [], [], "x"
    for i in range(layers):
        w = rng.standard_normal(shape, np.float32) / np.float32(3 * channels**0.5)
        initializers.append(numpy_helper.from_array(w, f"w{i}"))
        nodes.append(helper.make_node("Conv", [last, f"w{i}"], [f"y{i}"], f"c{i}", pads=[1] * 4))
        last = f"y{i}"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, extent, extent])
    y = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "deep", [x], [y], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layers", "most"),
    [
        pytest.param(1, 4 << 20, id="small-limit"),
        pytest.param(8, 8 * 9 * 256 * 256 * 4 // 4, id="a-quarter"),
    ],
)
def test_default_weight_growth_is_bounded(layers, most, tmp_path):
    model = deep(256, layers, 32)
    usual, default, all_ = (
        tvmrt.compile(model, winograd=enabled).summary for enabled in (False, None, True)
    )
    assert usual.winograd == [] and len(all_.winograd) == layers
    assert default.weights_bytes - usual.weights_bytes <= most * 1.01
    assert all_.weights_bytes - usual.weights_bytes > most
    assert len(default.winograd) < layers or layers == 1


@pytest.mark.slow
def test_default_budget_selects_the_most_profitable_winograd_layers(tmp_path, capsys):
    model, path = convolution(), tmp_path / "net.onnx"
    onnx.save(model, path)
    assert main(["compile", str(path), "-o", str(tmp_path / "net.so"), "--executor", "aot"]) == 0
    assert "2 convolutions" in capsys.readouterr().out
    x = inputs_of(model)
    assert_near_onnxruntime(run(tmp_path / "net.so", x), model, x)
    for option in ("--no-winograd", "--precision=bf16"):
        assert main(["compile", str(path), "-o", str(tmp_path / "no.so"), option]) == 0
        assert "Winograd" not in capsys.readouterr().out


@pytest.mark.skipif(processor.machine() != "x86_64", reason="levels of x86-64")
def test_every_level_reads_the_same_weights(tmp_path, monkeypatch):
    model = convolution()
    x = inputs_of(model)
    compiled(model, tmp_path / "net.so", winograd=True, target="x86-64", levels=LEVELS)
    ran = 0
    for level in LEVELS:
        monkeypatch.setenv("TVMRT_LEVEL", level)
        path = tmp_path / f"{level}.so"
        path.write_bytes((tmp_path / "net.so").read_bytes())  # a level is selected once per file
        try:
            y = run(path, x)
        except tvmrt.TVMError as problem:
            assert level in str(problem)  # this processor lacks it
            continue
        assert_near_onnxruntime(y, model, x)
        ran += 1
    assert ran


@pytest.mark.everyday(1)
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param({"strides": [2, 2]}, id="stride"),
        pytest.param({"dilations": [2, 2], "pads": [2, 2, 2, 2]}, id="dilated"),
        pytest.param({"groups": 4}, id="groups"),
        pytest.param({"kernel": 5}, id="5x5"),
        pytest.param({"channels": (3, 8), "size": (9, 9)}, id="too-little-to-win"),
    ],
)
def test_other_layers_are_unchanged(shape, tmp_path):
    model = convolution(**shape)
    x = inputs_of(model)
    compiled(model, tmp_path / "usual.so", winograd=False)
    assert compiled(model, tmp_path / "net.so", winograd=True).winograd == []
    np.testing.assert_array_equal(run(tmp_path / "net.so", x), run(tmp_path / "usual.so", x))


def test_inaccurate_layer_uses_direct_convolution(tmp_path, capsys):
    path = tmp_path / "net.onnx"
    onnx.save(convolution(), path)
    command = ["compile", str(path), "-o", str(tmp_path / "net.so"), "--winograd", "--max-error"]
    assert main([*command, "1e-9"]) == 0
    reported = capsys.readouterr().out
    assert (
        "direct convolution" in reported and "second (" in reported and "Winograd" not in reported
    )
    assert main([*command, "1e-5"]) == 0
    reported = capsys.readouterr().out
    assert (
        "Winograd" in reported
        and "2 convolutions" in reported
        and "direct convolution" not in reported
    )


def test_dynamic_batch(tmp_path):
    model = convolution()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    summary = compiled(model, tmp_path / "net.so", winograd=True, dims={"N": 4})
    assert [row.size for row in summary.winograd] == [4, 4]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for images in (3, 1, 4):
        x = np.random.default_rng(images).standard_normal((images, 32, 21, 18), np.float32)
        expected = session.run(None, {"x": x})[0]
        np.testing.assert_allclose(run(tmp_path / "net.so", x), expected, rtol=1e-4, atol=1e-4)


def test_dynamic_height_uses_direct_convolution(tmp_path):
    model = convolution()
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "H"
    assert compiled(model, tmp_path / "net.so", winograd=True, dims={"H": 30}).winograd == []
