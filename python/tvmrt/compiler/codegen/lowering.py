"""Interface of operator lowerings, which print a group of nodes as C.

One lowering is created per group. The builder queries its memory demands, fixes the layouts, and
only then lets it print. Register a class with ``@lowers("operator")``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tvmrt.compiler.ir import Graph, Node, Strided, Value
from tvmrt.compiler.ir.extent import upper_bound
from tvmrt.compiler.ir.program import (
    ANY,
    CHANNELS_LAST,
    DENSE,
    Access,
    Group,
    Program,
    Step,
    channels_last_order,
)
from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.tuned import Choice
from tvmrt.compiler.planner.row_fusion_schedule import RowLayer

from .target import Target

if TYPE_CHECKING:
    from .c.writer import FunctionWriter
    from .geometry import DepthFirstLayer


# Instructions for one element of a result without multiply-adds, epilogue included.
ELEMENT_INSTRUCTIONS = 12
# Granularity at which host runtimes allocate scratch memory.
PAGE_BYTES = 4096


class Lowering:
    """Base class: dense row-major operands, dense row-major results, no epilogue."""

    takes_epilogue = False
    in_memory: tuple[int, ...] = (
        0,
    )  # operands that must be tensors: constants are copied; the lowering packs all others

    def __init__(self, group: Group, target: Target) -> None:
        self.group = group
        self.node: Node = group.root
        self.target = target

    def build_subprograms(self, build: Callable[[Graph], Program]) -> None:
        """Build programs, each with its own arena, from the graphs in the node's attributes."""

    def operands(self) -> list[Value]:
        """Return the values that become parameters, in order. Constants are excluded: the lowering
        packs them itself (``FunctionWriter.constant``)."""
        return [v for v in self.group.inputs() if not v.is_constant]

    def accepts_epilogue(self, accesses: dict[Value, Access]) -> bool:
        """Return whether the pointwise nodes after the root can be computed in this function, given
        the layouts of their operands."""
        return not self.group.after

    def demand(self, value: Value) -> str | tuple[int, ...]:
        """Return the layout required of an operand: ANY, DENSE, CHANNELS_LAST, or an order of axes
        in which its elements are contiguous."""
        return DENSE

    def result_demand(self, index: int) -> str | tuple[int, ...]:
        """Return the layout required of a result if it is moved out of its own buffer."""
        return DENSE

    def result_order(self, index: int, accesses: dict[Value, Access]) -> tuple[int, ...] | None:
        """Return the axis order of a result in memory; None is row-major."""
        return None

    def scratch_bytes(self) -> int:
        """Return the arena bytes that the step needs while it runs."""
        return 0

    def kernel_blocks(self, step: Step) -> tuple[int, ...]:
        """Return the bytes of the blocks that the kernels of the body take concurrently from
        tvmrt_scratch_alloc(), per thread. On bare metal they lie in the arena."""
        return ()

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        """Return (read index, write index) pairs that may share memory."""
        return []

    def in_place_pair(self, step: Step, operand: Value) -> list[tuple[int, int]]:
        """Return the in-place pair of an operand and the result if their layouts are equal."""
        i = step.read_values.index(operand)
        return [(i, 0)] if same_offsets(step.reads[i].at, step.writes[0].at) else []

    def macs(self) -> int:
        """Return the number of multiply-accumulates, for the summary."""
        return 0

    def fused_steps(self, step: Step) -> Sequence[Step]:
        """Return the steps that are computed as this one."""
        return (step,)

    def options(self, step: Step) -> list[Choice]:
        """Return the alternatives for computing the node on this target, the estimated best first;
        empty if there is only one."""
        return []

    def tuned_choice(self, step: Step) -> Choice:
        """Return the tuned choice among ``options(step)``, or an empty choice."""
        return self.tuned_choice_among(partial(self.options, step))

    def tuned_choice_among(self, options: Callable[[], list[Choice]]) -> Choice:
        """Return the tuned choice among options that depend on the node alone."""
        tuned = self.target.tuned
        return Choice() if tuned is None else tuned.choice(self.node, options)

    def widest_choice(self, step: Step) -> Choice:
        """Return the tuned choice of the widest ISA level, which determines the weight order."""
        widest = self.target.widest
        return Choice() if widest is None else type(self)(self.group, widest).tuned_choice(step)

    def emit(self, step: Step, f: FunctionWriter) -> None:
        """Print the body of the function."""
        raise NotImplementedError(type(self).__name__)

    def row_layer(self, step: Step) -> RowLayer | None:
        """Return how rows of the result depend on rows of an operand, if row-wise fusion may
        compute the step a few rows at a time, else None. From all other operands it reads the rows
        of the result."""
        return None

    def row_operand(self, step: Step) -> int:
        """Return the index, among the step's reads, of the operand of ``row_layer``."""
        return 0

    def depth_first_layer(self, step: Step) -> DepthFirstLayer | None:
        """Return the step as a layer of a depth-first chain on hosts, or None."""
        return None

    def depth_first_width(self, step: Step) -> int:
        """Return how many pixels are computed together by such a layer if it has no rows."""
        raise NotImplementedError

    def print_depth_first(
        self, step: Step, f: FunctionWriter, x: str, residual: tuple[str, int], y: str
    ) -> Sequence[str]:
        """Print a layer of a depth-first chain. Return the members of its
        ``tvmrt_depth_first_layer_f32`` without the place. The arguments are those of
        ``ConvolutionLowering.print_layer``."""
        raise NotImplementedError

    def row_step(self, step: Step) -> Step:
        """Return the step as a row-fused chain calls it."""
        return step

    def emit_rows(self, step: Step, f: FunctionWriter) -> None:
        """Print the body of a function for some rows. A function without ``f.int_parameter()``
        computes one row from one row."""
        self.emit(step, f)

    def row_kernel_blocks(self, step: Step) -> tuple[int, ...]:
        """Return the ``kernel_blocks()`` of the function for some rows."""
        return self.kernel_blocks(step)

    def extra_row_instructions(self, step: Step) -> int:
        """Return the extra instructions of the row function if it uses another kernel."""
        return 0

    def row_instructions(self, step: Step) -> int:
        """Return the approximate instructions of the row function for all rows."""
        return ELEMENT_INSTRUCTIONS * upper_bound(step.writes[0].at.size)

    def pointer(self, step: Step, f: FunctionWriter, index: int, name: str) -> str:
        """Return an input by index: an operand, a constant in the demanded layout, or NULL."""
        value = self.node.inputs[index] if index < len(self.node.inputs) else None
        if value is None:
            return "NULL"
        if not value.is_constant:
            return f.name_read(step.read_values.index(value), name)
        data = value.data
        if self.demand(value) == CHANNELS_LAST:
            data = data.transpose(channels_last_order(data.ndim))
        return f.constant(name, data)

    def pointers(self, step: Step, f: FunctionWriter, *names: str, first: int = 0) -> list[str]:
        """Return the inputs from index ``first`` on, named after their roles."""
        return [self.pointer(step, f, i, name) for i, name in enumerate(names, first)]


class ImageLowering(Lowering):
    """Base class with channels-last first operand and results; other operands are dense."""

    def demand(self, value: Value) -> str:
        return CHANNELS_LAST if value is self.node.inputs[0] else DENSE

    def result_demand(self, index: int) -> str:
        return CHANNELS_LAST

    def result_order(self, index: int, accesses) -> tuple[int, ...] | None:
        return channels_last_order(self.node.output.type.rank)


_TABLE: dict[str, type[Lowering]] = {}


def lowers(*names: str):
    """Class decorator: register a lowering for groups whose root is one of these operators."""

    def add(cls: type[Lowering]) -> type[Lowering]:
        for name in names:
            if name in _TABLE:
                raise ValueError(f"operator {name} has two lowerings")
            _TABLE[name] = cls
        return cls

    return add


def lowering_for(op: str) -> type[Lowering]:
    """Return the lowering class of a kernel operator. Raises KeyError if there is none."""
    return _TABLE[op]


def has_lowering(op: str) -> bool:
    """Return whether a kernel operator has a lowering."""
    return op in _TABLE


def same_offsets(a: Strided, b: Strided) -> bool:
    """Return whether two accesses visit the same offsets for the same index."""
    return (
        a.shape == b.shape
        and a.offset == b.offset
        and all(n == 1 or s == t for n, s, t in zip(a.shape, a.strides, b.strides))
    )


def thread_scratch_bytes(program: Program) -> int:
    """Return the maximum runtime scratch bytes per thread on a host, over all ISA levels. On
    boards, kernel scratch lies in the arena."""
    steps = [step for step in program.steps if step.lowering.target.hosted]
    lowerings = ((step, low) for step in steps for low in step.levels.values() or (step.lowering,))
    blocks = (low.kernel_blocks(step) for step, low in lowerings)
    return max(
        (sum(round_up(upper_bound(n), PAGE_BYTES) for n in each) for each in blocks), default=0
    )


__all__ = [
    "ANY",
    "DENSE",
    "ImageLowering",
    "Lowering",
    "has_lowering",
    "lowering_for",
    "lowers",
    "same_offsets",
    "thread_scratch_bytes",
]
