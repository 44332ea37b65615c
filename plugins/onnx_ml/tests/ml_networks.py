"""Merge classical models into one network, so that they are compiled together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
import onnxruntime
from onnx import compose, helper

import tvmrt
from tvmrt.compiler.export import toolchain


def side_by_side(models: dict[str, onnx.ModelProto]) -> onnx.ModelProto:
    """Merge the models; tensor names start with the model's name and "/"."""
    parts = {}
    for name, model in models.items():
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        del copy.metadata_props[:]
        parts[name] = compose.add_prefix(copy, f"{name}/").graph
    graph = onnx.GraphProto(name="models")
    versions: dict[str, int] = {}
    for name, part in parts.items():
        for field in ("node", "initializer", "input", "output"):
            getattr(graph, field).extend(getattr(part, field))
        for opset in models[name].opset_import:
            known = versions.setdefault(opset.domain, opset.version)
            versions[opset.domain] = max(known, opset.version)
    imports = [helper.make_opsetid(*each) for each in versions.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def run(
    model: onnx.ModelProto,
    feeds: dict[str, np.ndarray],
    folder: Path,
    optimised: bool = True,
    **options,
) -> dict[str, np.ndarray]:
    """Return the outputs of a compiled library by name, compiled without optimisation if it has
    many operators."""
    shapes = {name: list(array.shape) for name, array in feeds.items()}
    library = tvmrt.compile(model, **{"shapes": shapes, **options})
    path = folder / "models.so"
    flags = toolchain.OPTIMISE if optimised else ("-O0",)
    with mock.patch.object(toolchain, "OPTIMISE", flags):
        library.export_library(path)
    module = tvmrt.runtime.load_module(str(path))
    network = tvmrt.contrib.graph_executor.GraphModule(module["default"](tvmrt.cpu(0)))
    network.set_input(**feeds)
    network.run()
    names = [output.name for output in model.graph.output]
    return {name: network.get_output(i).numpy() for i, name in enumerate(names)}


def by_onnxruntime(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict:
    """Return onnxruntime's outputs by name."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [output.name for output in model.graph.output]
    return dict(zip(names, session.run(names, feeds)))


def differences(found: dict, wanted: dict, rtol: float, atol: float) -> list[str]:
    """Return an error text for each output that differs."""
    said = []
    for name, array in wanted.items():
        got = found[name]
        if (got.dtype, got.shape) != (array.dtype, array.shape):
            said.append(f"{name} is {got.dtype}{got.shape}, expected {array.dtype}{array.shape}")
        elif not np.allclose(got, array, rtol, atol, equal_nan=True):
            worst = np.nanmax(np.abs(got.astype(float) - array.astype(float)))
            said.append(f"{name} differs by up to {worst}")
    return said


def one_node(op: str, inputs: Iterable[np.ndarray], outputs: int = 1, version: int = 3, **attrs):
    """Return a network of one ai.onnx.ml node with inputs x0, x1, ... and outputs y0, y1, ..."""
    infos = [
        helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for i, a in enumerate(inputs)
    ]
    results = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)]
    node = helper.make_node(
        op, [i.name for i in infos], [r.name for r in results], "node", domain="ai.onnx.ml", **attrs
    )
    graph = helper.make_graph([node], "one", infos, results)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)
