"""Tied embeddings: a gathered table whose rows are the columns of a matmul's weights, as in
language models, is stored once, in the matmul's order."""

from __future__ import annotations

from tvmrt.compiler.ir.program import Program, Step
from tvmrt.compiler.ir.tied_weights import is_transpose_of

from .operators.indexing import GatherLowering
from .window.matmul import MatMulLowering


def tie_tables(program: Program) -> None:
    """Let gathers from tied tables read the matmul's weights, at every ISA level."""
    products = [s for s in program.steps if isinstance(s.lowering, MatMulLowering)]
    for step in program.steps:
        if isinstance(step.lowering, GatherLowering):
            product = next((p for p in products if _are_tied(step, p)), None)
            if product is not None:
                _tie(step, product)


def _are_tied(gather: Step, product: Step) -> bool:
    table, matrix = gather.group.root.inputs[0], product.group.root.inputs[1]
    return gather.group.root.attrs["axis"] == 0 and is_transpose_of(table, matrix)


def _tie(gather: Step, product: Step) -> None:
    pairs = [(gather.lowering, product.lowering)]
    pairs += [(lowering, product.levels[name]) for name, lowering in gather.levels.items()]
    for reader, owner in pairs:
        reader.tied = lambda owner=owner: owner.panels(product)
