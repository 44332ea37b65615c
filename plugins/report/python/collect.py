"""Data of a report from the compiler, as plain dictionaries and lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tvmrt.compiler.sdk.export import CompiledLibrary, OperatorSummary, Summary
from tvmrt.compiler.sdk.graph import PRECISION, Extent, Node, expected_size, extent_text, region_of
from tvmrt.compiler.sdk.program import CONSTANT, Access, Buffer, Program, Step
from tvmrt.libinfo import __version__
from tvmrt.plugins.report import FORMAT, VERSION
from tvmrt.plugins.report.operator_kinds import kind_of


def collect(library: CompiledLibrary, name: str) -> dict[str, Any]:
    """Return all data of a compiled library that is known before it runs; ``name`` is shown.

    Sizes are in bytes at the largest extents. The rows of ``operators`` are the functions in
    execution order. ``edges`` are pairs of producer and consumer, as vertex numbers: first the
    inputs, then the operators, then the outputs. A row of ``nodes`` has the numbers of the
    operators that contain it.
    """
    summary, program = library.summary, library.program
    options = library.options
    return {
        "format": FORMAT,
        "version": VERSION,
        "tvmrt": __version__,
        "network": name,
        "target": library.target.name,
        "executor": options.executor,
        "inputs": [_describe(each) for each in summary.inputs],
        "outputs": [_describe(each) for each in summary.outputs],
        "memory": _memory(summary),
        "operators": [_operator(step, row) for step, row in zip(program.steps, summary.operators)],
        "nodes": _nodes(summary),
        "regions": [asdict(region) for region in summary.regions],
        "edges": edges(program),
        "stages": summary.seconds,
    }


def edges(program: Program) -> list[tuple[int, int]]:
    """Return pairs of vertices without duplicates, ordered by reader."""
    writers: dict[Buffer, list[int]] = {b: [i] for i, b in enumerate(program.inputs)}
    found: dict[tuple[int, int], None] = {}
    first = len(program.inputs)
    for i, step in enumerate(program.steps, first):
        writes = {access.buffer for access in step.writes}
        for access in step.accesses():
            if access.buffer not in writes:
                found.update(dict.fromkeys((w, i) for w in writers.get(access.buffer, ())))
        for access in step.writes:
            writers.setdefault(access.buffer, []).append(i)
    for i, buffer in enumerate(program.outputs, first + len(program.steps)):
        found.update(dict.fromkeys((w, i) for w in writers.get(buffer, ())))
    return list(found)


def _describe(tensor: Any) -> dict[str, Any]:
    row = asdict(tensor)
    row.pop("labels")
    return {name: value for name, value in row.items() if value is not None}


def _memory(summary: Summary) -> dict[str, Any]:
    return {
        "arena_bytes": summary.arena_bytes,
        "lower_bound_bytes": summary.lower_bound_bytes,
        "weights_bytes": summary.weights_bytes,
        "scratch_bytes": summary.scratch_bytes,
        "planned_in_runs": summary.planned_in_runs,
        "pools": [asdict(pool) for pool in summary.pools],
        "tensors": [asdict(row) for row in summary.plan],
    }


def _operator(step: Step, row: OperatorSummary) -> dict[str, Any]:
    root = step.group.root
    region = region_of(root)
    reads = [_access(access) for access in step.reads]
    writes = [_access(access) for access in step.writes]
    return {
        "name": row.name,
        "symbol": row.symbol,
        "kind": kind_of(root.op),
        "op": row.op,
        "precision": precision_of(root),
        "fused": [node.op for node in step.group.nodes],
        "device": "cpu" if region is None else region.device,
        "region": "" if region is None else region.symbol,
        "onnx_nodes": row.onnx_nodes,
        "reads": reads,
        "writes": writes,
        "macs": row.macs,
        "moved_bytes": _moved_bytes(step, row, reads, writes),
        "weights_bytes": row.weights_bytes,
        "scratch_bytes": row.scratch_bytes,
        "live_bytes": row.live_bytes,
    }


def _moved_bytes(
    step: Step,
    row: OperatorSummary,
    reads: Sequence[dict[str, Any]],
    writes: Sequence[dict[str, Any]],
) -> int:
    """Return the bytes of operands, weights and results; of a table only those of the result."""
    root = step.group.root
    written: int = sum(each["nbytes"] for each in writes)
    moved: int = row.weights_bytes + sum(each["nbytes"] for each in reads) + written
    if root.op != "gather":
        return moved
    table: int = row.weights_bytes
    if not root.inputs[0].is_constant:
        read = zip(step.read_values, reads)
        table = sum(each["nbytes"] for value, each in read if value is root.inputs[0])
    return moved - max(0, table - written)


def precision_of(root: Node) -> str:
    """Return the type of an operator's multiplications: ``float32``, ``bfloat16`` or ``int8``."""
    if PRECISION in root.attrs:
        return root.attrs[PRECISION]
    return "int8" if root.op.startswith("q") or root.op == "pair" else "float32"


def _access(access: Access) -> dict[str, Any]:
    """Describe a tensor as a step accesses it; ``nbytes`` is the accessed size."""
    buffer = access.buffer
    shape: Sequence[Any] = access.shape
    return {
        "name": buffer.name,
        "dtype": str(buffer.dtype),
        "shape": [extent_text(n) if isinstance(n, Extent) else n for n in shape],
        "nbytes": buffer.dtype.nbytes(expected_size(access.at.size)),
        "constant": buffer.kind == CONSTANT,
    }


def _nodes(summary: Summary) -> list[dict[str, Any]]:
    """Return the network's nodes, each with the numbers of the operators that contain it."""
    places: dict[str, list[int]] = {}
    for number, operator in enumerate(summary.operators):
        for node in operator.onnx_nodes:
            places.setdefault(node, []).append(number)
    return [{**asdict(row), "operators": places.get(row.name, [])} for row in summary.nodes]
