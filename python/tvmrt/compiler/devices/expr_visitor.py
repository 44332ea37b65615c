"""Visitor of regions for code generators."""

from __future__ import annotations

from typing import Any

from tvmrt.compiler.ir import Node, Region, Value


class ExprVisitor:
    """Visitor with one method per kind of expression; values are visited once, operands first.

    Subclasses define ``visit_var``, ``visit_constant`` and ``visit_call``; ``visit`` returns their
    stored results. A call with several results returns a list.
    """

    def __init__(self) -> None:
        self._done: dict[Value, Any] = {}

    def visit_region(self, region: Region) -> list[Any]:
        """Visit all inputs in order, then the tuple of the region's results."""
        for value in region.inputs:
            self.visit(value)
        return self.visit_tuple(region.outputs)

    def visit_tuple(self, fields: list[Value]) -> list[Any]:
        """Visit the fields of a tuple and return their results in order."""
        return [self.visit(value) for value in fields]

    def visit(self, value: Value) -> Any:
        """Return the result of visiting a value: an input, a constant, or one result of a call."""
        # iterative, because networks are deeper than Python's recursion limit
        stack = [value]
        while stack:
            top = stack[-1]
            if top in self._done:
                stack.pop()
                continue
            node = top.producer
            waiting = [] if node is None else [v for v in node.operands() if v not in self._done]
            if waiting:
                stack += reversed(waiting)
                continue
            self._visit_one(top)
        return self._done[value]

    def _visit_one(self, value: Value) -> None:
        node = value.producer
        if value.is_constant:
            self._done[value] = self.visit_constant(value)
        elif node is None:
            self._done[value] = self.visit_var(value)
        else:
            result = self.visit_call(node)
            results = result if isinstance(result, list) else [result]
            self._done.update(zip(node.outputs, results))

    def visit_var(self, value: Value) -> Any:
        """Visit an input of the region."""
        raise NotImplementedError(f"{type(self).__name__} does not implement visit_var")

    def visit_constant(self, value: Value) -> Any:
        """Visit a constant; its elements are ``value.data``."""
        raise NotImplementedError(f"{type(self).__name__} does not implement visit_constant")

    def visit_call(self, node: Node) -> Any:
        """Visit an operator; its operands have been visited."""
        raise NotImplementedError(f"{type(self).__name__} does not support {node.op}")
