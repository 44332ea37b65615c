"""Networks with custom operators, built from nodes in one line, compiled and run."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

import tvmrt
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.custom import C, Kernel, Tensor
from tvmrt.runtime.executor import AotModule

EXAMPLES = Path(__file__).parents[3] / "examples" / "custom_ops"
EXECUTORS = {"graph": GraphModule, "aot": AotModule}


def example(name: str):
    """Import the module of an example once."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def onnx_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, str],
    weights: Mapping[str, np.ndarray] | None = None,
    versions: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """Return a model with the domains of its nodes. ``outputs`` gives the numpy type of each."""
    domains = {n.domain: 1 for n in nodes if n.domain}
    domains.update(versions or {})

    def kind(dtype):
        return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info(k, kind(a.dtype), a.shape) for k, a in inputs.items()],
        [helper.make_tensor_value_info(k, kind(dtype), None) for k, dtype in outputs.items()],
        [onnx.numpy_helper.from_array(a, k) for k, a in (weights or {}).items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    opsets += [helper.make_opsetid(d, version) for d, version in domains.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def branches(domains: Mapping[str, str], result: onnx.ValueInfoProto) -> dict[str, onnx.GraphProto]:
    """Return the branches of an ``If`` with one operator each, which reads x; operators and their
    domains in order."""
    graphs = [
        helper.make_graph([helper.make_node(op, ["x"], [result.name], domain=d)], "b", [], [result])
        for op, d in domains.items()
    ]
    return {"then_branch": graphs[0], "else_branch": graphs[1]}


BODY = """
static int32_t f(const float *x, const tvmrt_shape *s, float *y, const tvmrt_shape *t) {
  (void)t;
  for (int64_t i = 0; i < s->size; ++i) y[i] = FACTOR * x[i];
  return 0;
}
"""


def times(factor: float = 1.0) -> C:
    """Return a C body that multiplies each element."""
    return C(BODY.replace("FACTOR", f"{float(factor)}f"), "f")


def kernel(**changes: Any) -> Kernel:
    """Return an operator ``d::Op`` from a float32 tensor to another, with some changes; it copies
    its input."""
    fields = {
        "name": "Op",
        "domain": "d",
        "inputs": [Tensor("x", "float32")],
        "outputs": [Tensor("y", "float32")],
        "c": times(),
    }
    return Kernel(**{**fields, **changes})


def run(library, inputs: Mapping[str, np.ndarray], folder: Path) -> list[np.ndarray]:
    """Export, load and run a compiled network; return its outputs."""
    path = folder / "net.so"
    library.export_library(path)
    factory = tvmrt.runtime.load_module(path)
    session = EXECUTORS[library.options.executor](factory["default"](tvmrt.cpu(0)))
    for name, array in inputs.items():
        session.set_input(name, tvmrt.nd.array(array))
    session.run()
    return [session.get_output(i).numpy() for i in range(session.get_num_outputs())]


def compiled(model: Any, inputs: Mapping[str, np.ndarray], folder: Path, **choices: Any):
    """Compile and run a model; return its outputs."""
    return run(tvmrt.compile(model, **choices), inputs, folder)
