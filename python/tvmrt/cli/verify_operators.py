"""``tvmrt verify OPERATORS.py``: compare the bodies of custom operators with their references.

Also provides the reference for networks with such operators.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tvmrt.cli import tolerance
from tvmrt.cli.tolerance import TensorComparison
from tvmrt.error import TvmrtWarning

if TYPE_CHECKING:
    import onnx

    from tvmrt.cli.operator_bodies import Comparison
    from tvmrt.compiler.custom import Catalogue, Operator


def compare_bodies(path: Path) -> list[TensorComparison]:
    """Compare every body of every kernel in a file with its reference, case by case."""
    from tvmrt.cli.operator_bodies import check_operator
    from tvmrt.compiler.custom import Kernel, load_operators

    operators = load_operators(path)
    for operator in operators:
        if not isinstance(operator, Kernel):
            warnings.warn(
                f"{operator.name}: composed operators have one body; nothing to compare",
                TvmrtWarning,
                stacklevel=2,
            )
    kernels = [each for each in operators if isinstance(each, Kernel)]
    return [_compared(row) for kernel in kernels for row in check_operator(kernel)]


def _compared(row: Comparison) -> TensorComparison:
    dtype, shape = ("", ()) if row.right is None else (row.right.dtype.name, row.right.shape)
    operator = f"{row.operator} ({row.case})"
    return TensorComparison(row.body, row.output, operator, dtype, tuple(shape), _verdict(row))


def _verdict(row: Comparison) -> tolerance.Verdict:
    import numpy as np

    if row.problem:
        return tolerance.Verdict(float("inf"), 0.0, float("inf"), row.problem)
    if row.skipped:
        return tolerance.Verdict(0.0, 0.0, 0.0, note=f"not checked: {row.skipped}")
    noise = 0.0
    if row.right.dtype.itemsize == 2 and row.right.dtype.kind in "fV":
        digits = 2**-8 if row.right.dtype.name == "bfloat16" else 2**-11
        noise = digits * float(np.abs(row.right.astype(np.float64)).max(initial=0.0)) / 10
    return tolerance.judge(row.found, row.right, noise)


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
