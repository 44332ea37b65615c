"""The program: steps in order, each a C function, over buffers with fixed places in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tvmrt.error import UnsupportedError

from .bundle import Bundle
from .dtype import DType
from .extent import Symbol, Whole, counts_in, most, symbols_of
from .graph import Node, Value
from .narrow import NarrowRow
from .reduced import ReducedRow
from .region import DeviceMemory
from .strided import Strided, dense
from .winograd import WinogradRow

INPUT, OUTPUT, CONSTANT, ARENA = "input", "output", "constant", "arena"
ALIGN_BYTES = 64


class Buffer:
    """A contiguous run of memory.

    ``size`` counts elements, ``nbytes`` what the most of them take. Inputs and outputs belong to
    the caller, constants to the artefact, the others lie in the arena: once planned, at byte
    ``address`` of the program's memory pool number ``pool``. With ``memory`` only regions of one
    device touch it: the caller's may lie there, too, others do. A constant that is ``held`` lies
    in a device's module.
    """

    __slots__ = ("address", "data", "dtype", "held", "kind", "memory", "name", "pool", "size")

    def __init__(
        self, name: str, dtype: DType, size: Whole, kind: str, data: np.ndarray | None = None
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.size = size
        self.kind = kind
        self.data = data
        self.address: int | None = None
        self.pool = 0
        self.memory: DeviceMemory | None = None
        self.held = False

    @property
    def nbytes(self) -> int:
        return self.dtype.nbytes(most(self.size))

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}: {self.dtype} x {self.size}>"


@dataclass(frozen=True)
class Access:
    """A tensor as a step sees it: which elements of which buffer."""

    buffer: Buffer
    at: Strided

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.at.shape

    def covers_buffer(self) -> bool:
        """Whether it is the whole buffer, without gaps, in some order of axes."""
        return (
            self.at.offset == 0
            and self.at.size == self.buffer.size
            and self.at.is_dense(self.at.order())
        )


# What a step demands of an operand's place in memory.
ANY = "any"  # strides as they come
DENSE = "dense"  # row-major in logical order, no gaps
CHANNELS_LAST = "channels_last"  # channels innermost, pixels at one stride, see pixel_stride()
ROWS = "rows"  # the last axis without gaps, the others as they come
MATRIX = "matrix"  # the last axis or the one before it without gaps


def channels_last_order(rank: int) -> tuple[int, ...]:
    """Order of axes [N, C, *spatial] in memory with channels innermost."""
    return (0, *range(2, rank), 1) if rank > 1 else tuple(range(rank))


def pixel_stride(at: Strided) -> int | None:
    """Elements from one pixel to the next when channels lie innermost and pixels follow each
    other at one stride; None when they do not.
    """
    order = channels_last_order(len(at.shape))
    channels = at.shape[1]
    if channels != 1 and at.strides[1] != 1:
        return None
    pixels = [d for d in order[:-1] if at.shape[d] != 1]
    if not pixels:
        return channels
    step = at.strides[pixels[-1]]
    if step < channels:
        return None
    expected = step
    for d in reversed(pixels):
        if at.strides[d] != expected:
            return None
        expected *= at.shape[d]
    return step


def contiguous_axis(at: Strided, axis: int) -> bool:
    """Whether neighbours along the axis are neighbours in memory."""
    return at.shape[axis] == 1 or at.strides[axis] == 1


def satisfies(at: Strided, demand: str | tuple[int, ...]) -> bool:
    """Whether an access meets a step's demand: one of the names above, or an order of axes in which
    the elements lie without gaps."""
    if isinstance(demand, tuple):
        return at.is_dense(demand)
    if demand == ANY:
        return True
    if demand == DENSE:
        return at.is_dense()
    if demand == ROWS:
        return contiguous_axis(at, -1)
    if demand == MATRIX:
        return contiguous_axis(at, -1) or contiguous_axis(at, -2)
    return pixel_stride(at) is not None


@dataclass
class Group:
    """Nodes that become one C function: a root, what is computed into it and out of it."""

    root: Node
    before: list[Node] = field(default_factory=list)
    after: list[Node] = field(default_factory=list)

    @property
    def nodes(self) -> list[Node]:
        return [*self.before, self.root, *self.after]

    @property
    def outputs(self) -> list[Value]:
        return self.after[-1].outputs if self.after else self.root.outputs

    def inputs(self) -> list[Value]:
        """Values read from outside, each once, in order of use."""
        inside = {v for n in self.nodes for v in n.outputs}
        read = (v for n in self.nodes for v in n.inputs if v is not None)
        return [v for v in dict.fromkeys(read) if v not in inside]


@dataclass(eq=False)
class Step:
    """One call of the program.

    ``reads`` and ``writes`` are the operands in the order of the C parameters; a value that is
    a compile-time constant is no operand. ``demands`` holds for each operand (reads, then
    writes) what memory it needs. ``in_place`` lists (read index, write index) pairs that may
    share memory. ``scratch_bytes`` lie in the arena while the step runs; the last
    ``kernel_bytes`` of them are lent to the kernels that it calls. ``counts`` has where the sizes
    lie that the run itself finds, of those that the step depends on. ``levels`` has the lowering
    for each level of processors that code is made for side by side. ``deferred``: a region that is
    started, and waited for where its results are needed. ``shrinks``: a result in place may be
    smaller than what it lies over.
    """

    name: str
    group: Group
    lowering: Any
    read_values: list[Value]
    reads: list[Access]
    writes: list[Access]
    demands: list[str]
    in_place: list[tuple[int, int]] = field(default_factory=list)
    scratch_bytes: int = 0
    kernel_bytes: int = 0
    scratch: Buffer | None = None
    guard: tuple[Access, bool] | None = None
    counts: dict[Symbol, Access] = field(default_factory=dict)
    levels: dict[str, object] = field(default_factory=dict)
    deferred: bool = False
    shrinks: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the network's nodes in this step."""
        return tuple(dict.fromkeys(s for n in self.group.nodes for s in n.sources))

    def symbols(self) -> set[Symbol]:
        """The dimensions that its tensors and attributes depend on."""
        if self.group is None:
            return set()
        places = [a.at for a in self.accesses()]
        attrs = [node.attrs for node in self.group.nodes]
        shapes = [v.shape for n in self.group.nodes for v in (*n.operands(), *n.outputs)]
        return symbols_of(*((p.shape, p.strides, p.offset) for p in places), *attrs, *shapes)

    def dims(self) -> set[Symbol]:
        """Those of them that the inputs tell."""
        return {s for s in self.symbols() if s.source is None}

    def accesses(self) -> list[Access]:
        guard = [self.guard[0]] if self.guard else []
        return [*self.reads, *self.writes, *guard, *self.counts.values()]


@dataclass(eq=False)
class MemoryPool:
    """One memory of the machine, and what the planner took of it; sizes in bytes.

    ``capacity`` None stands for as much as is needed. The caller lends it (``lent``), or the
    artefact has it: in the linker's section ``section``, or where zeroed memory goes. Its first
    ``reserved_bytes`` belong to other networks, and to weights that outlive a run: ``kept_bytes``
    are this network's. ``used_bytes`` includes them, and is 0 where nothing of this network is in
    it. No plan that assigns the same buffers to it needs less than ``lower_bound_bytes`` for them.
    ``memory``: it lies on a device, whose tensors alone are in it.
    """

    name: str
    capacity: int | None = None
    section: str | None = None
    lent: bool = False
    reserved_bytes: int = 0
    kept_bytes: int = 0
    used_bytes: int = 0
    lower_bound_bytes: int = 0
    memory: DeviceMemory | None = None


@dataclass(frozen=True)
class RowPlan:
    """Chains of steps that are computed a few rows at a time, by the first and last step of each:
    the memory that the network then takes, and the instructions that it takes more than without
    any, estimated. ``patches``: for each chain, into how many patches of columns it is cut.
    ``surplus_macs``: multiply-adds that are done twice, where patches read the same."""

    ram_bytes: int
    instructions: int
    chains: tuple[tuple[str, str], ...]
    patches: tuple[int, ...] = ()
    surplus_macs: int = 0


@dataclass
class Program:
    """Steps in order of execution, over the caller's buffers and memory pools.

    ``arena_bytes`` is what the plan takes of all pools of the host together,
    ``lower_bound_bytes`` the most bytes that live there at one step: no plan in however many pools
    needs less. ``labels``, ``bundles`` and ``aliases`` are those of the graph. ``states`` outlive
    a run: first the mark that is 0 before the first one. ``narrowed`` tells of weights in few bits,
    ``reduced`` of products in bfloat16, ``winograd`` of convolutions by squares, ``row_plans`` of
    plans with less memory, from that of whole steps on.
    """

    name: str
    inputs: list[Buffer]
    outputs: list[Buffer]
    output_types: list
    input_types: list
    input_names: list[str]
    output_names: list[str]
    steps: list[Step]
    arena_bytes: int = 0
    lower_bound_bytes: int = 0
    pools: list[MemoryPool] = field(default_factory=list)
    concurrent: bool = False  # steps on different devices may run at the same time
    # where the sizes lie that the run itself finds, of those that outputs have
    counts: dict[Symbol, Access] = field(default_factory=dict)
    labels: dict[str, list[str]] = field(default_factory=dict)
    bundles: dict[str, Bundle] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    states: list[Buffer] = field(default_factory=list)
    narrowed: list[NarrowRow] = field(default_factory=list)
    reduced: list[ReducedRow] = field(default_factory=list)
    winograd: list[WinogradRow] = field(default_factory=list)
    row_plans: list[RowPlan] = field(default_factory=list)

    def dims(self) -> list[Symbol]:
        """The dimensions that a run may choose, in the order in which the inputs have them."""
        found: dict[Symbol, None] = {}
        for type in self.input_types:
            for extent in type.shape:
                found.update(dict.fromkeys(sorted(symbols_of(extent), key=lambda s: s.name)))
        return list(found)

    def device_pools(self) -> list[tuple[int, MemoryPool]]:
        """Numbers and pools in the memory of devices."""
        return [(i, pool) for i, pool in enumerate(self.pools) if pool.memory is not None]

    def is_sized(self) -> bool:
        """Whether a run tells extents of inputs or outputs."""
        return bool(symbols_of(*(t.shape for t in (*self.input_types, *self.output_types))))

    def refuse_counts(self, why: str) -> None:
        """Raise UnsupportedError for an output whose number of elements the run itself finds;
        ``why`` it may not be, and what else to choose."""
        for name, type in zip(self.output_names, self.output_types):
            for found in counts_in(type.shape)[:1]:
                raise UnsupportedError(
                    f"the size of output {name} ({found.name}) is known only after a run, {why}, "
                    "or change the network to return it padded to a fixed shape"
                )

    def arena_buffers(self) -> list[Buffer]:
        """Buffers of the arena in order of first use, scratch included."""
        found = {b: None for b in [*self.inputs, *self.outputs] if b.kind == ARENA}
        for step in self.steps:
            for access in step.accesses():
                if access.buffer.kind == ARENA:
                    found.setdefault(access.buffer)
            if step.scratch is not None:
                found.setdefault(step.scratch)
        return list(found)


def whole(name: str, dtype: DType, shape: tuple[int, ...], order=None, kind: str = ARENA) -> Access:
    """A new buffer of just the size of a tensor, and the access to all of it."""
    return Access(Buffer(name, dtype, prod(shape), kind), dense(shape, order))
