"""Functions that a model defines itself: expansion of a call, and versions of operators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import onnx

from tvmrt.compiler.operator_key import FunctionKey, domain_of, functions_by_key

from .check_ssa import name_of
from .model_file import opsets
from .tensors import subgraphs
from .unroll_limits import UnrollBudget


class ModelFunctions:
    """The functions of a model, and the calls that are being imported.

    ``opsets``: versions of the operators by domain, inside the innermost call. ``budget``: limit of
    the nodes that loops and calls expand to.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.opsets = opsets(model)
        self._by_key = functions_by_key(model)
        self.budget = UnrollBudget(self._by_key, model)
        self._active: list[FunctionKey] = []

    @property
    def is_inside(self) -> bool:
        """Whether the body of a function is being imported."""
        return bool(self._active)

    def find(self, node: onnx.NodeProto) -> onnx.FunctionProto | None:
        """Return the function that a node calls; None if it calls none."""
        return self._by_key.get(FunctionKey.called_by(node))

    def opset(self, node: onnx.NodeProto) -> int:
        """Return the version of a node's operator set."""
        return self.opsets.get(domain_of(node.domain), 1)

    @contextmanager
    def call(self, function: onnx.FunctionProto, is_standard: bool = False) -> Iterator[None]:
        """Import the body of a function; ``is_standard``: of ONNX, with opsets of its own. Raises
        ValueError if it calls itself."""
        key = FunctionKey.of(function)
        if key in self._active:
            raise ValueError(f"the function {function.name} calls itself")
        if not self._active:
            self.budget.add(self.budget.size(function.node))
        outer = self.opsets
        self._active.append(key)
        imports = {o.domain: o.version for o in function.opset_import}
        # a model has one version of ONNX's own operators
        own = {d: v for d, v in imports.items() if is_standard or domain_of(d)}
        self.opsets = {**outer, **own}
        try:
            yield
        finally:
            self.opsets = outer
            self._active.pop()


def expand_call(function: onnx.FunctionProto, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Return a function's nodes, prefixed by the calling node's name, with its attributes or
    their defaults."""
    values = {a.name: a for a in (*function.attribute_proto, *node.attribute)}
    nodes = []
    for inner in function.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(inner)
        copy.name = f"{name_of(node)}/{name_of(inner)}"
        _replace_references(copy, values)
        nodes.append(copy)
    return nodes


def _replace_references(node: onnx.NodeProto, values: dict[str, onnx.AttributeProto]) -> None:
    """Replace references to a function's attributes, also in graphs nested in the node; a reference
    without a value is removed."""
    for reference in [a for a in node.attribute if a.ref_attr_name]:
        node.attribute.remove(reference)
        if reference.ref_attr_name in values:
            bound = node.attribute.add()
            bound.CopyFrom(values[reference.ref_attr_name])
            bound.name = reference.name
    for graph in subgraphs(node):
        for inner in graph.node:
            _replace_references(inner, values)
