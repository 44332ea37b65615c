"""Table of results that differ on purpose from those of other runtimes.

Each row of :data:`TABLE` has operators, a condition on their nodes, the runtimes that differ, and
the judge of a result. Constant folding, ``tvmrt verify`` and tests read it. The page
``docs/reference/accuracy.md`` says for each row what tvmrt computes.

    intentional_differences(node, opset, types)   rows that apply to one node
    differences_of(model)                         rows that apply to each node of a network
"""

from .difference_types import Difference, Judge, NodeView
from .lookup import differences_of, intentional_differences
from .table import TABLE

__all__ = [
    "TABLE",
    "Difference",
    "Judge",
    "NodeView",
    "differences_of",
    "intentional_differences",
]
