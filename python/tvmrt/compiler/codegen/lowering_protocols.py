"""Interfaces that a lowering may implement in addition to :class:`.lowering.Lowering`. Row-wise
fusion, depth-first tiling and the builder check them with ``isinstance``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tvmrt.compiler.ir import Graph
from tvmrt.compiler.ir.program import Program, Step
from tvmrt.compiler.ir.sizes import upper_bound
from tvmrt.compiler.planner.row_fusion_schedule import RowLayer

from .lowering import Lowering

if TYPE_CHECKING:
    from .c.writer import FunctionWriter
    from .geometry import DepthFirstLayer

# Instructions for one element of a result without multiply-adds, epilogue included.
ELEMENT_INSTRUCTIONS = 12


class RowWise(Lowering, ABC):
    """Common base of :class:`RowFusable` and :class:`DepthFirstFusable`: rows of the result depend
    on rows of one operand. From all other operands a step reads the rows of the result."""

    def row_operand(self, step: Step) -> int:
        """Return the index, among the step's reads, of the operand with rows."""
        return 0


class RowCosts(NamedTuple):
    """Costs of the function for some rows: approximate instructions for all rows, instructions that
    exceed those of the usual kernel, and scratch bytes of its kernels."""

    instructions: int
    extra_instructions: int = 0
    kernel_bytes: int = 0


class RowFusable(RowWise):
    """A lowering that row-wise fusion on boards may run a few rows at a time."""

    @abstractmethod
    def row_layer(self, step: Step) -> RowLayer | None:
        """Return how rows of the result depend on rows of ``row_operand``; None if the step cannot
        be computed by rows."""

    def row_step(self, step: Step) -> Step:
        """Return the step as a row-fused chain calls it."""
        return step

    def emit_rows(self, step: Step, f: FunctionWriter) -> None:
        """Print the body of a function for some rows. A function without ``f.int_parameter()``
        computes one row from one row."""
        self.emit(step, f)

    def row_costs(self, step: Step) -> RowCosts:
        """Return the costs of the function for some rows."""
        return RowCosts(element_instructions(step))


def element_instructions(step: Step) -> int:
    """Return the approximate instructions for the elements of a step without multiply-adds."""
    return ELEMENT_INSTRUCTIONS * upper_bound(step.writes[0].at.size)


class DepthFirstFusable(RowWise):
    """A lowering of a layer that hosts may compute a tile of rows at a time."""

    @abstractmethod
    def depth_first_layer(self, step: Step) -> DepthFirstLayer | None:
        """Return the step as a layer of a depth-first chain; None if it cannot be part of one."""

    @abstractmethod
    def depth_first_width(self, step: Step) -> int:
        """Return how many pixels are computed together if the layer has no rows."""

    @abstractmethod
    def print_depth_first(
        self, step: Step, f: FunctionWriter, x: str, residual: tuple[str, int], y: str
    ) -> Sequence[str]:
        """Print the layer. Return the members of its ``tvmrt_depth_first_layer_f32`` without the
        place. ``x``, ``y``: pointers; ``residual``: pointer and pixel stride."""


class Nested(Lowering, ABC):
    """A lowering of a node with graphs in its attributes."""

    @abstractmethod
    def build_subprograms(self, build: Callable[[Graph], Program]) -> None:
        """Build programs, each with its own arena, from the graphs."""
