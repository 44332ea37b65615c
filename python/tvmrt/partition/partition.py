"""Cutting a network over devices: annotate, merge, evaluate, optimize, generate, replace.

Contract: the graph computes the same afterwards; what a device takes is in ``region`` nodes whose
code is generated, everything else is as it was. A region that its device refuses stays on the CPU,
with the reason in the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvmrt.error import TVMError, UnsupportedError
from tvmrt.ir import CSource, Graph, ModuleBlob, Node, Region, Value
from tvmrt.ir.extent import listed, symbols_of
from tvmrt.ir.region import PACKED
from tvmrt.ir.verifier import verify

from .annotate import CPU, assign
from .extract import cut, put, reorder
from .fallback import add_fallbacks
from .merge import merge, single_results
from .precision import Reducer, optimized
from .report import Partition

if TYPE_CHECKING:
    from tvmrt.devices import Context, Device

# What a device's methods may raise for a region that they cannot do.
REFUSALS = (TVMError, ValueError, TypeError, KeyError, OSError, NotImplementedError, ImportError)


@dataclass
class _Candidate:
    """A region that is not in the graph yet."""

    region: Region
    nodes: list[Node]
    reads: list[Value]
    writes: list[Value]


def partition(
    graph: Graph,
    devices: Sequence[Device],
    context: Context,
    fallback: bool = False,
    reducer: Reducer | None = None,
) -> Partition:
    """Cut the graph in place.

    Parameters
    ----------
    devices
        In order of preference; what nobody takes stays on the CPU.
    fallback
        Whether a device may fail: code for the CPU stands beside that of each region and runs
        where the region fails; a region whose code cannot be generated stays on the CPU.
    reducer
        Chooses regions and nodes that compute in a lower precision.

    Raises
    ------
    UnsupportedError
        If a device fails to generate code, unless ``fallback``; the text names device and region.
    """
    result = Partition([d.name for d in devices], graph.op_types)
    useful = []
    problems = {}
    for device in devices:
        problem = device.refuses(context)
        if problem is None:
            useful.append(device)
        else:
            problems[device.name] = problem
    assignment = assign(graph, useful)
    for name, problem in problems.items():
        for node in graph.nodes:
            assignment.refuse(node, name, problem)
    result.begin(graph, assignment)
    candidates = _cut_all(graph, assignment, useful, context)
    if reducer is not None:
        reducer.prepare(graph, [v for c in candidates for v in (*c.reads, *c.writes)])
    replaced: dict[Node, list[Node]] = {}
    for device in useful:
        own = [c for c in candidates if c.region.device == device.name]
        own = [c for c in own if _accepted(device, c, reducer, result)]
        for number, candidate in enumerate(own):
            candidate.region.symbol = _symbol(context, device.name, number)
            candidate.region.reports_failure = fallback
        for candidate in _generate(device, own, context, fallback, result):
            node = put(graph, candidate.nodes, candidate.region, candidate.reads, candidate.writes)
            result.place(candidate.nodes, candidate.region)
            replaced[node] = candidate.nodes
    reorder(graph)
    if fallback:
        add_fallbacks(graph, replaced)
    order = {node.attrs["region"]: i for i, node in enumerate(graph.nodes) if node.op == "region"}
    result.regions.sort(key=lambda region: order[region])
    verify(graph, "partition")
    if reducer is not None:
        reducer.finish(result.regions)
    return result


def _symbol(context: Context, device: str, number: int) -> str:
    prefix = f"tvmgen_{context.module_name}" if context.module_name else "tvmgen"
    return f"{prefix}_{device}_main_{number}"


def _cut_all(graph: Graph, assignment, devices, context: Context) -> list[_Candidate]:
    users = graph.consumers()
    by_name = {device.name: device for device in devices}
    groups = []
    for nodes in merge(graph, assignment.device, assignment.atoms):
        single = by_name[assignment.device[nodes[0]]].single_result
        groups += single_results(graph, nodes) if single else [nodes]
    candidates = []
    for number, nodes in enumerate(groups):
        name = assignment.device[nodes[0]]
        region, reads, writes = cut(graph, nodes, name, _symbol(context, name, number), users)
        region.layout = _layout(by_name[name], graph, reads, writes)
        region.hooks = by_name[name].hooks and context.runtime == "crt"
        candidates.append(_Candidate(region, nodes, reads, writes))
    return candidates


def _layout(device: Device, graph: Graph, reads: list[Value], writes: list[Value]) -> str:
    own = set(reads) <= set(graph.inputs) and set(writes) <= set(graph.outputs)
    return device.layout_alone or device.layout if own else device.layout


def _accepted(device: Device, candidate: _Candidate, reducer, result: Partition) -> bool:
    """Let the device judge the region and bring it into its own form."""
    region = candidate.region
    if not candidate.writes:
        result.refuse(candidate.nodes, device.name, "nobody reads its results")
        return False
    types = [v.type for v in region.inputs], [v.type for v in region.outputs]
    try:
        reason = device.evaluate(region)
        if reason is None and reducer is not None:
            reducer.choose(device, region, candidate.reads, candidate.writes)
        if reason is None:
            region = optimized(device, region)
            verify(region.graph, f"{device.name}.optimize", open=True)
    except REFUSALS as problem:
        reason = _text(problem)
    after = [v.type for v in region.inputs], [v.type for v in region.outputs]
    if reason is None and types != after:
        reason = "its optimize changed the types of the region's inputs or outputs"
    if reason is not None:
        result.refuse(candidate.nodes, device.name, reason)
    candidate.region = region
    return reason is None


def _generate(
    device: Device, candidates: list[_Candidate], context: Context, fallback: bool, result
) -> list[_Candidate]:
    """The candidates that have code now. One that fails is left out, if that is allowed."""
    if not candidates:
        return []
    try:
        _codegen(device, candidates, context)
        return candidates
    except REFUSALS as problem:
        if not fallback:
            raise UnsupportedError(_failure(device, candidates, context, problem)) from problem
    kept = []
    for candidate in candidates:
        try:
            _codegen(device, [candidate], context)
            kept.append(candidate)
        except REFUSALS as problem:
            result.refuse(candidate.nodes, device.name, _text(problem))
    if kept:
        _codegen(device, kept, context)
    return kept


def _codegen(device: Device, candidates: Sequence[_Candidate], context: Context) -> None:
    from tvmrt.devices.base import as_code

    regions = [c.region for c in candidates]
    code = as_code(device.codegen(regions, context), device.name)
    shapes = [v.shape for c in candidates for v in (*c.reads, *c.writes)]
    if isinstance(code, CSource) and code.entry != PACKED and symbols_of(*shapes):
        raise UnsupportedError(
            "its C source takes pointers, which do not tell the extents that a run chooses "
            f"({listed(symbols_of(*shapes))}); give C source of entry packed"
        )
    if context.runtime == "crt" and isinstance(code, ModuleBlob):
        raise UnsupportedError(
            f"it gives a module of kind {code.type_key}, which only runtimes with an operating "
            "system load; a device for firmware gives C source"
        )
    for region in regions:
        region.code = code


def _failure(device: Device, candidates, context: Context, problem: Exception) -> str:
    """The error's text with the region at fault in front, found by trying each alone."""
    for candidate in candidates:
        try:
            _codegen(device, [candidate], context)
        except REFUSALS as alone:
            nodes = ", ".join(candidate.region.onnx_nodes)
            symbol = candidate.region.symbol
            return f"device {device.name}, codegen of region {symbol} ({nodes}): {_text(alone)}"
    return f"device {device.name}, codegen: {_text(problem)}"


def _text(problem: BaseException) -> str:
    if isinstance(problem, KeyError) and len(problem.args) == 1:
        return str(problem.args[0])  # str() of a KeyError is the repr of its argument
    return str(problem) or type(problem).__name__


__all__ = ["CPU", "Partition", "partition"]
