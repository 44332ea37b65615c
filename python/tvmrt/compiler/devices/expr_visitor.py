"""Visitor of regions for code generators."""

from __future__ import annotations

from typing import Any

from tvmrt.compiler.ir import Node, Region, Value


class ExprVisitor:
    """Visitor with one method per kind of expression; values are visited once, operands first.

    Subclasses define ``visit_var``, ``visit_constant`` and ``visit_call``; ``visit`` returns their
    stored results. For a node with several results, and only for such a node, ``visit_call``
    returns a list with one entry per result; a visit may return a tuple of any length.
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
            self._done[value] = self._result("visit_constant", value)
        elif node is None:
            self._done[value] = self._result("visit_var", value)
        else:
            self._done.update(zip(node.outputs, self._results(node)))

    def _result(self, method: str, value: Value) -> Any:
        """Return what the method returns for an input or a constant."""
        result = getattr(self, method)(value)
        if isinstance(result, list):
            raise TypeError(
                f"{type(self).__name__}.{method} returned a list of {len(result)} for "
                f"'{value.name}'; return one value, such as a tuple"
            )
        return result

    def _results(self, node: Node) -> list[Any]:
        """Return what visit_call returns for each result of a node."""
        result, count = self.visit_call(node), len(node.outputs)
        if isinstance(result, list) != (count > 1) or (count > 1 and len(result) != count):
            found = f"a list of {len(result)}" if isinstance(result, list) else "no list"
            wanted = f"a list of {count}" if count > 1 else "one value, such as a tuple"
            raise TypeError(
                f"{type(self).__name__}.visit_call returned {found} for {node.op} '{node.name}', "
                f"which has {count} result{'s' if count > 1 else ''}; return {wanted}"
            )
        return result if count > 1 else [result]

    def visit_var(self, value: Value) -> Any:
        """Visit an input of the region."""
        raise NotImplementedError(f"{type(self).__name__} does not implement visit_var")

    def visit_constant(self, value: Value) -> Any:
        """Visit a constant; its elements are ``value.data``."""
        raise NotImplementedError(f"{type(self).__name__} does not implement visit_constant")

    def visit_call(self, node: Node) -> Any:
        """Visit an operator; its operands have been visited."""
        raise NotImplementedError(f"{type(self).__name__} does not support {node.op}")
