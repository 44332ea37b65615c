"""Partitioning of a network over devices: annotate, merge, evaluate, optimize, generate, replace.

Contract: the graph computes the same afterwards. The nodes of devices are in ``region`` nodes with
generated code, all other nodes are unchanged. A region that its device refuses stays on the CPU,
with the reason in the report.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tvmrt.compiler.devices.base import Refusal
from tvmrt.compiler.devices.device_calls import InvalidDeviceResultError, call_device, prepare_chips
from tvmrt.compiler.ir import CSource, Graph, ModuleBlob, Node, Region, Value, region_of
from tvmrt.compiler.ir.region import PACKED
from tvmrt.compiler.ir.sizes import Symbol, symbols_of
from tvmrt.compiler.ir.sizes.undecided import describe_symbols
from tvmrt.compiler.ir.verifier import verify
from tvmrt.compiler.symbols import prefix_of
from tvmrt.error import TVMError, UnsupportedError

from .annotate import CPU, Assignment, assign, prepares_sizes
from .extract import extract_region, insert_region, sort_topologically
from .fallback import add_fallbacks
from .merge_regions import merge, split_by_result
from .precision import Reducer, optimize_region
from .report import Partition
from .size_limits import largest_accepted, sizes_text, suggest_options, with_sizes

if TYPE_CHECKING:
    from tvmrt.compiler.devices import Context, Device

# Exceptions of a device's methods that mean that it cannot compile a region.
REFUSALS = (TVMError, ValueError, TypeError, KeyError, OSError, NotImplementedError, ImportError)


@dataclass
class _Candidate:
    """Region that is not in the graph yet."""

    region: Region
    nodes: list[Node]
    reads: list[Value]
    writes: list[Value]
    inner: list[Node] = field(default_factory=list)  # the copies of ``nodes`` in the region
    accepted_sizes: tuple[Symbol, ...] = ()  # sizes with smaller bounds; larger ones run on the CPU
    note: str = ""


def partition(
    graph: Graph,
    devices: Sequence[Device],
    context: Context,
    fallback: bool = False,
    reducer: Reducer | None = None,
) -> Partition:
    """Partition the graph in place.

    Parameters
    ----------
    devices
        In order of preference; other nodes stay on the CPU.
    fallback
        Whether a device may fail: each region also has code for the CPU, which runs if the region
        fails; a region whose code cannot be generated stays on the CPU.
    reducer
        Selects regions and nodes in reduced precision.

    Raises
    ------
    UnsupportedError
        If a device fails to generate code without ``fallback``; the text names device and region.
    """
    result = Partition([d.name for d in devices], graph.op_types)
    useful, assignment = _assign_nodes(graph, devices, context)
    result.begin(graph, assignment)
    cutter = _RegionCutter(graph, assignment, useful, context)
    candidates = cutter.extract_region(assignment.device)
    if reducer is not None:
        reducer.prepare(graph, [v for c in candidates for v in (*c.reads, *c.writes)])
    accepted = []
    for device in useful:  # before the graph changes: if a node is refused, it is cut again
        own = [c for c in candidates if c.region.device == device.name]
        accepted.append(_accept(own, device, cutter, reducer, result, fallback))
    replaced: dict[Node, list[Node]] = {}
    for device, own in zip(useful, accepted):
        replaced |= _insert_regions(graph, device, own, context, fallback, result)
    sort_topologically(graph)
    if fallback:
        add_fallbacks(graph, replaced)
    order = {region_of(node): i for i, node in enumerate(graph.nodes)}
    result.regions.sort(key=lambda region: order[region])
    verify(graph, "partition")
    if reducer is not None:
        reducer.finish(result.regions)
    return result


def _assign_nodes(
    graph: Graph, devices: Sequence[Device], context: Context
) -> tuple[list[Device], Assignment]:
    """Return the devices that take part, and the assignment of nodes to them."""
    problems = [call_device(device, "refuses", context) for device in devices]
    useful = [device for device, problem in zip(devices, problems) if problem is None]
    assignment = assign(graph, useful, context)
    for device, problem in zip(devices, problems):
        if problem is not None:
            for node in graph.nodes:
                assignment.refuse(node, device.name, problem)
    return useful, assignment


def _insert_regions(
    graph: Graph,
    device: Device,
    candidates: Sequence[_Candidate],
    context: Context,
    fallback: bool,
    result: Partition,
) -> dict[Node, list[Node]]:
    """Insert the device's regions; return for each region node the nodes that it replaces."""
    for number, candidate in enumerate(candidates):
        candidate.region.symbol = _symbol(context, device.name, number)
        candidate.region.reports_failure = fallback
        candidate.region.stands_for = tuple(candidate.nodes)
        candidate.region.note = candidate.note
    replaced = {}
    for candidate in _generate(device, candidates, context, fallback, result):
        node = insert_region(
            graph, candidate.nodes, candidate.region, candidate.reads, candidate.writes
        )
        result.place(candidate.nodes, candidate.region)
        replaced[node] = candidate.nodes
    return replaced


def _symbol(context: Context, device: str, number: int) -> str:
    return f"{prefix_of(context.module_name)}_{device.replace('-', '_')}_main_{number}"


class _RegionCutter:
    """Cut nodes into candidate regions; the graph is not changed."""

    def __init__(self, graph: Graph, assignment, devices: Sequence[Device], context) -> None:
        self._graph, self._assignment, self._context = graph, assignment, context
        self._devices = {device.name: device for device in devices}
        self._max_nodes = {d.name: d.most_nodes for d in devices if d.most_nodes is not None}
        self._users = graph.consumers()

    def extract_region(self, nodes: Iterable[Node]) -> list[_Candidate]:
        """Return the regions of these nodes, as large as possible."""
        wishes = self._assignment
        device = {node: wishes.device[node] for node in nodes}
        atoms = [chain for chain in wishes.atoms if chain[0] in device]
        groups = []
        for group in merge(self._graph, device, atoms, wishes.groups, self._max_nodes):
            single = self._devices[device[group[0]]].single_result
            groups += split_by_result(self._graph, group) if single else [group]
        return [self._candidate(group, number) for number, group in enumerate(groups)]

    def without(self, nodes: Sequence[Node], refused_node: Node) -> tuple[list[Node], list[Node]]:
        """Split nodes into the lost one with its chain, and the remainder."""
        chains = [chain for chain in self._assignment.atoms if refused_node in chain]
        refused_nodes = {refused_node, *(node for chain in chains for node in chain)}
        remaining = [n for n in nodes if n not in refused_nodes]
        return [n for n in nodes if n in refused_nodes], remaining

    def _candidate(self, nodes: list[Node], number: int) -> _Candidate:
        device = self._devices[self._assignment.device[nodes[0]]]
        symbol = _symbol(self._context, device.name, number)
        region, reads, writes = extract_region(self._graph, nodes, device.name, symbol, self._users)
        region.layout = device.layout
        region.memory = device.memory
        if prepares_sizes(device, self._context):
            region.sizes = _sizes(reads)
        region.hooks = device.hooks and self._context.runtime == "crt"
        region.settings = self._context.options.get(device.name, {})
        return _Candidate(region, nodes, reads, writes)


def _sizes(reads: Sequence[Value]) -> tuple[Symbol, ...]:
    """Return the dimensions that determine the extents of these values and of derived ones."""
    return tuple(sorted(symbols_of(*(v.shape for v in reads)), key=lambda s: s.name))


def _accept(
    own: list[_Candidate],
    device: Device,
    cutter: _RegionCutter,
    reducer,
    result: Partition,
    fallback: bool,
) -> list[_Candidate]:
    """Return the candidates that the device accepts. If it refuses one because of a node, it is
    offered the candidates without that node."""
    accepted = []
    waiting = own[::-1]
    while waiting:
        candidate = waiting.pop()
        reason = _refusal(device, candidate, reducer, cutter if fallback else None)
        if reason is None:
            accepted.append(candidate)
            continue
        refused_nodes, remaining = candidate.nodes, []
        if isinstance(reason, Refusal) and reason.node in candidate.inner:
            refused_node = candidate.nodes[candidate.inner.index(reason.node)]
            refused_nodes, remaining = cutter.without(candidate.nodes, refused_node)
        result.refuse(refused_nodes, device.name, str(reason))
        # a part that is only too large at the largest sizes may be a region for smaller ones
        too_large = refused_nodes if remaining and candidate.accepted_sizes else []
        waiting += [*cutter.extract_region(too_large), *cutter.extract_region(remaining)][::-1]
    return accepted


def _refusal(
    device: Device, candidate: _Candidate, reducer, fallback: _RegionCutter | None
) -> str | None:
    """Evaluate and optimize the region on the device; return None if the device accepts it.
    ``fallback``: the cutter, if the CPU may compute what the device does not."""
    bounds_region = reducer is None  # precision is measured for the largest sizes
    region = candidate.region
    if not candidate.writes:
        return "its results are not used"
    candidate.inner = list(region.nodes)
    types = [v.type for v in region.inputs], [v.type for v in region.outputs]
    try:
        reason = call_device(device, "evaluate", region)
        if reason is not None:
            reason = _at_smaller_sizes(device, candidate, reason, fallback, bounds_region)
        if reason is None and reducer is not None:
            reducer.choose(device, region, candidate.reads, candidate.writes)
        if reason is None:
            region = optimize_region(device, region)
            verify(region.graph, f"{device.name}.optimize", open=True)
    except InvalidDeviceResultError:
        raise  # an error in the device itself, which affects every region
    except REFUSALS as problem:
        reason = _text(problem)
    after = [v.type for v in region.inputs], [v.type for v in region.outputs]
    if reason is None and types != after:
        reason = "its optimize changed the types of the region's inputs or outputs"
    candidate.region = region
    return reason


def _at_smaller_sizes(
    device: Device,
    candidate: _Candidate,
    reason: str,
    fallback: _RegionCutter | None,
    bounds_region: bool,
) -> str | None:
    """Return why the device refuses a region with dynamic dimensions, with the sizes it accepts.

    Return None if the region may be on the device up to these sizes: CPU code in addition to it
    computes larger ones. The runtime compares the sizes of each run with the region's bounds.
    """
    region = candidate.region
    sizes = region.sizes or _sizes(candidate.reads)
    bounds_region = bounds_region and bool(region.sizes)
    accepted_sizes = largest_accepted(sizes, lambda smaller: _is_accepted(device, region, smaller))
    if accepted_sizes is None:
        return reason
    if fallback is not None and bounds_region:
        candidate.accepted_sizes = accepted_sizes
        candidate.note = f"up to {sizes_text(accepted_sizes)}; larger ones run on the CPU: {reason}"
        if not isinstance(reason, Refusal) or _is_empty_without(candidate, reason, fallback):
            return None
    suggestions = suggest_options(accepted_sizes, sizes, bounds_region)
    text = f"{reason} (at the upper bounds, {sizes_text(sizes)}{suggestions})"
    return Refusal(text, reason.node) if isinstance(reason, Refusal) else text


def _is_empty_without(candidate: _Candidate, reason: Refusal, cutter: _RegionCutter) -> bool:
    """Return whether the region is empty without the refused node."""
    if reason.node not in candidate.inner:
        return True
    refused_node = candidate.nodes[candidate.inner.index(reason.node)]
    return not cutter.without(candidate.nodes, refused_node)[1]


def _is_accepted(device: Device, region: Region, sizes: Sequence[Symbol]) -> bool:
    try:
        return call_device(device, "evaluate", with_sizes(region, sizes)) is None
    except InvalidDeviceResultError:
        raise
    except REFUSALS:
        return False


def _generate(
    device: Device, candidates: list[_Candidate], context: Context, fallback: bool, result
) -> list[_Candidate]:
    """Generate code; return the candidates that have it. Only with ``fallback`` some may fail."""
    if not candidates:
        return []
    try:
        _codegen(device, candidates, context)
        return candidates
    except InvalidDeviceResultError:
        raise
    except REFUSALS as problem:
        if not fallback:
            raise UnsupportedError(_failure(device, candidates, context, problem)) from problem
    accepted = []
    for candidate in candidates:
        try:
            _codegen(device, [candidate], context)
            accepted.append(candidate)
        except REFUSALS as problem:
            result.refuse(candidate.nodes, device.name, _text(problem))
    if accepted:
        _codegen(device, accepted, context)
    return accepted


def _codegen(device: Device, candidates: Sequence[_Candidate], context: Context) -> None:
    regions = [c.region for c in candidates]
    bounded = [
        with_sizes(c.region, c.accepted_sizes) if c.accepted_sizes else c.region for c in candidates
    ]
    for region in bounded:
        prepare_chips(device, region, context.options.get(device.name) or {})
    code = call_device(device, "codegen", bounded, context)
    shapes = [v.shape for c in candidates for v in (*c.reads, *c.writes)]
    if isinstance(code, CSource) and code.entry != PACKED and symbols_of(*shapes):
        raise UnsupportedError(
            "its C source takes pointers, which do not carry dynamic dimensions "
            f"({describe_symbols(symbols_of(*shapes))}); generate C source with entry packed"
        )
    if context.runtime == "crt" and isinstance(code, ModuleBlob):
        raise UnsupportedError(
            f"it generates a module of kind {code.type_key}, which needs an operating system; a "
            "device for firmware generates C source"
        )
    for region in regions:
        region.code = code


def _failure(device: Device, candidates, context: Context, problem: Exception) -> str:
    """Return the error text with the failing region, found by generating each region alone."""
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
