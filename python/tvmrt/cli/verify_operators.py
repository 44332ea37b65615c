"""``tvmrt verify OPERATORS.py``: compare the bodies of custom operators with their references.

Also provides the reference for networks with such operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tvmrt.cli import app, console, tolerance

if TYPE_CHECKING:
    import onnx

    from tvmrt.cli.operator_bodies import Comparison
    from tvmrt.compiler.custom import Catalogue, Operator


@dataclass(frozen=True)
class BodyResult:
    """Result of one body of an operator on one case of random operands.

    ``skipped``: Reason why it was not checked, or empty.
    """

    operator: str
    body: str
    operands: str
    output: str
    skipped: str
    problem: str
    error: float
    allowed: float
    right: bool


def check(path: Path, as_json: bool) -> int:
    """Check every kernel of a file and return the exit code."""
    from tvmrt.cli.operator_bodies import check_operator
    from tvmrt.compiler.custom import Kernel, load_operators

    found = load_operators(path)
    kernels = [o for o in found if isinstance(o, Kernel)]
    composed = [o.name for o in found if not isinstance(o, Kernel)]
    judged = [(row, _verdict(row)) for kernel in kernels for row in check_operator(kernel)]
    wrong = [row for row, verdict in judged if not verdict.right]
    if as_json:
        console.print_json(
            "verify-operators",
            {"wrong": len(wrong), "bodies": [_result(*pair) for pair in judged]},
        )
    else:
        _print(judged, len(wrong))
        if composed:
            click.echo(
                f"{', '.join(composed)}: composed operators have one body; nothing to compare"
            )
    return app.WRONG_RESULT if wrong else app.DONE


def _verdict(row: Comparison) -> tolerance.Verdict:
    import numpy as np

    if row.problem:
        return tolerance.Verdict(float("inf"), 0.0, float("inf"), row.problem)
    if row.skipped:
        return tolerance.Verdict(0.0, 0.0, 0.0)
    noise = 0.0
    if row.right.dtype.itemsize == 2 and row.right.dtype.kind in "fV":
        digits = 2**-8 if row.right.dtype.name == "bfloat16" else 2**-11
        noise = digits * float(np.abs(row.right.astype(np.float64)).max(initial=0.0)) / 10
    return tolerance.judge(row.found, row.right, noise)


def _result(row: Comparison, verdict: tolerance.Verdict) -> BodyResult:
    return BodyResult(
        row.operator, row.body, row.case, row.output, row.skipped, verdict.problem, verdict.error,
        verdict.allowed, verdict.right,
    )  # fmt: skip


def _print(judged: Sequence[tuple[Comparison, tolerance.Verdict]], wrong: int) -> None:
    cells = [
        (
            row.operator, row.body, console.shorten(row.case), row.output,
            f"{verdict.error:.3g}", f"{verdict.allowed:.3g}", _word(row, verdict),
        )
        for row, verdict in judged
    ]  # fmt: skip
    columns = ("operator", "body", "operands", "output", "error", "allowed", "verdict")
    left = ("operator", "body", "operands", "output", "verdict")
    console.print_table("bodies and references", columns, cells, left=left)
    skipped = sum(bool(row.skipped) for row, _ in judged)
    ran = len(judged) - skipped
    more = f"; {skipped} not checked here" if skipped else ""
    click.echo(f"{ran - wrong} of {ran} results agree{more}")


def _word(row: Comparison, verdict: tolerance.Verdict) -> str:
    if row.skipped:
        return f"not checked: {row.skipped}"
    return "right" if verdict.right else f"WRONG {verdict.problem}".strip()


def used_in(model: onnx.ModelProto, operators: Catalogue | None) -> list[Operator]:
    """Return the custom operators of a model's nodes, except for those that override existing
    operators, which have a reference already."""
    if operators is None:
        return []
    used = (
        operators.find(node.domain, node.op_type, versions.get(node.domain, 1))
        for holder in (model, *model.functions)
        for versions in [{opset.domain: opset.version for opset in holder.opset_import}]
        for node in _foreign(holder.graph.node if holder is model else holder.node)
    )
    return list(dict.fromkeys(operator for operator in used if operator is not None))


def _foreign(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of domains other than ONNX's own, including those in subgraphs."""
    for node in nodes:
        if node.domain not in ("", "ai.onnx"):
            yield node
        for attribute in node.attribute:
            yield from _foreign(attribute.g.node)


def evaluators(operators: Sequence[Operator]) -> list[type]:
    """Return classes that let the reference evaluator of onnx run operators, by their Python
    references or, for composed ones, by their components."""
    from onnx.reference.op_run import OpRun

    def make(operator: Operator) -> type:
        def run(self, *arrays, **attributes):
            given = {k: v for k, v in attributes.items() if v is not None}
            found = operator.evaluate_node(arrays, given)
            if found is None:
                raise ValueError(f"operator {operator.name} has no reference implementation")
            return tuple(found)

        members = {"op_domain": operator.domain, "_run": run}
        return type(operator.op_type, (OpRun,), members)

    return [make(operator) for operator in operators]
