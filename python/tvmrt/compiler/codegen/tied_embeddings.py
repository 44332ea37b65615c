"""Tied embeddings: a gathered table whose rows are the columns of a matmul's weights, as in
language models, is stored once, in the matmul's order."""

from __future__ import annotations

from tvmrt.compiler.ir.program import Program, Step
from tvmrt.compiler.ir.value_users import is_transpose_of

from .operators.gather import GatherLowering
from .window.matmul import MatMulLowering


def tie_embeddings(program: Program) -> None:
    """Let gathers from tied tables read the matmul's weights, at every ISA level."""
    matmul_steps = [s for s in program.steps if isinstance(s.lowering, MatMulLowering)]
    for step in program.steps:
        if isinstance(step.lowering, GatherLowering):
            matmul_step = next((p for p in matmul_steps if _are_tied(step, p)), None)
            if matmul_step is not None:
                _tie(step, matmul_step)


def _are_tied(gather: Step, matmul_step: Step) -> bool:
    table, matrix = gather.group.root.inputs[0], matmul_step.group.root.inputs[1]
    return gather.group.root.attrs["axis"] == 0 and is_transpose_of(table, matrix)


def _tie(gather: Step, matmul_step: Step) -> None:
    pairs = [(gather.lowering, matmul_step.lowering)]
    pairs += [(lowering, matmul_step.levels[name]) for name, lowering in gather.levels.items()]
    for reader, owner in pairs:
        reader.tied = lambda owner=owner: owner.panels(matmul_step)
