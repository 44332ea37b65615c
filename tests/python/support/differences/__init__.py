"""Table of results that differ on purpose from those of other runtimes.

Each row of :data:`TABLE` has operators, a condition on their nodes, the runtimes that differ, and
the judge of a result. Tests and fuzzing read it. The page ``docs/reference/accuracy.md`` says for
each row what tvmrt computes.

    intentional_differences(node, opset, types)   rows that apply to one node
    differences_of(model)                         rows that apply to each node of a network
    nodes_to_evaluate(model)                      nodes that the ONNX reference evaluator judges
"""

from .difference_types import Difference, Judge, NodeView
from .lookup import differences_of, intentional_differences, nodes_to_evaluate
from .table import TABLE

__all__ = [
    "TABLE",
    "Difference",
    "Judge",
    "NodeView",
    "differences_of",
    "intentional_differences",
    "nodes_to_evaluate",
]
