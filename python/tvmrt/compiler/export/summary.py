"""Memory and work of a network, by operator and by pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tvmrt.compiler.codegen.c.writer import Function
from tvmrt.compiler.ir import TensorType
from tvmrt.compiler.ir.custom import shown_op
from tvmrt.compiler.ir.program import ARENA, Buffer, MemoryPool, Program, RowFusionPlan, Step
from tvmrt.compiler.ir.reduced_precision import ReducedPrecision, WeightQuantization
from tvmrt.compiler.ir.sizes import Extent, SymInt, expected_size, extent_text
from tvmrt.compiler.ir.tensor_type import PerTensor
from tvmrt.compiler.ir.winograd import WinogradConversion
from tvmrt.compiler.partition.boundary_tensors import boundary_tensors
from tvmrt.compiler.partition.report import BoundaryTensor, NodeAssignment, RegionSummary
from tvmrt.compiler.planner.lifetime import lifetimes


@dataclass
class TensorSummary:
    """Input or output of the network.

    ``shape``: Dimensions; a dynamic one as its name or expression. ``nbytes``: Size at the upper
    bounds of dynamic dimensions. ``labels``: String table that integer elements index, or names of
    the columns. ``scale``: Scale of quantised integers q, which stand for (q - zero_point) * scale.
    ``zero_point``: Zero point of quantised integers.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str
    nbytes: int
    labels: tuple[str, ...] = ()
    scale: float | None = None
    zero_point: int | None = None


@dataclass
class OperatorSummary:
    """Generated function: the network's nodes in it, its work, its result.

    ``macs``: Multiply-adds at the largest sizes. ``out_shape``: Shape of the result. ``symbol``: C
    function. ``live_bytes``: Part of the pools in use while it runs, with its own scratch.
    ``weights_bytes``: Weights that it reads.
    """

    name: str
    op: str
    onnx_nodes: list[str]
    macs: int
    out_shape: tuple[int | str, ...]
    symbol: str = ""
    live_bytes: int = 0
    scratch_bytes: int = 0
    weights_bytes: int = 0


@dataclass
class PlanRow:
    """Buffer in a memory pool: its offset and size in bytes, and its first and last step.

    ``first``: Step that writes it; -1 for an input. ``last``: Last step that reads it; one after
    the last step for an output.
    """

    buffer: str
    offset: int
    size: int
    first: int
    last: int
    pool: str = "workspace"


@dataclass
class PoolSummary:
    """Memory pool.

    ``capacity_bytes``: null if no limit was given. ``lower_bound_bytes``: Of a placement.
    ``kept_bytes``: Part of used_bytes that holds copied weights. ``is_external``: The caller
    provides this memory. ``section``: Linker section. ``device``: Device that owns the memory;
    empty for host memory.
    """

    name: str
    used_bytes: int
    capacity_bytes: int | None
    lower_bound_bytes: int
    kept_bytes: int
    is_external: bool
    section: str | None
    device: str = ""


@dataclass
class Summary:
    """Memory and work of a network, known before the C compiler runs. Sizes in bytes.

    ``arena_bytes``: Memory for tensors. ``lower_bound_bytes``: Lower bound of any placement.
    ``scratch_bytes``: Additional memory of each thread on hosts; 0 on boards. ``operators``: C
    functions in execution order. ``plan``: Offset and lifetime of each tensor. ``seconds``: Seconds
    of each stage of the compiler. ``nodes``: Nodes of the network as imported. ``regions``: Regions
    of devices. ``narrowed``: Weights with reduced bits, and candidates that kept float32
    (`--weights`). ``reduced``: Layers that could be computed in reduced precision (`--precision`).
    ``winograd``: Winograd convolutions, and candidates that stay direct (`--winograd`).
    ``row_plans``: Plans for limited RAM, the fastest first. ``planned_in_runs``: Whether each run
    plans its memory, because dimensions have no maximum; other sizes are then estimates.
    """

    arena_bytes: int
    lower_bound_bytes: int
    weights_bytes: int
    scratch_bytes: int
    inputs: list[TensorSummary]
    outputs: list[TensorSummary]
    operators: list[OperatorSummary]
    plan: list[PlanRow]
    seconds: dict[str, float] = field(default_factory=dict)
    nodes: list[NodeAssignment] = field(default_factory=list)
    regions: list[RegionSummary] = field(default_factory=list)
    borders: list[BoundaryTensor] = field(default_factory=list)
    pools: list[PoolSummary] = field(default_factory=list)
    narrowed: list[WeightQuantization] = field(default_factory=list)
    reduced: list[ReducedPrecision] = field(default_factory=list)
    winograd: list[WinogradConversion] = field(default_factory=list)
    row_plans: list[RowFusionPlan] = field(default_factory=list)
    planned_in_runs: bool = False


def summarise(program: Program, functions: Sequence[Function], weights_bytes: int) -> Summary:
    """Summarise a planned program and the functions that compute its steps."""
    lives = lifetimes(program)
    return Summary(
        expected_size(program.arena_bytes),
        program.lower_bound_bytes,
        weights_bytes,
        program.thread_scratch_bytes,
        [
            _tensor(n, t, (), program.input_quantization.get(n))
            for n, t in zip(program.input_names, program.input_types)
        ],
        [
            _tensor(n, t, program.labels.get(n, ()), program.output_quantization.get(n))
            for n, t in zip(program.output_names, program.output_types)
        ],
        [
            _operator(step, function, _live_bytes(lives, i))
            for i, (step, function) in enumerate(zip(program.steps, functions))
        ],
        [
            PlanRow(b.name, address_of(b), b.nbytes, *lives[b], program.pools[b.pool].name)
            for b in program.arena_buffers()
            if b.kind == ARENA
        ],
        borders=boundary_tensors(program),
        pools=[summary_of_pool(pool) for pool in program.pools],
        narrowed=list(program.narrowed),
        reduced=list(program.reduced),
        winograd=list(program.winograd),
        row_plans=list(program.row_plans),
        planned_in_runs=program.run_plan is not None,
    )


def address_of(buffer: Buffer) -> int:
    """Return the address of a buffer of a planned program in its pool."""
    if buffer.address is None:
        raise ValueError(f"{buffer.name} has no memory yet; call plan_program() first")
    return expected_size(buffer.address)


def _operator(step: Step, function: Function, live_bytes: int) -> OperatorSummary:
    weights = {p.buffer for p in function.parameters if p.buffer and p.buffer.data is not None}
    return OperatorSummary(
        step.name,
        shown_op(step.group.root),
        list(step.sources),
        expected_size(step.lowering.macs()),
        _shape(step.writes[0].shape),
        function.symbol,
        live_bytes,
        expected_size(step.scratch_bytes),
        sum(b.nbytes for b in weights),
    )


def summary_of_pool(pool: MemoryPool) -> PoolSummary:
    """Summarise a pool."""
    return PoolSummary(
        pool.name, pool.used_bytes, pool.capacity, pool.lower_bound_bytes, pool.kept_bytes,
        pool.is_external, pool.section, pool.memory.name if pool.memory else "",
    )  # fmt: skip


def _live_bytes(lives: Mapping[Buffer, tuple[int, int]], step: int) -> int:
    """Return the bytes of the pools in use at a step; ``lives`` is the result of lifetimes()."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for buffer, (first, last) in lives.items():
        if first <= step <= last:
            begin = address_of(buffer)
            spans.setdefault(buffer.pool, []).append((begin, begin + buffer.nbytes))
    return sum(map(covered_bytes, spans.values()))


def covered_bytes(spans: Sequence[tuple[int, int]]) -> int:
    """Return the bytes covered by any span; a result may share memory with an operand."""
    total = end = 0
    for first, last in sorted(spans):
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total


def _shape(shape: Sequence[SymInt]) -> tuple[int | str, ...]:
    return tuple(extent_text(n) if isinstance(n, Extent) else n for n in shape)


def _tensor(
    name: str, type: TensorType, labels: Sequence[str], quantization: PerTensor | None
) -> TensorSummary:
    dtype, numbers = str(type.dtype), quantization or (None, None)
    return TensorSummary(name, _shape(type.shape), dtype, type.nbytes, tuple(labels), *numbers)
