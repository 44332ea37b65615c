"""Interface of operator lowerings, which print a group of nodes as C.

One lowering is created per group. The builder asks it for layouts and memory, fixes them, and only
then lets it print. An operator that declares its ``kernel`` has a lowering. For others, register a
class with ``@lowers("operator")``. A lowering needs ``emit`` alone;
the other seven methods have defaults: dense operands and results, no scratch memory, no epilogue.

``lowering_protocols.py`` has what a lowering may implement in addition: row-wise fusion,
depth-first execution, and graphs nested in a node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Union

from tvmrt.compiler.ir import Node, Strided, Value, get_op
from tvmrt.compiler.ir.program import (
    CHANNELS_LAST,
    DENSE,
    Access,
    Group,
    Step,
    channels_last_order,
)
from tvmrt.compiler.ir.sizes import SymInt
from tvmrt.compiler.module_index import ModuleIndex

from .target import Target

if TYPE_CHECKING:
    from .c.writer import FunctionWriter

Demand = Union[str, tuple[int, ...]]  # ANY, DENSE, CHANNELS_LAST …, or an order of axes


class ResultLayout(NamedTuple):
    """Layout of a result: the order of its axes in memory (None: row-major), and the layout that it
    must have if it is moved out of its own buffer."""

    order: tuple[int, ...] | None = None
    demand: Demand = DENSE


class Scratch(NamedTuple):
    """Memory that a step needs while it runs: bytes of the arena, and the bytes of the blocks that
    its kernels take concurrently from ``tvmrt_scratch_alloc()``, per thread. On bare metal these
    lie in the arena, too."""

    arena_bytes: SymInt = 0
    kernel_blocks: tuple[SymInt, ...] = ()


class Lowering:
    """Base class: dense row-major operands, dense row-major results, no epilogue."""

    takes_epilogue = False
    # operands that must be tensors: constants are copied; the lowering packs all others
    in_memory: tuple[int, ...] = (0,)
    operand_demand: Demand = DENSE  # layout required of all operands

    def __init__(self, group: Group, target: Target) -> None:
        self.group = group
        self.node: Node = group.root
        self.target = target

    def operands(self) -> list[Value]:
        """Return the values that become parameters, in order. Constants are excluded: the lowering
        packs them itself (``FunctionWriter.constant``)."""
        return [v for v in self.group.inputs() if not v.is_constant]

    def accepts_epilogue(self, accesses: dict[Value, Access]) -> bool:
        """Return whether the pointwise nodes after the root can be computed in this function, given
        the layouts of their operands. Called only if the class sets ``takes_epilogue``."""
        return not self.group.after

    def demand(self, value: Value) -> Demand:
        """Return the layout required of an operand: ANY, DENSE, CHANNELS_LAST, or an order of axes
        in which its elements are contiguous."""
        return self.operand_demand

    def result_layout(self, index: int, accesses: dict[Value, Access]) -> ResultLayout:
        """Return the layout of a result, given the layouts of the operands."""
        return ResultLayout()

    def scratch(self, step: Step) -> Scratch:
        """Return the memory that the step needs while it runs."""
        return Scratch()

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        """Return (read index, write index) pairs that may share memory."""
        return []

    def macs(self) -> SymInt:
        """Return the number of multiply-accumulates, for the summary."""
        return 0

    def emit(self, step: Step, f: FunctionWriter) -> None:
        """Print the body of the function."""
        raise NotImplementedError(type(self).__name__)


class ImageLowering(Lowering):
    """Base class with channels-last first operand and results; other operands are dense."""

    def demand(self, value: Value) -> Demand:
        return CHANNELS_LAST if value is self.node.inputs[0] else DENSE

    def result_layout(self, index: int, accesses: dict[Value, Access]) -> ResultLayout:
        return ResultLayout(channels_last_order(self.node.output.type.rank), CHANNELS_LAST)


_TABLE: dict[str, type[Lowering]] = {}
_MODULES = ModuleIndex("lowers", *(f"{__package__}.{n}" for n in ("loops", "operators", "window")))
DECLARED_KERNELS = "operators that declare their kernel"  # name of their lowering in the table


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
    has_own = _has_own_lowering(op)
    return _TABLE[DECLARED_KERNELS if get_op(op).kernel and not has_own else op]


def has_lowering(op: str) -> bool:
    """Return whether a kernel operator has a lowering."""
    return _has_own_lowering(op) or get_op(op).kernel is not None


def _has_own_lowering(op: str) -> bool:
    if op not in _TABLE:
        _MODULES.load(op)
    return op in _TABLE


def same_offsets(a: Strided, b: Strided) -> bool:
    """Return whether two accesses visit the same offsets for the same index."""
    return (
        a.shape == b.shape
        and a.offset == b.offset
        and all(n == 1 or s == t for n, s, t in zip(a.shape, a.strides, b.strides))
    )


def in_place_pair(step: Step, operand: Value) -> list[tuple[int, int]]:
    """Return the in-place pair of an operand and the first result if their layouts are equal."""
    i = step.read_values.index(operand)
    return [(i, 0)] if same_offsets(step.reads[i].at, step.writes[0].at) else []
