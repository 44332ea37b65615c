"""Functions that a model defines itself: expansion of a call, and versions of operators; limits for
their inlining, for unrolling of loops, and for tables.

A few bytes of a file can expand to any number of nodes: nested loops, or a function that calls
another one twice, which calls a third one twice. The nodes are counted before expansion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod

import onnx

from tvmrt.compiler.ir import limits
from tvmrt.compiler.ir.limits import MAX_UNROLLED_ITERATIONS
from tvmrt.compiler.operator_key import FunctionKey, domain_of, functions_by_key
from tvmrt.error import UnsupportedError

from .check_model import name_of
from .model_file import opsets
from .tensors import subgraphs


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
    their defaults. Raises ValueError if the node has more operands or results than the function."""
    for what, found, declared in (
        ("inputs", node.input, function.input),
        ("outputs", node.output, function.output),
    ):
        if len(found) > len(declared):
            raise ValueError(
                f"{len(found)} {what}, and the function {function.name} has {len(declared)}"
            )
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


class TableBudget:
    """The number of elements of all tables that the importers of a network make."""

    def __init__(self) -> None:
        self._total = 0

    def add(self, count: int, what: str, width: int = 1) -> None:
        """Add a table of ``count`` rows. Raises ValueError, which names ``what``, if the table or
        all tables together are too large. ``width``: elements per row."""
        limits.check_table(count, what, width)
        self._total += count * width
        if self._total > limits.MAX_TABLES:
            raise ValueError(
                f"with {what} of {count} elements the network's tables have "
                f"{self._total} elements; the maximum is {limits.MAX_TABLES}"
            )


def _max_nodes(model: onnx.ModelProto) -> int:
    """Return how many nodes a network may have in addition to those of its file."""
    weights = sum(prod(tensor.dims) for tensor in model.graph.initializer)
    in_functions = sum(len(function.node) for function in model.functions)
    return limits.max_unrolled_nodes(model.ByteSize() + weights) + in_functions


class UnrollBudget:
    """The number of nodes of one network in addition to those of its file; at most ``limit``."""

    def __init__(
        self, functions: Mapping[FunctionKey, onnx.FunctionProto], model: onnx.ModelProto
    ) -> None:
        self.limit = _max_nodes(model)
        self._functions = functions
        self._sizes: dict[FunctionKey, int] = {}
        self._total = 0
        self._enclosing_trips = 1  # product of the trip counts of enclosing loops

    def add(self, count: int) -> None:
        """Add ``count`` nodes. Raises ValueError if this exceeds the limit."""
        self._total += count
        expanded = max(self._total, self._enclosing_trips * count)
        if expanded > self.limit:
            raise ValueError(
                f"the network's loops, functions and concatenations expand to {expanded} nodes; "
                f"the maximum for a network of this size is {self.limit}; use fewer iterations"
            )

    def iterations(self, what: str, count: int, body: onnx.GraphProto) -> Iterator[int]:
        """Yield the iteration numbers of a loop that is unrolled."""
        if count > MAX_UNROLLED_ITERATIONS:
            raise UnsupportedError(
                f"a {what} of {count} iterations; at most {MAX_UNROLLED_ITERATIONS} are unrolled"
            )
        self.add(max(count, 0) * self.size(body.node))
        self._enclosing_trips *= max(count, 1)
        try:
            yield from range(count)
        finally:
            self._enclosing_trips //= max(count, 1)

    def size(self, nodes: Sequence[onnx.NodeProto]) -> int:
        """Return the number of expanded nodes, including branches and functions."""
        return sum(self._size_of(node) for node in nodes)

    def _size_of(self, node: onnx.NodeProto) -> int:
        key = FunctionKey.called_by(node)
        inside = sum(self.size(a.g.node) for a in node.attribute if a.HasField("g"))
        if key not in self._functions:
            return 1 + inside
        if key not in self._sizes:
            self._sizes[key] = 1  # a recursive function, which the importer rejects
            self._sizes[key] = self.size(self._functions[key].node)
        return self._sizes[key] + inside
