"""Arithmetic of extents: extents are computed and compared only here."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from ..sizes import is_unbounded, upper_bound

# int32_t, the type of the fields of kernels' structs and of the counters of generated loops
LIMIT = 2**31 - 1


class ContractError(ValueError):
    """Error for an application of an operator that its contract does not allow; one sentence."""


class _Indivisible(Exception):
    """Quotient of extents that is not an integer."""


def _exact(a: int, b: int) -> int:
    if b == 0 or a % b:
        raise _Indivisible
    return a // b


class Formula:
    """Formula of an extent, or of several to choose from: ``4*H``, ``C/groups``, ``1|C``.

    Raises ValueError when the text is not a formula.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: set[str] = set()
        self._codes = [self._compiled(part) for part in text.split("|")]

    def _compiled(self, text: str) -> Any:
        try:
            tree = ast.parse(text, mode="eval")
        except SyntaxError:
            raise ValueError(f"{text!r} is not an extent") from None
        tree = ast.fix_missing_locations(_Arithmetic(self.names).visit(tree))
        return compile(tree, f"<extent {text}>", "eval")

    def values(self, bindings: Mapping[str, Any]) -> list[int]:
        """Return the allowed extents. Raise ``ContractError`` if a quotient is not an integer."""
        try:
            return [eval(code, _NAMES, bindings) for code in self._codes]
        except _Indivisible:
            values = ", ".join(f"{n} = {bindings[n]}" for n in sorted(self.names))
            raise ContractError(f"{self.text} is not a whole number ({values})") from None


_NAMES = {"__builtins__": {}, "_exact": _exact}


class _Arithmetic(ast.NodeTransformer):
    """Check that there are only sums, differences, products and quotients; collect the names."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Div):
            exact = ast.Name("_exact", ast.Load())
            return ast.Call(exact, [node.left, node.right], [])
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.names.add(node.id)
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        allowed = (ast.Expression, ast.BinOp, ast.Constant, ast.Add, ast.Sub, ast.Mult, ast.Div)
        if not isinstance(node, allowed):
            raise ValueError(f"an extent may not have a {type(node).__name__}")
        return super().generic_visit(node)


def size_problem(shape: Sequence[int]) -> str | None:
    """Return why no tensor can have the shape; None if it can."""
    if not all(0 <= n and (is_unbounded(n) or n <= LIMIT) for n in shape):
        return f"extents are from 0 to {LIMIT}"
    size = prod(shape)
    if upper_bound(size) > LIMIT and not is_unbounded(size):
        return f"a tensor has at most {LIMIT} elements"
    return None
