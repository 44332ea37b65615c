"""Check operator forms that ONNX files do not produce: rejected, or correct."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import tvmrt
from tvmrt.compiler.sdk.devices import (
    TYPE_KEY,
    Context,
    Device,
    ModuleBlob,
    call_device,
    region_text,
)
from tvmrt.compiler.sdk.graph import DTYPES, Graph, Node, Region, TensorType, Value
from tvmrt.compiler.sdk.pipeline import optimize_region
from tvmrt.error import UnsupportedError

from .finding import Finding
from .operators import difference

CHECK = "forms"
SYMBOL = "form"

# Shapes of a matmul's operands and of its bias, which broadcasts to the result.
BIASES = (
    ("one number", (3, 8), (8, 5), (1,)),
    ("a scalar", (3, 8), (8, 5), ()),
    ("a column", (3, 8), (8, 5), (3, 1)),
    ("a column of a square", (3, 8), (8, 3), (3, 1)),
    ("a row of two dimensions", (3, 8), (8, 5), (1, 5)),
    ("for each result", (3, 8), (8, 5), (3, 5)),
    ("for each matrix", (2, 3, 8), (2, 8, 5), (2, 1, 1)),
    ("a row for all matrices", (2, 3, 8), (8, 5), (5,)),
)


@dataclass
class _Form:
    """Matmul with its operands' values; all except the first are constants."""

    name: str
    operands: list[np.ndarray]

    @property
    def golden(self) -> np.ndarray:
        a, b, bias = self.operands
        return a @ b + bias

    def graph(self) -> Graph:
        kind = DTYPES["float32"]
        graph = Graph(SYMBOL)
        first, *rest = self.operands
        x = Value("x", TensorType(first.shape, kind))
        constants = [Value(f"w{i}", TensorType(a.shape, kind), data=a) for i, a in enumerate(rest)]
        node = Node("matmul", [x, *constants], {}, "n", ("n",))
        node.outputs = [Value("y", TensorType(self.golden.shape, kind), node)]
        graph.inputs, graph.nodes, graph.outputs = [x], [node], list(node.outputs)
        graph.output_names = ["y"]
        return graph


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Return a finding for each form that the device accepts."""
    if only and not any("MatMul".startswith(name) for name in only):
        return []
    return [finding for form in _forms() for finding in _checked(device, form, tolerance)]


def _forms() -> Iterator[_Form]:
    rng = np.random.default_rng(5)
    for how, *shapes in BIASES:
        values = [np.asarray(rng.normal(size=shape), np.float32) for shape in shapes]
        yield _Form(f"matmul: the bias is {how}", values)


def _checked(device: Device, form: _Form, tolerance: float) -> list[Finding]:
    try:
        payload = _generated(device, form.graph())
        if payload is None:
            return []
        load = tvmrt.get_global_func("tvmrt.device.load_regions")
        run = load(*payload).get_function(SYMBOL, True)
        y = tvmrt.nd.array(np.full(form.golden.shape, np.nan, np.float32))
        run(tvmrt.nd.array(form.operands[0]), y)
        _, wrong = difference(y.numpy(), form.golden, tolerance)
    except Exception as problem:  # a finding, not an end of the test
        wrong = str(problem) or type(problem).__name__
    return [Finding(CHECK, form.name, not wrong, wrong)]


def _generated(device: Device, graph: Graph) -> tuple[str, bytearray] | None:
    """Return the region's text and constants; None if rejected or compiled by the device."""
    region = Region(device.name, SYMBOL, graph, onnx_nodes=("n",))
    try:
        if call_device(device, "annotate", graph).get(graph.nodes[0], "not taken") is not None:
            return None
        if device.patterns or call_device(device, "evaluate", region) is not None:
            return None
        region = optimize_region(device, region)
        code = call_device(device, "codegen", [region], Context())
    except (UnsupportedError, NotImplementedError):
        return None
    if not isinstance(code, ModuleBlob) or code.type_key != TYPE_KEY:
        return None
    text, constants = region_text([region], device.name, device.version)
    return text, bytearray(constants)
