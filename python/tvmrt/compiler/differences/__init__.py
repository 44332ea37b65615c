"""One table of the results that differ on purpose from those of other runtimes.

Each row of :data:`TABLE` names operators, the nodes of them that it holds for, what tvmrt computes
there, why, who agrees, who differs, and how a result is judged. ``tvmrt verify``, the random graphs
of ``tests/fuzz``, the operator tests and ``docs/reference/accuracy.md`` read it.

    intentional_differences(node, opset, types)   rows that hold for one node
    differences_of(model)                         rows that hold for each node of a network
    difference(name)                              one row
"""

from .lookup import difference, differences_of, intentional_differences, view_of
from .row import Difference, Judge, NodeView
from .table import TABLE

__all__ = [
    "TABLE",
    "Difference",
    "Judge",
    "NodeView",
    "difference",
    "differences_of",
    "intentional_differences",
    "view_of",
]
