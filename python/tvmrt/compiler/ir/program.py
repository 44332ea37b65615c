"""The program: steps in order, each a C function, over buffers with memory addresses."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from tvmrt.error import UnsupportedError

from .bundle import Bundle
from .dtype import DType
from .graph import Node, Value
from .reduced_precision import ReducedPrecision, WeightQuantization
from .region import DeviceMemory
from .sizes import Extent, Symbol, SymInt, data_dependent_symbols, expected_size, symbols_of
from .strided import Strided, dense
from .tensor_type import PerTensor
from .winograd import WinogradConversion

INPUT, OUTPUT, CONSTANT, ARENA = "input", "output", "constant", "arena"
ALIGN_BYTES = 64


@dataclass(eq=False, repr=False)
class Buffer:
    """Contiguous segment of memory.

    ``size`` counts elements, ``nbytes`` is the maximum size in bytes, or an estimate for dimensions
    without a bound. The caller owns inputs and outputs, the artefact owns constants. Other buffers
    are in the arena: after planning, at byte ``address`` of memory pool number ``pool``. With
    ``memory``, only regions of one device access it; the caller's buffers may be in that memory,
    others always are. A constant with ``in_device_module`` is stored in a device's module.
    """

    name: str
    dtype: DType
    size: SymInt
    kind: str
    data: np.ndarray | None = None
    address: SymInt | None = None
    pool: int = 0
    memory: DeviceMemory | None = None
    in_device_module: bool = False

    @property
    def nbytes(self) -> int:
        return self.dtype.nbytes(expected_size(self.size))

    def shares_memory(self, other: Buffer) -> bool:
        """Return whether a byte is part of both buffers, by their planned addresses."""
        if self is other:
            return True
        if self.kind != ARENA or other.kind != ARENA or self.pool != other.pool:
            return False
        first, second = self.address or 0, other.address or 0
        return first < second + other.nbytes and second < first + self.nbytes

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}: {self.dtype} x {self.size}>"


@dataclass(frozen=True)
class Access:
    """Operand of a step: the elements of a buffer that form a tensor."""

    buffer: Buffer
    at: Strided

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.at.shape

    def covers_buffer(self) -> bool:
        """Return whether it is the whole buffer, without gaps, in some order of axes."""
        return (
            self.at.offset == 0
            and self.at.size == self.buffer.size
            and self.at.is_dense(self.at.order())
        )


# Layouts that a step may require of an operand.
ANY = "any"  # any strides
DENSE = "dense"  # row-major in logical order, no gaps
CHANNELS_LAST = "channels_last"  # channels innermost, pixels at one stride, see pixel_stride()
ROWS = "rows"  # the last axis without gaps, the others with any strides
MATRIX = "matrix"  # the last axis or the one before it without gaps


def channels_last_order(rank: int) -> tuple[int, ...]:
    """Return the order of axes [N, C, *spatial] in memory with channels innermost."""
    return (0, *range(2, rank), 1) if rank > 1 else tuple(range(rank))


def pixel_stride(at: Strided) -> int | None:
    """Return the elements from one pixel to the next if channels are innermost and pixels have a
    constant stride, otherwise None, as for scalars and vectors, which have no channel axis.
    """
    if len(at.shape) < 2:
        return None
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
    """Return whether elements that are adjacent along the axis are adjacent in memory."""
    return at.shape[axis] == 1 or at.strides[axis] == 1


def satisfies(at: Strided, demand: str | tuple[int, ...]) -> bool:
    """Return whether an access meets a step's demand: one of the names above, or an order of axes
    in which the elements have no gaps."""
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
    """Nodes that become one C function: a root, and nodes fused before and after it."""

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
        """Return the values read from outside, each once, in order of use."""
        inside = {v for n in self.nodes for v in n.outputs}
        read = (v for n in self.nodes for v in n.inputs if v is not None)
        return [v for v in dict.fromkeys(read) if v not in inside]


@dataclass(eq=False)
class Step:
    """One call of the program.

    ``reads`` and ``writes`` are the operands in the order of the C parameters; compile-time
    constants are not operands. ``demands`` has the required layout of each operand, reads, then
    writes. ``in_place`` lists (read index, write index) pairs that may share memory.
    ``scratch_bytes`` are allocated in the arena while the step runs; on boards, the kernels that it
    calls use the last ``kernel_bytes`` of them. On hosts, kernels allocate
    ``thread_scratch_bytes`` per thread at run time. ``data_dependent_dims`` has the accesses of the
    data-dependent dimensions that the step uses. ``levels`` has the lowering for each ISA level of
    multi-versioned code. ``deferred``: a region that is started, and waited for where its results
    are needed. ``shrinks``: an in-place result may be smaller than the operand whose memory it has.
    ``weights_in_ram``: bytes of weights that are copied to scratch memory before it runs.
    """

    name: str
    group: Group
    lowering: Any
    read_values: list[Value]
    reads: list[Access]
    writes: list[Access]
    demands: list[str]
    in_place: list[tuple[int, int]] = field(default_factory=list)
    scratch_bytes: SymInt = 0
    kernel_bytes: int = 0
    thread_scratch_bytes: int = 0
    scratch: Buffer | None = None
    guard: tuple[Access, bool] | None = None
    data_dependent_dims: dict[Symbol, Access] = field(default_factory=dict)
    levels: dict[str, object] = field(default_factory=dict)
    deferred: bool = False
    shrinks: bool = False
    weights_in_ram: int = 0

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the network's nodes in this step."""
        return tuple(dict.fromkeys(s for n in self.group.nodes for s in n.sources))

    def symbols(self, with_offsets: bool = True) -> set[Symbol]:
        """Return the symbols that its tensors and attributes depend on; without those of offsets
        that only move a tensor in its buffer, unless the function has to compute the offset."""
        if self.group is None:
            return set()
        layouts = [a.at for a in self.accesses()]
        attrs = [node.attrs for node in self.group.nodes]
        shapes = [v.shape for n in self.group.nodes for v in (*n.operands(), *n.outputs)]
        offsets = [p.offset for p in layouts if with_offsets or data_dependent_symbols(p.offset)]
        moved = symbols_of(*offsets)
        # a loop's body has addresses in the scratch memory, by dimensions of inputs as well
        memory = {s for s in symbols_of(self.scratch_bytes) if s.source is None and not s.local}
        extents = symbols_of(*((p.shape, p.strides) for p in layouts), *attrs, *shapes)
        return moved | memory | extents

    def dims(self) -> set[Symbol]:
        """Return the symbols that are dimensions of inputs."""
        return {s for s in self.symbols() if s.source is None}

    def accesses(self) -> list[Access]:
        guard = [self.guard[0]] if self.guard else []
        return [*self.reads, *self.writes, *guard, *self.data_dependent_dims.values()]


@dataclass(eq=False)
class MemoryPool:
    """Memory of the target, and the planner's use of it; sizes in bytes.

    Without ``capacity`` it is unlimited. The caller provides it (``is_external``), or it is part of
    the artefact, in the linker section ``section`` or in zero-initialised memory. The first
    ``reserved_bytes`` belong to other networks and to weights that outlive a run; ``kept_bytes``
    of these are weights of this network. ``used_bytes`` includes them, and is 0 if nothing of this
    network is in it. ``lower_bound_bytes``: minimum of any plan with the same buffers in it.
    ``memory``: the device memory that it is; only tensors of that device are in it.
    """

    name: str
    capacity: int | None = None
    section: str | None = None
    is_external: bool = False
    reserved_bytes: int = 0
    kept_bytes: int = 0
    used_bytes: int = 0
    lower_bound_bytes: int = 0
    memory: DeviceMemory | None = None


@dataclass(frozen=True)
class RowFusionPlan:
    """Plan that computes chains of steps a few rows at a time.

    ``ram_bytes``: Memory of the network with it. ``instructions``: Estimated instructions in
    addition to layer-by-layer execution. ``chains``: First and last operator of each chain.
    ``patches``: Number of column patches of each chain. ``surplus_macs``: Multiply-adds that
    overlapping patches repeat. ``slowdown``: ``instructions``, relative to a low estimate of the
    network's without chains. ``used``: Whether the network was compiled with it.
    ``weights_in_ram``: Bytes of weights that layers copy to memory that is faster than flash,
    which saves about the time of ``saved_instructions``.
    """

    ram_bytes: int
    instructions: int
    chains: tuple[tuple[str, str], ...]
    patches: tuple[int, ...] = ()
    surplus_macs: int = 0
    slowdown: float = 0.0
    used: bool = False
    weights_in_ram: int = 0
    saved_instructions: int = 0


@dataclass(frozen=True)
class FoundSize:
    """A size without a bound that a run finds: step ``step`` writes it to ``access``. After step
    ``begin`` a phase begins, in which the buffers are placed whose sizes are known by then."""

    symbol: Symbol
    access: Access
    step: int
    begin: int
    phase: int


@dataclass(frozen=True)
class RunPlan:
    """Memory that each run plans for its own sizes, because dimensions have no bound.

    ``buffers``: buffers that hold the others' memory, with their first and last step, in the order
    in which a run places them. ``places``: index in ``buffers`` of every buffer in the arena.
    ``sizes``: elements of all other tensors. ``found``: sizes that a run finds. ``phase_ends``: by
    phase, the number of buffers up to its last one. ``output_phases``: the phase of each output.
    """

    buffers: list[tuple[Buffer, int, int]]
    places: dict[Buffer, int]
    sizes: list[SymInt]
    found: list[FoundSize]
    phase_ends: list[int]
    output_phases: list[int]

    def word_of(self, buffer: Buffer) -> int:
        """Return the word of the workspace that has a buffer's address; the first one identifies
        the plan."""
        return 1 + self.places[buffer]

    @property
    def link_word(self) -> int:
        """The word of the workspace that has the address of the ``tvmrt_run_link``."""
        return 1 + len(self.buffers)


@dataclass
class Program:
    """Steps in order of execution, over the caller's buffers and memory pools.

    ``arena_bytes``: total size of the plan in all pools of the host. ``lower_bound_bytes``: maximum
    number of live bytes at one step, a lower bound for any plan. ``labels``, ``bundles``,
    ``aliases``, ``open_axes``, ``input_quantization`` and ``output_quantization`` are copied
    from the graph, as are ``columns``. ``carried``: see ``carried_values.py``.
    ``states`` outlive a run; the first is the mark that is 0 before the first run. Reports:
    ``narrowed`` on weights in few bits, ``reduced`` on matmul-like operators in bfloat16,
    ``winograd`` on Winograd convolutions, ``row_plans`` on plans with less memory, starting with
    the plan of whole steps. With ``run_plan``, the static plan is an estimate.
    """

    name: str
    inputs: list[Buffer]
    outputs: list[Buffer]
    output_types: list
    input_types: list
    input_names: list[str]
    output_names: list[str]
    steps: list[Step]
    arena_bytes: SymInt = 0
    lower_bound_bytes: int = 0
    pools: list[MemoryPool] = field(default_factory=list)
    concurrent: bool = False  # steps on different devices may run at the same time
    # accesses of the data-dependent dimensions of outputs
    data_dependent_dims: dict[Symbol, Access] = field(default_factory=dict)
    labels: dict[str, list[str]] = field(default_factory=dict)
    bundles: dict[str, Bundle] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    open_axes: dict[str, list[str | None]] = field(default_factory=dict)
    input_quantization: dict[str, PerTensor] = field(default_factory=dict)
    output_quantization: dict[str, PerTensor] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    carried: dict[str, str] = field(default_factory=dict)
    states: list[Buffer] = field(default_factory=list)
    narrowed: list[WeightQuantization] = field(default_factory=list)
    reduced: list[ReducedPrecision] = field(default_factory=list)
    winograd: list[WinogradConversion] = field(default_factory=list)
    row_plans: list[RowFusionPlan] = field(default_factory=list)
    run_plan: RunPlan | None = None

    @property
    def thread_scratch_bytes(self) -> int:
        """Maximum scratch bytes that a thread allocates at run time on a host; 0 on boards."""
        return max((step.thread_scratch_bytes for step in self.steps), default=0)

    def dims(self) -> list[Symbol]:
        """Return the dimensions that a run may choose, in their order in the inputs."""
        return list(self._dims)

    @cached_property
    def _dims(self) -> tuple[Symbol, ...]:
        symbols: dict[Symbol, None] = {}
        for type in self.input_types:
            for extent in type.shape:
                if isinstance(extent, Extent):
                    symbols.update(dict.fromkeys(sorted(extent.symbols(), key=lambda s: s.name)))
        return tuple(symbols)

    def device_pools(self) -> list[tuple[int, MemoryPool]]:
        """Return the pools in device memory, with their numbers."""
        return [(i, pool) for i, pool in enumerate(self.pools) if pool.memory is not None]

    def has_unbounded_dims(self) -> bool:
        """Return whether a run plans its memory, because dimensions have no bound."""
        sizes = [b.size for b in (*self.arena_buffers(), *self.inputs, *self.outputs)]
        return any(s.is_unbounded for s in symbols_of(*sizes))

    def has_dynamic_dims(self) -> bool:
        """Return whether extents of inputs or outputs, or memory, are known only at run time."""
        types = (*self.input_types, *self.output_types)
        return self.run_plan is not None or bool(symbols_of(*(t.shape for t in types)))

    def reject_varying_runs(self, option: str) -> None:
        """Raise UnsupportedError unless every run calls all operators with the same sizes, and no
        state of earlier runs; ``option``: what does not support it."""
        reason = None
        if self.has_dynamic_dims() or any(step.data_dependent_dims for step in self.steps):
            reason = "has dynamic sizes; fix them"
        elif any(step.guard is not None for step in self.steps):
            reason = "runs some operators under conditions"
        elif self.states:
            reason = "keeps state between runs"
        if reason is not None:
            raise UnsupportedError(f"the network {reason}, which {option} does not support")

    def reject_data_dependent_outputs(self, why: str) -> None:
        """Raise UnsupportedError for an output with a data-dependent number of elements; ``why``
        completes the error text: the reason, and an alternative."""
        for name, type in zip(self.output_names, self.output_types):
            for found in data_dependent_symbols(type.shape)[:1]:
                raise UnsupportedError(
                    f"the size of output {name} ({found.name}) is known only after a run, {why}, "
                    "or change the network to return it padded to a fixed shape"
                )

    def arena_buffers(self) -> list[Buffer]:
        """Return the buffers of the arena in order of first use, including scratch."""
        buffers = {b: None for b in [*self.inputs, *self.outputs] if b.kind == ARENA}
        for step in self.steps:
            for access in step.accesses():
                if access.buffer.kind == ARENA:
                    buffers.setdefault(access.buffer)
            if step.scratch is not None:
                buffers.setdefault(step.scratch)
        return list(buffers)


def dense_access(
    name: str, dtype: DType, shape: tuple[int, ...], order=None, kind: str = ARENA
) -> Access:
    """Return an access to all of a new buffer that has exactly the size of a tensor."""
    return Access(Buffer(name, dtype, prod(shape), kind), dense(shape, order))
