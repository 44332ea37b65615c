"""What a network costs, operator by operator and pool by pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tvmrt.compiler.codegen.c.writer import Function
from tvmrt.compiler.codegen.lowering import thread_bytes
from tvmrt.compiler.ir import TensorType
from tvmrt.compiler.ir.custom import shown_op
from tvmrt.compiler.ir.extent import Extent, Whole, most, shown
from tvmrt.compiler.ir.narrow import NarrowRow
from tvmrt.compiler.ir.program import ARENA, Buffer, MemoryPool, Program, RowPlan, Step
from tvmrt.compiler.ir.reduced import ReducedRow
from tvmrt.compiler.ir.winograd import WinogradRow
from tvmrt.compiler.partition import BorderRow, NodeRow, RegionRow, border_rows
from tvmrt.compiler.planner.lifetime import lifetimes


@dataclass
class TensorSummary:
    """One input or output of the network.

    ``labels``: names that an output's elements are places of, or that its columns stand for.
    """

    name: str
    shape: tuple[int | str, ...]  # an extent that runs choose by its expression
    dtype: str
    nbytes: int
    labels: tuple[str, ...] = ()


@dataclass
class OperatorSummary:
    """One generated function: the network's nodes in it, its work, its result.

    ``live_bytes`` of the pools are in use while it runs, ``scratch_bytes`` of them by itself;
    ``weights_bytes`` are the weights that it reads, ``macs`` multiply-adds at the largest sizes.
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
    """One buffer's place in a memory pool, in bytes, and the steps of its life.

    An input in a pool lives from -1 on, an output to one after the last step.
    """

    buffer: str
    offset: int
    size: int
    first: int
    last: int
    pool: str = "workspace"


@dataclass
class PoolSummary:
    """One memory: what the network takes of it, what it has, and what no plan can go below.

    ``kept_bytes`` of it are weights that are copied there. ``device`` has the memory, where it is
    not the host's.
    """

    name: str
    used_bytes: int
    capacity_bytes: int | None
    lower_bound_bytes: int
    kept_bytes: int
    lent: bool
    section: str | None
    device: str = ""


@dataclass
class Summary:
    """What a network costs, known before the C compiler runs. Sizes in bytes.

    ``scratch_bytes`` are those that each thread takes besides; on boards none, as all lies in the
    pools. ``row_plans``: where memory was limited, the plans that there are, from the fastest on.
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
    nodes: list[NodeRow] = field(default_factory=list)
    regions: list[RegionRow] = field(default_factory=list)
    borders: list[BorderRow] = field(default_factory=list)
    pools: list[PoolSummary] = field(default_factory=list)
    narrowed: list[NarrowRow] = field(default_factory=list)
    reduced: list[ReducedRow] = field(default_factory=list)
    winograd: list[WinogradRow] = field(default_factory=list)
    row_plans: list[RowPlan] = field(default_factory=list)


def summarise(program: Program, functions: Sequence[Function], weights_bytes: int) -> Summary:
    """What is known of a planned program and of the functions that compute its steps."""
    lives = lifetimes(program)
    return Summary(
        program.arena_bytes,
        program.lower_bound_bytes,
        weights_bytes,
        thread_bytes(program),
        [_tensor(n, t) for n, t in zip(program.input_names, program.input_types)],
        [
            _tensor(n, t, program.labels.get(n, ()))
            for n, t in zip(program.output_names, program.output_types)
        ],
        [
            _operator(step, function, _live_bytes(lives, i))
            for i, (step, function) in enumerate(zip(program.steps, functions))
        ],
        [
            PlanRow(b.name, placed(b), b.nbytes, *lives[b], program.pools[b.pool].name)
            for b in program.arena_buffers()
            if b.kind == ARENA
        ],
        borders=border_rows(program),
        pools=[summary_of_pool(pool) for pool in program.pools],
        narrowed=list(program.narrowed),
        reduced=list(program.reduced),
        winograd=list(program.winograd),
        row_plans=list(program.row_plans),
    )


def placed(buffer: Buffer) -> int:
    """Where a buffer of a planned program lies in its pool."""
    if buffer.address is None:
        raise ValueError(f"{buffer.name} has no place; plan_program() comes first")
    return buffer.address


def _operator(step: Step, function: Function, live_bytes: int) -> OperatorSummary:
    weights = {p.buffer for p in function.parameters if p.buffer and p.buffer.data is not None}
    return OperatorSummary(
        step.name,
        shown_op(step.group.root),
        list(step.sources),
        most(step.lowering.macs()),
        _shape(step.writes[0].shape),
        function.symbol,
        live_bytes,
        step.scratch_bytes,
        sum(b.nbytes for b in weights),
    )


def summary_of_pool(pool: MemoryPool) -> PoolSummary:
    """What is told of a pool."""
    return PoolSummary(
        pool.name, pool.used_bytes, pool.capacity, pool.lower_bound_bytes, pool.kept_bytes,
        pool.lent, pool.section, pool.memory.name if pool.memory else "",
    )  # fmt: skip


def _live_bytes(lives: Mapping[Buffer, tuple[int, int]], step: int) -> int:
    """Bytes of the pools that hold something at a step; ``lives`` as lifetimes() gives them."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for buffer, (first, last) in lives.items():
        if first <= step <= last:
            begin = placed(buffer)
            spans.setdefault(buffer.pool, []).append((begin, begin + buffer.nbytes))
    return sum(map(covered, spans.values()))


def covered(spans: Sequence[tuple[int, int]]) -> int:
    """Bytes under any of these; a result may lie where an operand does."""
    total = end = 0
    for first, last in sorted(spans):
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total


def _shape(shape: Sequence[Whole]) -> tuple[int | str, ...]:
    return tuple(shown(n) if isinstance(n, Extent) else n for n in shape)


def _tensor(name: str, type: TensorType, labels: Sequence[str] = ()) -> TensorSummary:
    return TensorSummary(name, _shape(type.shape), str(type.dtype), type.nbytes, tuple(labels))
