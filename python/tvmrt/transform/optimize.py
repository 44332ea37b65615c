"""The order of the passes, and the check between them."""

from __future__ import annotations

from collections.abc import Callable

from tvmrt.ir import Graph
from tvmrt.ir.verifier import verify

from .dead_code import remove_dead_code
from .fold_bias import fold_bias

Pass = Callable[[Graph], None]

PASSES: tuple[tuple[str, Pass], ...] = (
    ("fold-bias", fold_bias),
    ("dead-code", remove_dead_code),
)


def optimize(graph: Graph, target, observe: Callable[[str, Graph], None]) -> None:
    """Run every pass on the graph in place; ``observe`` sees it after each.

    Raises ValueError naming the pass if one leaves a graph that makes no sense.
    """
    verify(graph, "import")
    for name, run in PASSES:
        run(graph)
        verify(graph, name)
        observe(name, graph)
