"""Composed operators: a function that adds nodes, used as one node."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, TensorType, Value
from tvmrt.compiler.ir.custom import enter_operator, evaluate_graph

from .graph_builder import GraphBuilder
from .operand import check_inputs, types_of
from .operator import Operator
from .scalars import REQUIRED, add_defaults

# Operators that the thread is expanding, outermost first.
_expanding: ContextVar[tuple[Composed, ...]] = ContextVar("expanding", default=())


class Composed(Operator):
    """Operator that is defined by a graph; made by the decorator :func:`composed`.

    In a network it is one node. A device that supports it by name takes it whole; otherwise the
    graph replaces it before the network is optimized. Inputs in half precision are float32 inside.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, domain: str, version: int, overrides: bool
    ) -> None:
        super().__init__(name, domain, version, function.__doc__ or "", overrides)
        self.function = function
        self.inputs, self.optional, self.defaults = _parameters(function, self.name)

    def add(
        self, builder: Builder, inputs: Sequence[Value | None], attrs: Mapping[str, Any], name: str
    ) -> list[Value]:
        values = self._values(attrs)
        inside = self.inside([None if v is None else v.type for v in inputs], values)
        enter_operator(builder.graph, self)
        for record in inside.operators.values():
            enter_operator(builder.graph, record)
        return builder.emit_many(
            "composed", inputs, name, operator=self, values=values, graph=inside
        )

    def inside(self, types: Sequence[TensorType | None], values: Mapping[str, Any]) -> Graph:
        """Build and return the inner graph for inputs of these types (None: left out).

        Raises ValueError when the function raises, or returns something other than tensors.
        """
        check_inputs(self.inputs, self.optional, types)
        outside = _expanding.get()
        if self in outside:
            names = [*map(str, outside), str(self)]
            raise ValueError(f"{self.name} uses itself: {' uses '.join(names)}")
        graph = GraphBuilder(self.op_type)
        operands = [
            None if type is None else graph.input(parameter, type.shape, type.dtype.name)
            for parameter, type in zip(self.inputs, types)
        ]
        operands += [None] * (len(self.inputs) - len(operands))
        state = _expanding.set((*outside, self))
        try:
            results = self.call("body", self.function, graph, *operands, **values)
        finally:
            _expanding.reset(state)
        for i, value in enumerate(results if isinstance(results, (tuple, list)) else [results]):
            if not isinstance(value, Value):
                raise ValueError(
                    f"body: result {i} is {value!r}, which is not a tensor of the graph"
                )
            graph.output(f"{self.op_type}:{i}", value)
        return graph.graph()

    def evaluate_node(
        self, arrays: Sequence[np.ndarray | None], attrs: Mapping[str, Any]
    ) -> list[np.ndarray] | None:
        """Evaluate the inner graph in numpy; None if an inner operator cannot be evaluated."""
        inside = self.inside(types_of(arrays), self._values(attrs))
        return evaluate_graph(inside, [a for a in arrays if a is not None])

    def _values(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        return add_defaults("attribute", self.defaults, attrs)


def composed(
    name: str, domain: str = "", version: int = 1, *, overrides: bool = False
) -> Callable[[Callable[..., Any]], Composed]:
    """Decorate a function to make it an operator.

    The function's first parameter is a :class:`GraphBuilder`; then come the inputs, None for an
    optional one that is left out (with the default None), and after ``*`` the attributes with
    their defaults. It adds nodes of built-in or custom operators, and returns its output or
    outputs. Its docstring documents the operator. It is called when a node's inputs are bound, so
    it may use ``x.shape`` and ``x.dtype``.

    ``name``, ``domain`` and ``version`` identify the ONNX nodes. ``overrides``: it replaces ONNX's
    own operator in the graphs that it is used for.
    """

    def make(function: Callable[..., Any]) -> Composed:
        return Composed(function, name, domain, version, overrides)

    return make


def _parameters(function: Callable[..., Any], name: str) -> Any:
    """Return names of inputs and of optional inputs, and attributes with their defaults."""
    inputs, optional, defaults = [], [], {}
    empty = inspect.Parameter.empty
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY:
            given = parameter.default
            defaults[parameter.name] = REQUIRED if given is empty else given
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            inputs.append(parameter.name)
            if parameter.default is not empty and parameter.default is not None:
                raise ValueError(
                    f"operator {name}: input {parameter.name} has the default "
                    f"{parameter.default!r}; optional inputs default to None, attributes come "
                    "after *"
                )
            if parameter.default is None:
                optional.append(parameter.name)
        else:
            raise ValueError(
                f"operator {name}: parameter *{parameter.name} is not supported; name each "
                "input, and each attribute after *"
            )
    return inputs, optional, defaults
