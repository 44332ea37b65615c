"""Track the symbolic axes of a graph's inputs through its nodes and collect their uses.

Each axis of a tensor is mapped to the symbolic dimensions that it comes from. Integers made of
extents, such as the target shape of a Reshape, are tracked as well. For an unknown node, the
dimension names from ONNX shape inference are used; otherwise its axes stay unknown.
``axis_rules.py`` has the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any, Optional, Union

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvmrt.compiler.frontend.dimension_roles import DimUses
from tvmrt.compiler.operator_key import operator_name

from .tensors import constant_tensor

MAX_READ = 1 << 14  # maximum size of a constant that is read
MAX_NUMBERS = 256  # maximum size of a tracked integer tensor


@dataclass(frozen=True)
class Axis:
    """An axis of a tensor.

    Parameters
    ----------
    dims
        The symbolic dimensions of inputs that it comes from; empty for a fixed axis.
    step, window
        An extent of n needs ``step * n + window`` elements of the dimension.
    size
        The extent of a fixed axis; None if it is unknown.
    exact
        Whether the extent follows from its dimension by step and window alone.
    parts
        For a merged axis, the exact axes whose product is the extent.
    """

    dims: frozenset[str] = frozenset()
    step: Fraction = Fraction(1)
    window: Fraction = Fraction(0)
    size: int | None = None
    exact: bool = True
    parts: tuple[Axis, ...] = ()

    @property
    def name(self) -> str | None:
        """The dimension that alone determines the extent exactly; None if there is none."""
        return next(iter(self.dims)) if len(self.dims) == 1 and self.exact else None

    def after_window(self, kernel: int, stride: Fraction | int, pads: int = 0) -> Axis:
        """Return the axis after a window of ``kernel`` elements has moved along it."""
        window = self.step * (kernel - pads - stride) + self.window
        return replace(self, step=self.step * stride, window=window, size=None, parts=())

    def inexact(self) -> Axis:
        """Return an axis that depends on the same dimensions in an unknown way."""
        return replace(self, exact=False, size=None, parts=())

    def as_product_of(self, parts: Sequence[Axis]) -> Axis:
        """Return an axis of the same dimensions whose extent is the product of parts."""
        return replace(self, exact=False, size=None, parts=tuple(parts))

    def min_dim_size(self, extent: int) -> int:
        """Return the minimum size of the dimension at which the axis has this extent."""
        return max(ceil(self.step * extent + self.window), 0)


Axes = tuple[Axis, ...]
FIXED = Axis()
# An element of a shape: an integer, an axis whose extent it is, or None if unknown.
Element = Optional[Union[int, Axis]]


def union(axes: Iterable[Axis]) -> Axis:
    """Return an axis that depends on several axes."""
    parts = [axis for axis in axes if axis.dims]
    if not parts:
        return FIXED
    if len(parts) == 1:
        return parts[0]
    largest = max(parts, key=lambda axis: axis.step)
    dims = frozenset[str]().union(*(part.dims for part in parts))
    return replace(largest, dims=dims, exact=False, parts=())


def constant(size: int | None) -> Axis:
    """Return a fixed axis."""
    return Axis(size=size)


class AxisUses:
    """Axes of every tensor of a graph, and the uses of each symbolic dimension."""

    def __init__(self, model: onnx.ModelProto, inputs: Mapping[str, Sequence[int | str]]) -> None:
        """``inputs``: the shapes of the graph's inputs, with names for symbolic dimensions."""
        self.uses: dict[str, DimUses] = {}
        self.axes: dict[str, Axes] = {}
        self.values: dict[str, list[Element]] = {}  # integers made of extents
        self.positions: dict[str, tuple[Axis, int]] = {}  # numbers 0, 1, ... along an axis
        self.tensors: dict[str, onnx.TensorProto] = {}
        self.inputs = frozenset(inputs)
        self.failed = 0  # number of nodes that failed
        self.inferred: dict[str, tuple[int | str | None, ...]] = {}
        self._infer(model)
        self._add_initializers(model.graph)
        axis_indices: dict[str, set[int]] = {}
        for name, shape in inputs.items():
            self.axes[name] = tuple(
                Axis(frozenset([n])) if isinstance(n, str) else constant(n) for n in shape
            )
            for index, extent in enumerate(shape):
                if isinstance(extent, str):
                    axis_indices.setdefault(extent, set()).add(index)
        for name, found in axis_indices.items():
            self.uses[name] = DimUses(leading=0 in found)

    def _infer(self, model: onnx.ModelProto) -> None:
        if model.functions:  # remaining functions may call each other any number of times
            return
        try:
            # without data_prop, which needs memory for each element of a large vector
            graph = onnx.shape_inference.infer_shapes(model).graph
        except Exception:  # the rules suffice for networks that it cannot read
            graph = model.graph
        for info in (*graph.value_info, *graph.output):
            if info.type.HasField("tensor_type") and info.type.tensor_type.HasField("shape"):
                self.inferred[info.name] = tuple(
                    d.dim_value if d.HasField("dim_value") else d.dim_param or None
                    for d in info.type.tensor_type.shape.dim
                )

    def _add_initializers(self, graph: onnx.GraphProto) -> None:
        for tensor in graph.initializer:
            self.tensors[tensor.name] = tensor
            self.axes[tensor.name] = tuple(map(constant, tensor.dims))

    # ---- queries of the rules ----

    def read(self, name: str) -> np.ndarray | None:
        """Return a small constant; None for anything else."""
        tensor = self.tensors.get(name)
        if tensor is None or int(np.prod(tensor.dims, initial=1)) > MAX_READ:
            return None
        try:
            return numpy_helper.to_array(tensor)
        except Exception:  # external data
            return None

    def elements(self, name: str) -> list[Element] | None:
        """Return the integers of a shape as far as they are known; None if unknown."""
        if name in self.values:
            return self.values[name]
        array = self.read(name)
        if array is None or array.ndim > 1 or array.dtype.kind not in "iub":
            return None
        if array.size > MAX_NUMBERS:
            return None
        result: list[Element] = [int(n) for n in array.reshape(-1)]
        self.values[name] = result
        return result

    def integer_array(self, name: str) -> np.ndarray | None:
        """Return the integers of a tensor of known shape, as an array of numbers and axes."""
        found, axes = self.elements(name), self.axes_of(name)
        if found is None or axes is None or any(axis.size is None for axis in axes):
            return None
        array = np.empty(len(found), dtype=object)
        array[:] = found
        shape = [axis.size for axis in axes]
        return array.reshape(shape) if int(np.prod(shape)) == array.size else None

    def rank(self, name: str) -> int | None:
        """Return the rank of a tensor; None if it is unknown."""
        if name in self.axes:
            return len(self.axes[name])
        return len(self.inferred[name]) if name in self.inferred else None

    def axes_of(self, name: str) -> Axes | None:
        """Return the axes of a tensor; None if they are unknown."""
        return self.axes.get(name)

    def note(self, axes: Iterable[Axis], **found: Any) -> None:
        """Note uses of all dimensions that some axes come from."""
        for name in {name for axis in axes for name in axis.dims}:
            for key, value in found.items():
                setattr(self.uses[name], key, value)

    def note_window(self, axes: Sequence[Axis], rank: int) -> None:
        """Note the last of a chain of windows that move along spatial axes."""
        for axis in axes:
            for name in axis.dims:
                uses = self.uses[name]
                uses.window_ranks.add(rank)
                if len(axis.dims) == 1:
                    uses.step = max(uses.step, axis.step)
                if axis.exact:
                    uses.min_size = max(uses.min_size, axis.min_dim_size(1))

    def note_limit(self, axis: Axis, extent: int) -> None:
        """Note that an axis has at most ``extent`` elements."""
        name = axis.name
        if name is not None and extent > 0:
            uses, high = self.uses[name], axis.min_dim_size(extent + 1) - 1
            uses.limit = high if uses.limit is None else min(uses.limit, high)

    def broadcast_axis(self, a: Axis, b: Axis) -> Axis:
        """Return the result axis of an element-by-element operation along two axes."""
        for one, other in ((a, b), (b, a)):
            if one.name is not None and not other.dims and (other.size or 0) > 1:
                first, last = (
                    one.min_dim_size(other.size or 0),
                    one.min_dim_size((other.size or 0) + 1) - 1,
                )
                self.uses[one.name].equal_ranges.add((first, last))
                return other if other.size else one
        if a.dims and b.dims:
            if a.name and b.name and a.name != b.name and (a.step, a.window) == (b.step, b.window):
                self.uses[a.name].combined_with.add(b.name)
                self.uses[b.name].combined_with.add(a.name)
            if a.name is not None and a.name == b.name and a.step == b.step:
                return max(a, b, key=lambda axis: axis.window)
            return a if a == b else union([a, b]).inexact()
        if a.dims or b.dims:
            return a if a.dims else b
        return a if b.size == 1 or (a.size or 0) > 1 else b

    def broadcast(self, names: Iterable[str]) -> Axes | None:
        """Return the result axes of an elementwise operator."""
        parts = [self.axes_of(name) for name in names if name]
        known = [part for part in parts if part is not None]
        if not known or len(known) < len(parts):
            return None
        rank = max(map(len, known))
        found: list[Axis] = [constant(1)] * rank
        for part in known:
            padded = (constant(1),) * (rank - len(part)) + part
            found = [self.broadcast_axis(a, b) for a, b in zip(found, padded)]
        return tuple(found)

    # ---- the walk ----

    def propagate(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Track the axes through nodes in topological order."""
        for node in nodes:
            if operator_name(node) == "Constant":
                self._add_constant(node)
                continue
            try:
                _apply_rule(self, node)
            except Exception:  # a node that violates its schema: the importer reports it
                self.failed += 1
            for name in node.output:
                if len(self.values.get(name, ())) > MAX_NUMBERS:  # not a shape
                    del self.values[name]
            for name in node.output:
                if name and name not in self.axes:
                    self._set_inferred_axes(name)

    def _add_constant(self, node: onnx.NodeProto) -> None:
        tensor = constant_tensor(node)
        if tensor is not None and node.output:
            self.tensors[node.output[0]] = tensor
            self.axes[node.output[0]] = tuple(map(constant, tensor.dims))

    def _set_inferred_axes(self, name: str) -> None:
        """Set the axes of a result from its shape in the file or from shape inference."""
        shape = self.inferred.get(name)
        if shape is not None:
            self.axes[name] = tuple(
                Axis(frozenset([n])) if isinstance(n, str) and n in self.uses
                else constant(n if isinstance(n, int) else None)
                for n in shape
            )  # fmt: skip


Rule = Callable[[AxisUses, onnx.NodeProto, dict[str, Any]], None]
_RULES: dict[str, Rule] = {}  # "" is the rule for all other operators


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the rule of some operators."""

    def add(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names, function))
        return function

    return add


def _apply_rule(state: AxisUses, node: onnx.NodeProto) -> None:
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    name = operator_name(node).removeprefix("com.microsoft::")  # the rules cover both domains
    _RULES.get(name, _RULES[""])(state, node, attributes)


def operand(node: onnx.NodeProto, index: int) -> str:
    """Return the name of an operand, or "" if it is omitted."""
    return node.input[index] if len(node.input) > index else ""


def set_axes(state: AxisUses, node: onnx.NodeProto, axes: Axes | None, index: int = 0) -> None:
    """Set the axes of a node's result if they are known."""
    if axes is not None and len(node.output) > index and node.output[index]:
        state.axes[node.output[index]] = axes


def axes_list(
    state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any], index: int = 1
) -> list[int] | None:
    """Return the axes in an attribute or an operand; None if they are computed at run time."""
    if "axes" in attributes:
        return list(attributes["axes"])
    name = operand(node, index)
    found = state.elements(name) if name else []
    if found is None or not all(isinstance(n, int) for n in found):
        return None
    return [int(n) for n in found]  # type: ignore[arg-type]
