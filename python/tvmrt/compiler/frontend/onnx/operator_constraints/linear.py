"""Constraints of matmul-like operators and PRelu."""

from __future__ import annotations

from tvmrt.compiler.ir.assumptions import are_equal
from tvmrt.compiler.ir.contract import Contract, holds

from .rules import broadcast_rule, broadcasts_to


def _bias_fits(a, b, c, transA, transB) -> bool:
    rows = a.shape[1 if transA else 0]
    columns = b.shape[0 if transB else 1]
    return c is None or broadcasts_to(c.shape, (rows, columns))


def _zero_point_fits(matrix, point, axis: int) -> bool:
    """Whether a zero point is one number, or one per row (or column), also per batch element."""
    if point is None or point.size == 1:
        return True
    extent = matrix.shape[axis] if len(matrix.shape) > 1 else 1
    return point.shape[-1 if axis == -1 or len(point.shape) == 1 else -2] == extent


CONTRACTS = {
    "Gemm": Contract(
        "a: any[_ _], b: any[_ _], c?: any[*]",
        "transA: int, transB: int",
        rules=[
            holds(
                "a and b have one extent in common",
                lambda a, b, transA, transB: are_equal(
                    a.shape[0 if transA else 1], b.shape[1 if transB else 0]
                ),
            ),
            holds("c broadcasts to the product", _bias_fits),
        ],
    ),
    "MatMulInteger": Contract(
        "a: any[*], b: any[*], a_zero_point?: any[*], b_zero_point?: any[*]",
        rules=[
            holds(
                "a_zero_point has one element, or one for each row of a",
                lambda a, a_zero_point: _zero_point_fits(a, a_zero_point, -2),
            ),
            holds(
                "b_zero_point has one element, or one for each column of b",
                lambda b, b_zero_point: _zero_point_fits(b, b_zero_point, -1),
            ),
        ],
    ),
    "PRelu": Contract("x: any[*], slope: any[*]", rules=[broadcast_rule("slope", "x")]),
}
