"""Rematerialise quantised tensors that another tensor can restore.

A quantised tensor is often read twice: requantised by the next layer, and unchanged by a residual
add several layers later. Both versions are then live together. If requantisation is lossless, as it
usually is after a clamp, a lookup table restores the first version from the second just before it
is read. That costs another pass over a tensor, so it is done only at the memory peak, and only for
targets with kilobytes of memory.

Results are bit-exact, and memory never increases.
"""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import VIEW, Graph, Node, Value, constant, get_op
from tvmrt.compiler.ir.program import ARENA, Program, Step
from tvmrt.compiler.planner.plan import live_bytes_of_steps

from . import builder
from .target import Target


def build_program(graph: Graph, target: Target, concurrent: bool = False) -> Program:
    """Build a program like :func:`builder.build_program`, with rematerialised tensors."""
    program = builder.build_program(graph, target, concurrent)
    rematerialized: set[Node] = set()
    while not target.hosted:
        candidate = _find_rematerializable(graph, program, rematerialized)
        if candidate is None:
            break
        rematerialized.add(_rematerialize(graph, *candidate))
        program = builder.build_program(graph, target, concurrent)
    return program


def _find_rematerializable(graph: Graph, program: Program, rematerialized: set[Node]):
    """Find a table whose input is live across the memory peak only for later readers. Return the
    table, its inverse and these readers; None if there is none."""
    live = live_bytes_of_steps(program)
    peak_steps = [i for i, nbytes in enumerate(live) if nbytes == max(live)]
    users = graph.consumers()
    for i, step in enumerate(program.steps):
        table = step.group.root
        if not _is_lookup_table(step) or table in rematerialized:
            continue
        source = step.reads[0].buffer
        later = [j for j in range(i + 1, len(program.steps)) if _accesses(program.steps[j], source)]
        if not later or not any(i < j < later[0] for j in peak_steps):
            continue
        nodes = {node for j in later for node in program.steps[j].group.nodes}
        readers = [node for node in users[table.inputs[0]] if node in nodes]
        entries = _inverse(table)
        if entries is not None and _users_are_steps(table, users, program):
            return table, entries, readers
    return None


def _is_lookup_table(step: Step) -> bool:
    alone = step.group.root.op == "table" and len(step.group.nodes) == 1
    if not alone or step.guard or not step.reads:
        return False
    return step.reads[0].buffer.kind == ARENA and step.reads[0].covers_buffer()


def _accesses(step: Step, buffer) -> bool:
    return any(access.buffer is buffer for access in [*step.reads, *step.writes])


def _users_are_steps(table: Node, users, program: Program) -> bool:
    """Return whether all users of a table's input are computed in steps, not views or slices."""
    value = table.inputs[0]
    steps = {node for step in program.steps for node in step.group.nodes}
    return all(node in steps and get_op(node.op).kind != VIEW for node in users[value])


def _inverse(table: Node) -> np.ndarray | None:
    """Return the inverse of a lookup table; None if it maps two bytes to one."""
    source, entries = table.inputs[0], table.inputs[1].data
    values = _possible_values(source)
    if len(np.unique(entries[values])) != len(values):
        return None
    back = np.zeros(256, np.uint8)
    back[entries[values]] = values
    return back


def _possible_values(value: Value) -> np.ndarray:
    """Return the values of an 8-bit tensor, as unsigned bytes."""
    node = value.producer
    if node is not None and "low" in node.attrs and "high" in node.attrs:
        values = np.arange(node.attrs["low"], node.attrs["high"] + 1)
        return values.astype(value.dtype.numpy).view(np.uint8)
    if node is not None and node.op == "table":
        return np.unique(node.inputs[1].data)
    return np.arange(256, dtype=np.uint8)


def _rematerialize(graph: Graph, table: Node, entries: np.ndarray, readers: list[Node]) -> Node:
    """Insert the inverse table as a node, let ``readers`` use its result, and return the node."""
    source, result = table.inputs[0], table.output
    name = f"{table.name}_undone"
    attrs = {"to": source.dtype.name}
    node = Node("table", [result, constant(entries, f"{name}_table")], attrs, name, table.sources)
    node.outputs = [Value(name, source.type, node)]
    graph.nodes.insert(min(graph.nodes.index(reader) for reader in readers), node)
    for reader in readers:
        reader.inputs = [node.output if v is source else v for v in reader.inputs]
    return node
