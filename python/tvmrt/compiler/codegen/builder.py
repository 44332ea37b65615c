"""Lower a graph to a program: assign a memory layout to each tensor and a function to each group.

The program computes the graph's outputs into the caller's buffers, row-major. Views cost nothing if
strides can express them. A copy is inserted if an operand's layout does not meet the demand of the
step that reads it.
"""

from __future__ import annotations

from functools import partial, reduce

from tvmrt.compiler.ir import DTYPES, POINTWISE, VIEW, Graph, Node, Trait, Value, dense, get_op
from tvmrt.compiler.ir.custom import c_refusal, kernel_record, shown_op
from tvmrt.compiler.ir.limits import MAX_ELEMENTS
from tvmrt.compiler.ir.program import (
    ALIGN_BYTES,
    ARENA,
    CHANNELS_LAST,
    CONSTANT,
    DENSE,
    INPUT,
    OUTPUT,
    Access,
    Buffer,
    Group,
    Program,
    Step,
    channels_last_order,
    dense_access,
    satisfies,
)
from tvmrt.compiler.ir.region import region_of
from tvmrt.compiler.ir.requantization import rounding_of
from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.sizes import (
    Symbol,
    allocation_extent,
    data_dependent_symbols,
    error_context,
    is_unbounded,
    sym_max,
    symbols_of,
    upper_bound,
)
from tvmrt.compiler.planner.plan import plan_program
from tvmrt.compiler.planner.run_plan import place_in_sequence
from tvmrt.error import UnsupportedError, UnsupportedSizes

from .c.naming import Namer, layer_name, work_name
from .kernel_features import BOARD_KERNELS
from .loops.fusion import form_groups
from .loops.loop_nest import PointwiseLowering
from .loops.pointwise import has_moderate_angle_form
from .lowering import Lowering, has_lowering, lowering_for
from .lowering_protocols import Nested
from .operand_copies import insert_operand_copies
from .target import Target
from .tied_embeddings import tie_embeddings
from .window.fused_residual import residual_operand
from .zero_copy_concat import remove_concat_copies

KERNEL_ALIGN_BYTES = 16  # alignment of blocks from tvmrt_scratch_alloc() on boards
PAGE_BYTES = 4096  # granularity at which the runtimes of hosts allocate them


def build_program(graph: Graph, target: Target, concurrent: bool = False) -> Program:
    """Return the program that computes ``graph``. With ``concurrent``, steps on different devices
    may run at the same time. Raises UnsupportedError listing every operator without a kernel, with
    the names of its nodes."""
    return _ProgramBuilder(graph, target).build(concurrent)


def _main_name(group: Group) -> str:
    """Return the name of the node that does the main work of a group."""
    root = group.root
    if root.operator.is_copy and group.before:  # a copy of the result into another layout
        root = group.before[-1]
    is_layer = root.operator.is_product
    return work_name(shown_op(root), layer_name(root.name) if is_layer else root.name)


def _lowering_class(op: str) -> type[Lowering]:
    return PointwiseLowering if get_op(op).kind == POINTWISE else lowering_for(op)


def _kernel_lowering(node: Node) -> type[Lowering] | None:
    """Return the lowering of a computed node, or None for views and concatenations."""
    view = node.operator.kind == VIEW or node.has(Trait.CONCATENATES)
    return None if view else _lowering_class(node.op)


def _takes_epilogue(node: Node) -> bool:
    return not node.has(Trait.CONCATENATES) and _lowering_class(node.op).takes_epilogue


class _ProgramBuilder:
    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph = graph
        self.target = target
        self.names = Namer()
        self.access: dict[Value, Access] = {}
        self.copies: dict[tuple[Value, tuple[int, ...]], Access] = {}
        self.steps: list[Step] = []

    def build(self, concurrent: bool) -> Program:
        self._check_operators()
        inputs = []
        for value in self.graph.inputs:
            access = dense_access(value.name, value.dtype, value.shape, kind=INPUT)
            self.access[value] = access
            inputs.append(access.buffer)
        insert_operand_copies(self.graph, _kernel_lowering)
        groups = form_groups(
            self.graph, _takes_epilogue, self._can_fuse, self._fuses_only_pointwise
        )
        for group in groups:
            with error_context(group.root.sources):
                self._lower_group(group)
        graph = self.graph
        shown = len(graph.outputs) - graph.state_count
        # the buffers that keep their contents between runs
        begin_nodes = [n for n in graph.nodes if n.op == "begin_state"]
        states = [self.access[v].buffer for n in begin_nodes for v in n.outputs]
        outputs = self._bind_outputs(shown, states)
        self._update_states(states)
        program = Program(
            graph.name,
            inputs,
            outputs,
            [v.type for v in graph.outputs[:shown]],
            [v.type for v in graph.inputs],
            [v.name for v in graph.inputs],
            graph.output_names[:shown],
            self.steps,
            concurrent=concurrent,
            states=states,
        )
        _check_sizes(program)
        self._attach_data_dependent_dims(program)
        remove_concat_copies(program, self.target.hosted)
        tie_embeddings(program)
        for step in program.steps:
            step.in_place = step.lowering.in_place(step)
            with error_context(step.group.root.sources):
                reserve_scratch(step)
        return program

    def _attach_data_dependent_dims(self, program: Program) -> None:
        """Attach to steps and outputs the data-dependent dimensions that they read."""
        for step in program.steps:
            step.data_dependent_dims = self._data_dependent_dims(*step.symbols())
        program.data_dependent_dims = self._data_dependent_dims(
            *symbols_of(*(t.shape for t in program.output_types))
        )

    def _data_dependent_dims(self, *symbols: Symbol) -> dict[Symbol, Access]:
        data_dependent = sorted((s for s in symbols if s.source is not None), key=lambda s: s.name)
        return {s: self._access_of(s.source) for s in data_dependent}

    def _lower_group(self, group: Group) -> None:
        if get_op(group.root.op).kind == VIEW:
            self._lower_view(group.root)
        elif group.root.has(Trait.CONCATENATES):
            self._lower_concat(group.root)
        else:
            self._lower_kernel(group)

    def _check_operators(self) -> None:
        problems = []
        for node in self.graph.nodes:
            refused = get_op(node.op).host_only
            if refused and not self.target.hosted:
                problems.append(f"{', '.join(node.sources)} ({refused})")
                continue
            if node.operator.kind in (VIEW, POINTWISE) or node.has(Trait.CONCATENATES):
                continue
            if kernel_record(node) is not None:
                reason = c_refusal(node)
            else:
                reason = None if has_lowering(node.op) else f"{node.op} has no kernel"
            if reason is not None:
                problems.append(f"{', '.join(node.sources)} ({reason})")
        if problems:
            raise UnsupportedError(
                f"the network {self.graph.name} cannot be compiled: {'; '.join(problems)}"
            )

    def _can_fuse(self, node: Node, inside: list[Node]) -> bool:
        """Return whether a node may be fused after ``inside``. Residual adds are fused too: into
        row functions on microcontrollers, into tile epilogues, which end with the add, on hosts.
        There nothing else follows a product in fixed point, which tiles requantise faster than row
        functions."""
        pointwise, root = get_op(node.op).kind == POINTWISE, inside[0]
        if self._fuses_only_pointwise(node):
            return False
        if BOARD_KERNELS.of(self.target):
            is_layer = root.operator.is_integer_product and root.operator.weights is not None
            return pointwise or (is_layer and node.operator.is_integer_pair)
        if pointwise:
            if root.operator.is_integer_product and rounding_of(root) != "even":
                return False
            return inside[-1] is root or not inside[-1].operator.is_integer_pair
        return inside[-1] is root and residual_operand(root, node) is not None

    def _fuses_only_pointwise(self, node: Node) -> bool:
        """Return whether a node is fused only with pointwise nodes; see loops/loop_nest.py on
        angles."""
        return self.target.lanes > 1 and has_moderate_angle_form(node)

    # Operands.

    def _access_of(self, value: Value) -> Access:
        """Return the access of a value; a constant gets a buffer on first use."""
        if value not in self.access:
            buffer = Buffer(value.name, value.dtype, value.type.size, CONSTANT)
            buffer.data = value.data.reshape(-1)
            self.access[value] = Access(buffer, dense(value.shape))
        return self.access[value]

    def _access_with_layout(self, value: Value, demand: str | tuple[int, ...]) -> Access:
        """Return an access to the value that meets the demand, copying it if necessary."""
        access = self._access_of(value)
        if satisfies(access.at, demand):
            return access
        if isinstance(demand, tuple):
            return self._copy_to_layout(value, demand)
        rank = value.type.rank
        order = channels_last_order(rank) if demand == CHANNELS_LAST else tuple(range(rank))
        return self._copy_to_layout(value, order)

    def _copy_to_layout(self, value: Value, order: tuple[int, ...]) -> Access:
        """Return a copy of the value in this axis order, created once."""
        key = (value, order)
        if key not in self.copies:
            name = f"{value.name}_copy"
            copy = dense_access(name, value.dtype, value.shape, order)
            self.copies[key] = self._emit_copy(value, name, copy)
        return self.copies[key]

    def _emit_copy(self, value: Value, name: str, out: Access, cause: Node | None = None) -> Access:
        source = self._access_of(value)
        sources = _sources(value) if cause is None else cause.sources
        node = Node("identity", [value], {}, name, sources)
        node.outputs = [Value(name, value.type, node)]
        group = Group(node)
        reads = [] if value.is_constant else [value]
        self.steps.append(
            Step(
                self.names.take(name),
                group,
                PointwiseLowering(group, self.target),
                reads,
                [source] * len(reads),
                [out],
                ["any"] * (len(reads) + 1),
                levels=self._level_lowerings(PointwiseLowering, group),
            )
        )
        return out

    # Groups.

    def _lower_view(self, node: Node) -> None:
        rule = get_op(node.op)
        value = node.inputs[0]
        if value.is_constant:
            # a constant too large to fold: steps read constants only through the weights
            self.access[value] = self._copy_to_layout(value, tuple(range(value.type.rank)))
        source = self._access_of(value)
        at = rule.access(source.at, node.attrs)
        if at is None:
            source = self._access_with_layout(value, DENSE)
            at = rule.access(source.at, node.attrs)
        self.access[node.output] = Access(source.buffer, at)

    def _lower_kernel(self, group: Group) -> None:
        lowering = _lowering(_lowering_class(group.root.op), group, self.target)
        levels = self._level_lowerings(type(lowering), group)
        if group.after:
            accesses = {v: self._access_of(v) for v in group.inputs() if not v.is_constant}
            if not lowering.accepts_epilogue(accesses):
                # the kernel alone, then the remaining nodes as a pointwise group
                self._lower_kernel(Group(group.root, group.before))
                self._lower_kernel(Group(group.after[-1], group.after[:-1]))
                return
        operands = lowering.operands()
        demands = [lowering.demand(v) for v in operands]
        reads = [self._access_with_layout(v, demand) for v, demand in zip(operands, demands)]
        accesses = dict(zip(operands, reads))
        name = self.names.take(_main_name(group))
        writes = []
        has_several = len(group.outputs) > 1
        for i, value in enumerate(group.outputs):
            layout = lowering.result_layout(i, accesses)
            label = f"{name}_{i}" if has_several else name
            access = dense_access(label, value.dtype, value.shape, layout.order)
            self.access[value] = access
            writes.append(access)
            demands.append(layout.demand)
        step = Step(name, group, lowering, operands, reads, writes, demands, levels=levels)
        if group.root.guard is not None:
            condition, expected = group.root.guard
            step.guard = (self._access_of(condition), expected)
        self.steps.append(step)

    def _level_lowerings(self, kind: type[Lowering], group: Group) -> dict[str, Lowering]:
        """Return the lowering for each ISA level of the target. Levels differ in tiles and scratch
        memory, not in tensor layouts."""
        if region_of(group.root) is not None:
            return {}  # a device function, the same for all processors of the family
        return {level.name: _lowering(kind, group, level) for level in self.target.levels}

    def _lower_concat(self, node: Node) -> None:
        """Copy each part into its slice; remove_concat_copies() removes copies where it can."""
        orders: dict[tuple[int, ...], int] = {}
        for value in node.inputs:
            order = self._access_of(value).at.order()
            orders[order] = orders.get(order, 0) + value.type.nbytes
        order = max(orders, key=lambda o: orders[o])
        out = dense_access(node.output.name, node.output.dtype, node.output.shape, order)
        self.access[node.output] = out
        axis, start = node.attrs["axis"], 0
        for i, value in enumerate(node.inputs):
            rank = value.type.rank
            starts = [start if d == axis else 0 for d in range(rank)]
            at = out.at.slice(starts, [1] * rank, value.shape)
            name = f"{node.sources[-1]}_part{i}"
            self._emit_copy(value, name, Access(out.buffer, at), node)
            start += value.shape[axis]

    # Results.

    def _update_states(self, states: list[Buffer]) -> None:
        """After all other steps, copy the final state to the buffers that the next run reads. A
        value that lies in another state's buffer is saved first."""
        if not self.graph.state_count:
            return
        pairs = []
        for buffer, value in zip(states[1:], self.graph.outputs[-self.graph.state_count :]):
            source = self._access_of(value)
            if source.buffer is buffer and source.at.is_dense():
                continue  # already in its own buffer
            if source.buffer in states:
                name = f"{buffer.name}_saved"
                saved = dense_access(name, value.dtype, value.shape)
                self.access[value] = self._emit_copy(value, name, saved)
            pairs.append((buffer, value))
        for buffer, value in pairs:
            self._emit_copy(value, f"{buffer.name}_left", Access(buffer, dense(value.shape)))

    def _bind_outputs(self, count: int, states: list[Buffer]) -> list[Buffer]:
        """Bind each output to a caller-provided buffer: its producer's buffer if that fits."""
        bound: set[Buffer] = set(states)
        outputs = []
        for name, value in zip(self.graph.output_names[:count], self.graph.outputs):
            access = self._access_of(value)
            fits = (
                access.buffer.kind == ARENA
                and access.buffer not in bound
                and access.at.is_dense()
                and access.at.size == access.buffer.size
                and access.at.offset == 0
                and self._writers_know_dims(access.buffer, value)
            )
            if fits:
                buffer = access.buffer
                buffer.kind, buffer.name = OUTPUT, name
            else:
                target = dense_access(name, value.dtype, value.shape, kind=OUTPUT)
                buffer = target.buffer
                self._emit_copy(value, name, target)
            bound.add(buffer)
            outputs.append(buffer)
        return outputs

    def _writers_know_dims(self, buffer: Buffer, value: Value) -> bool:
        """Return whether every step that touches the buffer depends on all data-dependent extents
        of the value: parts of a concatenation are written before other parts are known."""
        counts = set(data_dependent_symbols(value.shape))
        if not counts:
            return True
        touching = [s for s in self.steps if any(a.buffer is buffer for a in s.accesses())]
        return all(counts <= step.symbols() for step in touching)


def _lowering(kind: type[Lowering], group: Group, target: Target) -> Lowering:
    """Return the lowering of a group with the programs nested in it."""
    lowering = kind(group, target)
    if isinstance(lowering, Nested):
        lowering.build_subprograms(partial(_build_subprogram, target=target))
    return lowering


def _build_subprogram(graph: Graph, target: Target) -> Program:
    """Plan a graph nested in a node; its arena lies in the scratch of the node's step."""
    program = build_program(graph, target)
    plan_program(program)
    if program.run_plan is not None:
        place_in_sequence(program)
    return program


def reserve_scratch(step: Step) -> None:
    """Reserve the step's scratch memory in the arena. On boards it includes the blocks that kernels
    allocate at run time on hosts."""
    hosted, variants = step.lowering.target.hosted, step.levels.values() or (step.lowering,)
    needs = [lowering.scratch(step) for lowering in variants]
    align = PAGE_BYTES if hosted else KERNEL_ALIGN_BYTES
    # a host takes blocks of unknown sizes from the memory of the thread
    kernel_bytes = max(
        sum(round_up(upper_bound(n), align) for n in each.kernel_blocks if not is_unbounded(n))
        for each in needs
    )
    sizes = [each.arena_bytes for each in needs]
    bounds = (allocation_extent(n) if is_unbounded(n) else upper_bound(n) for n in sizes)
    step.scratch_bytes = reduce(sym_max, bounds)
    if hosted:
        step.thread_scratch_bytes = kernel_bytes
    elif kernel_bytes:
        step.kernel_bytes = kernel_bytes
        step.scratch_bytes = round_up(step.scratch_bytes, ALIGN_BYTES) + kernel_bytes
    if step.scratch_bytes != 0:  # an open size may be 0 in some runs
        name = f"{step.name}_scratch"
        step.scratch = Buffer(name, DTYPES["uint8"], step.scratch_bytes, ARENA)


def _check_sizes(program: Program) -> None:
    """Raise UnsupportedSizes for tensors whose element count exceeds the range of int."""
    for step in program.steps:
        for access in step.accesses():
            size = upper_bound(access.buffer.size)
            if size > MAX_ELEMENTS and not is_unbounded(access.buffer.size):
                raise UnsupportedSizes(
                    f"{', '.join(step.sources)}: a tensor of {size} elements is too large; the "
                    f"maximum is {MAX_ELEMENTS}; use a smaller shape"
                )


def _sources(value: Value) -> tuple[str, ...]:
    return value.producer.sources if value.producer is not None else (value.name,)
