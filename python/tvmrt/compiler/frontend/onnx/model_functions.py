"""Functions that a model defines itself: expansion of a call, and versions of operators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import onnx

from .check_ssa import name_of
from .model_file import opsets
from .unroll_limits import UnrollBudget


class ModelFunctions:
    """The functions of a model, and the calls that are being imported.

    ``opsets``: versions of the operators by domain, inside the innermost call. ``budget``: limit of
    the nodes that loops and calls expand to.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.opsets = opsets(model)
        self._by_name = {(f.domain, f.name): f for f in model.functions}
        self.budget = UnrollBudget(self._by_name)
        self._active: list[tuple[str, str]] = []

    @property
    def is_inside(self) -> bool:
        """Whether the body of a function is being imported."""
        return bool(self._active)

    def find(self, node: onnx.NodeProto) -> onnx.FunctionProto | None:
        """Return the function that a node calls; None if it calls none."""
        return self._by_name.get((node.domain, node.op_type))

    def opset(self, node: onnx.NodeProto) -> int:
        """Return the version of a node's operator set."""
        return self.opsets.get("" if node.domain == "ai.onnx" else node.domain, 1)

    @contextmanager
    def call(self, function: onnx.FunctionProto) -> Iterator[None]:
        """Import the body of a function. Raises ValueError if it calls itself."""
        key = (function.domain, function.name)
        if key in self._active:
            raise ValueError(f"the function {function.name} calls itself")
        if not self._active:
            self.budget.add(self.budget.size(function.node))
        outer = self.opsets
        self._active.append(key)
        self.opsets = {**outer, **_foreign_versions(function)}
        try:
            yield
        finally:
            self.opsets = outer
            self._active.pop()


def expand_call(function: onnx.FunctionProto, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Return a function's nodes, prefixed by the calling node's name, with its attributes."""
    attributes = {a.name: a for a in function.attribute_proto}
    attributes.update({a.name: a for a in node.attribute})
    return [_bind_attributes(inner, name_of(node), attributes) for inner in function.node]


def _bind_attributes(inner: onnx.NodeProto, caller: str, attributes: dict) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(inner)
    copy.name = f"{caller}/{name_of(inner)}"
    del copy.attribute[:]
    for attribute in inner.attribute:
        if not attribute.ref_attr_name:
            copy.attribute.add().CopyFrom(attribute)
        elif attribute.ref_attr_name in attributes:
            bound = copy.attribute.add()
            bound.CopyFrom(attributes[attribute.ref_attr_name])
            bound.name = attribute.name
    return copy


def _foreign_versions(function: onnx.FunctionProto) -> dict[str, int]:
    """Return the versions of other domains than ONNX's own that a function imports; a model has one
    version per domain."""
    return {o.domain: o.version for o in function.opset_import if o.domain not in ("", "ai.onnx")}
