"""How a group becomes C: the interface that every operator's lowering fills.

A lowering is made per group. The builder asks it for demands on memory, then fixes places, and
only then asks it to print. Register one with ``@lowers("operator")``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tvmrt.compiler.ir import Graph, Node, Strided, Value
from tvmrt.compiler.ir.extent import most
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
from tvmrt.compiler.planner.row_chains import RowLayer

from .target import Target

if TYPE_CHECKING:
    from .c.writer import FunctionWriter
    from .geometry import SlabLayer


# What an element of a result takes that has no multiply-adds, with what follows those elsewhere.
ELEMENT_INSTRUCTIONS = 12
# At what multiples runtimes of hosts give scratch memory.
PAGE_BYTES = 4096


class Lowering:
    """Base: dense row-major operands, dense row-major results, no epilogue."""

    takes_epilogue = False
    in_memory: tuple[int, ...] = (
        0,
    )  # operands that a constant must be copied for: it packs others

    def __init__(self, group: Group, target: Target) -> None:
        self.group = group
        self.node: Node = group.root
        self.target = target

    def nest(self, build: Callable[[Graph], Program]) -> None:
        """Have the graphs that are in attributes of the node become programs of their own, with
        places in an arena of their own."""

    def operands(self) -> list[Value]:
        """Values that become parameters, in order. Constants are not among them: the lowering
        packs those itself (``FunctionWriter.constant``)."""
        return [v for v in self.group.inputs() if not v.is_constant]

    def accepts_epilogue(self, accesses: dict[Value, Access]) -> bool:
        """Whether the pointwise nodes after the root can be computed in this function, given
        where the values that they read lie."""
        return not self.group.after

    def demand(self, value: Value) -> str | tuple[int, ...]:
        """What the memory of an operand must look like: ANY, DENSE, CHANNELS_LAST, or an order of
        axes in which its elements lie without gaps."""
        return DENSE

    def result_demand(self, index: int) -> str | tuple[int, ...]:
        """The same for results: what other places than its own buffer a result may get."""
        return DENSE

    def result_order(self, index: int, accesses: dict[Value, Access]) -> tuple[int, ...] | None:
        """Order of axes in memory of a result; None is row-major."""
        return None

    def scratch_bytes(self) -> int:
        """Bytes of arena that the step needs while it runs."""
        return 0

    def kernel_blocks(self, step: Step) -> tuple[int, ...]:
        """Bytes of the blocks that the body's kernels take by tvmrt_scratch_alloc() at a time, each
        thread; code for machines without an operating system has them in the arena."""
        return ()

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        """(read index, write index) pairs that may be the same memory."""
        return []

    def over(self, step: Step, operand: Value) -> list[tuple[int, int]]:
        """The pair of an operand and the result, where both lie alike."""
        i = step.read_values.index(operand)
        return [(i, 0)] if same_place(step.reads[i].at, step.writes[0].at) else []

    def macs(self) -> int:
        """Multiply-accumulates, for the summary."""
        return 0

    def parts(self, step: Step) -> Sequence[Step]:
        """The steps that are computed as this one."""
        return (step,)

    def options(self, step: Step) -> list[Choice]:
        """The ways in which the node can be computed on this target, the one of the estimate first;
        none where there is nothing to choose."""
        return []

    def chosen(self, step: Step) -> Choice:
        """What tuning says of them; an empty choice where it says nothing."""
        return self.chosen_among(partial(self.options, step))

    def chosen_among(self, options: Callable[[], list[Choice]]) -> Choice:
        """The same where the options follow from the node alone."""
        tuned = self.target.tuned
        return Choice() if tuned is None else tuned.choice(self.node, options)

    def chosen_by_widest(self, step: Step) -> Choice:
        """The same for the widest level, in the order of whose tiles weights lie."""
        widest = self.target.widest
        return Choice() if widest is None else type(self)(self.group, widest).chosen(step)

    def emit(self, step: Step, f: FunctionWriter) -> None:
        """Print the function's body."""
        raise NotImplementedError(type(self).__name__)

    def row_layer(self, step: Step) -> RowLayer | None:
        """How rows of the result follow from rows of an operand, where a chain may compute the step
        a few rows at a time; None where it may not. Of other operands it reads the rows of the
        result."""
        return None

    def row_operand(self, step: Step) -> int:
        """The number of that operand among those that the step reads."""
        return 0

    def slab_layer(self, step: Step) -> SlabLayer | None:
        """The same on hosts, where a chain may compute the step a slab of rows at a time."""
        return None

    def slab_width(self, step: Step) -> int:
        """Pixels that are computed together of a layer in such a chain, where it has no rows."""
        raise NotImplementedError

    def print_slab(
        self, step: Step, f: FunctionWriter, x: str, residual: tuple[str, int], y: str
    ) -> Sequence[str]:
        """Print a layer of such a chain; the members of its ``tvmrt_slab_layer_f32`` but the place.
        The arguments are those of ``ConvolutionLowering.print_layer``."""
        raise NotImplementedError

    def row_step(self, step: Step) -> Step:
        """The step as a chain calls it."""
        return step

    def emit_rows(self, step: Step, f: FunctionWriter) -> None:
        """Print the body of a function for some rows; one without ``f.number()`` makes one row of
        one row."""
        self.emit(step, f)

    def row_blocks(self, step: Step) -> tuple[int, ...]:
        """``kernel_blocks()`` of that function."""
        return self.kernel_blocks(step)

    def row_surplus(self, step: Step) -> int:
        """Instructions that it takes more than the step alone, where its kernel is another one."""
        return 0

    def row_work(self, step: Step) -> int:
        """Instructions that it takes for all rows, about."""
        return ELEMENT_INSTRUCTIONS * most(step.writes[0].at.size)

    def pointer(self, step: Step, f: FunctionWriter, index: int, name: str) -> str:
        """An input by position: an operand, a constant laid out as demanded, or NULL."""
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
        """The inputs from the ``first`` on, by the names of their roles."""
        return [self.pointer(step, f, i, name) for i, name in enumerate(names, first)]


class ImageLowering(Lowering):
    """The first operand and the results have channels innermost, other operands are dense."""

    def demand(self, value: Value) -> str:
        return CHANNELS_LAST if value is self.node.inputs[0] else DENSE

    def result_demand(self, index: int) -> str:
        return CHANNELS_LAST

    def result_order(self, index: int, accesses) -> tuple[int, ...] | None:
        return channels_last_order(self.node.output.type.rank)


_TABLE: dict[str, type[Lowering]] = {}


def lowers(*names: str):
    """Class decorator: this lowering prints groups whose root is one of these operators."""

    def add(cls: type[Lowering]) -> type[Lowering]:
        for name in names:
            if name in _TABLE:
                raise ValueError(f"operator {name} has two lowerings")
            _TABLE[name] = cls
        return cls

    return add


def lowering_for(op: str) -> type[Lowering]:
    """The lowering class of a kernel operator. Raises KeyError when there is none."""
    return _TABLE[op]


def has_lowering(op: str) -> bool:
    """Whether a kernel operator has a lowering."""
    return op in _TABLE


def same_place(a: Strided, b: Strided) -> bool:
    """Whether two accesses visit the same offsets for the same index."""
    return (
        a.shape == b.shape
        and a.offset == b.offset
        and all(n == 1 or s == t for n, s, t in zip(a.shape, a.strides, b.strides))
    )


def thread_bytes(program: Program) -> int:
    """What each thread of a host takes of the runtime's scratch memory at most, at the level of
    processors that takes most; boards have theirs in the arena."""
    steps = [step for step in program.steps if step.lowering.target.hosted]
    ways = ((step, way) for step in steps for way in step.levels.values() or (step.lowering,))
    blocks = (way.kernel_blocks(step) for step, way in ways)
    return max((sum(round_up(most(n), PAGE_BYTES) for n in each) for each in blocks), default=0)


__all__ = [
    "ANY",
    "DENSE",
    "ImageLowering",
    "Lowering",
    "has_lowering",
    "lowering_for",
    "lowers",
    "same_place",
    "thread_bytes",
]
