"""References of custom operators for ``tvmrt verify``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

    from tvmrt.compiler.custom import Catalogue, Operator


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
