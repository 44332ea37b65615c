"""Assignment of nodes to devices.

Contract: every node belongs to the CPU or exactly one device; the nodes of a matched pattern get
the same device, or none. Non-goal: regions, see merge_regions.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tvmrt.compiler.devices.base import Device
from tvmrt.compiler.devices.device_calls import call_device
from tvmrt.compiler.ir import Graph, Node
from tvmrt.compiler.ir.sizes import lower_bound, symbols_of
from tvmrt.compiler.ir.sizes.undecided import UndecidedExtent, describe_symbols
from tvmrt.compiler.ir.value_users import ValueUsers

if TYPE_CHECKING:
    from tvmrt.compiler.devices import Context

CPU = "cpu"


@dataclass
class Assignment:
    """Result of the assignment. ``device``: nodes that are assigned to a device. ``reasons``: why
    other devices do not have a node. ``atoms``: chains of nodes that must stay together.
    ``groups``: group numbers; a region may not have nodes of two groups."""

    device: dict[Node, str] = field(default_factory=dict)
    reasons: dict[Node, dict[str, str]] = field(default_factory=dict)
    atoms: list[list[Node]] = field(default_factory=list)
    groups: dict[Node, int] = field(default_factory=dict)

    def refuse(self, node: Node, device: str, reason: str) -> None:
        """Record why the device does not have the node; the first reason is kept."""
        self.reasons.setdefault(node, {}).setdefault(device, reason)


@dataclass
class _Offer:
    """Nodes that a device can take together."""

    device: Device
    nodes: list[Node]

    def cost(self) -> float | None:
        """Return the time of the nodes in seconds; None if the device does not know it."""
        costs = [call_device(self.device, "cost", node) for node in self.nodes]
        return None if any(c is None for c in costs) else sum(costs)


def assign(graph: Graph, devices: Sequence[Device], context: Context) -> Assignment:
    """Query every device for every node, and choose. ``devices`` are in order of preference."""
    result = Assignment()
    answers = {device.name: _query(graph, device) for device in devices}
    accepting = {
        d.name: _accepted_nodes(graph, d, answers[d.name], result, context) for d in devices
    }
    contested: list[_Offer] = []
    for device in devices:
        free = accepting[device.name].difference(result.device)
        for offer in _offers(graph, device, free, result):
            rivals = [d for d in devices if accepting[d.name].intersection(offer.nodes)]
            if len(rivals) > 1 and all(_Offer(d, offer.nodes).cost() is not None for d in rivals):
                contested.append(offer)
            else:
                _apply_offer(offer, result)
    position = {node: i for i, node in enumerate(graph.nodes)}
    contested.sort(key=lambda offer: position[offer.nodes[0]])
    for offer in contested:
        at_once = [o for o in contested if o.nodes[0] is offer.nodes[0]]
        open_ = [o for o in at_once if not any(n in result.device for n in o.nodes)]
        if open_:
            _apply_offer(_cheapest(open_, result), result)
    _record_losers(graph, devices, accepting, result)
    for node in [n for n, name in result.device.items() if name == CPU]:
        del result.device[node]
    for node, name in result.device.items():
        wishes = getattr(answers[name], "groups", {})
        if node in wishes:
            result.groups[node] = wishes[node]
    return result


def _apply_offer(offer: _Offer, result: Assignment) -> None:
    offer_id = len(result.device)  # unique to this offer
    for node in offer.nodes:
        result.device[node] = offer.device.name
        if offer.device.region_per_pattern:
            result.groups[node] = offer_id
    if len(offer.nodes) > 1:
        result.atoms.append(offer.nodes)


def _record_losers(graph: Graph, devices, accepting, result: Assignment) -> None:
    """Record for every device that wanted a node why another device has it."""
    for node in graph.nodes:
        winner = result.device.get(node)
        for device in devices:
            if winner not in (None, device.name) and node in accepting[device.name]:
                reason = f"{winner} is cheaper or listed before {device.name}"
                result.refuse(node, device.name, reason)


def _accepted_nodes(
    graph: Graph, device: Device, answers, result: Assignment, context: Context
) -> set[Node]:
    """Return the nodes that a device supports, and record the reasons for others."""
    accepting = set()
    for node in graph.nodes:
        reason = answers.get(node, f"{device.name} does not support {node.op}")
        if reason is None and device.name != CPU:
            reason = _find_obstacle(node, device, context)
        if reason is None:
            accepting.add(node)
        else:
            result.refuse(node, device.name, reason)
    return accepting


def _query(graph: Graph, device: Device) -> dict[Node, str | None]:
    """Return the device's answer for all nodes. It is queried node by node if it needs an extent
    that is not known."""
    try:
        return call_device(device, "annotate", graph)
    except UndecidedExtent:
        return {node: _query_node(node, device) for node in graph.nodes}


def _query_node(node: Node, device: Device) -> str | None:
    try:
        return call_device(device, "supports", node)
    except UndecidedExtent as problem:
        return str(problem)


def _offers(graph: Graph, device: Device, free: set[Node], result: Assignment) -> list[_Offer]:
    """Return the offers of one device for its supported nodes that are free."""
    if not device.patterns:
        return [_Offer(device, [node]) for node in graph.nodes if node in free]
    chains = match_patterns(graph, device.patterns, free)
    matched = {node for chain in chains for node in chain}
    for node in free - matched:
        result.refuse(
            node, device.name, f"{device.name} does not support {node.op} at this position"
        )
    return [_Offer(device, chain) for chain in chains]


def _find_obstacle(node: Node, device: Device, context: Context) -> str | None:
    """Return why a device other than the CPU cannot have a node that it supports."""
    if node.guard is not None:
        return "it is conditional; the CPU evaluates the condition"
    values = [*node.operands(), *node.outputs]
    if symbols_of(node.attrs):
        chosen = describe_symbols(symbols_of(node.attrs))
        return f"its attributes depend on dynamic dimensions ({chosen})"
    symbols = symbols_of(*(v.shape for v in values))
    if any(symbol.source is not None for symbol in symbols):
        return f"its dimensions are data-dependent ({describe_symbols(symbols)})"
    if any(symbol.is_unbounded for symbol in symbols):
        return f"its dimensions have no bounds ({describe_symbols(symbols)}); declare them"
    if symbols and not device.any_size and not prepares_sizes(device, context):
        reason = f"its dimensions are dynamic ({describe_symbols(symbols)})"
        undefined = type(device).prepares_sizes is Device.prepares_sizes
        if type(device).codegen is not Device.codegen and undefined and context.runtime == "host":
            reason += f", and {device.name} has a codegen but does not define prepares_sizes"
        return reason
    if any(lower_bound(v.type.size) == 0 for v in values):
        return "an empty tensor needs no device"
    if all(v is None or v.is_constant for v in node.inputs):
        return "it reads constants only"
    return None


def prepares_sizes(device: Device, context: Context) -> bool:
    """Return whether the runtime prepares regions of the device for the sizes of a run. C code for
    boards has fixed sizes."""
    return context.runtime == "host" and call_device(device, "prepares_sizes")


def match_patterns(
    graph: Graph, patterns: Sequence[Sequence[str]], accepting: set[Node]
) -> list[list[Node]]:
    """Return chains of willing nodes, longest first, each node in at most one."""
    readers = ValueUsers(graph)
    matched: set[Node] = set()
    chains = []
    for pattern in sorted(patterns, key=len, reverse=True):
        for node in graph.nodes:
            chain = _chain(node, pattern, readers)
            if chain and all(n in accepting and n not in matched for n in chain):
                chains.append(chain)
                matched.update(chain)
    return chains


def _chain(node: Node, pattern: Sequence[str], readers: ValueUsers) -> list[Node] | None:
    """Return the chain that starts at the node, if it has these operators."""
    chain = [node]
    if node.op != pattern[0]:
        return None
    for op in pattern[1:]:
        follower = readers.only(chain[-1].output) if len(chain[-1].outputs) == 1 else None
        if follower is None or follower.op != op:
            return None
        chain.append(follower)
    return chain


def _cheapest(offers: list[_Offer], result: Assignment) -> _Offer:
    """Return the fastest offer for the nodes of the largest one, including transfers."""
    largest = max(offers, key=lambda o: len(o.nodes)).nodes
    priced = []
    for offer in offers:
        seconds = _Offer(offer.device, largest).cost()
        unknown = float("inf") if seconds is None else seconds
        priced.append((unknown + _transfer_time(offer, result), len(priced), offer))
    return min(priced, key=lambda row: row[:2])[2]


def _transfer_time(offer: _Offer, result: Assignment) -> float:
    """Return the time in seconds to transfer operands from other devices."""
    inside = set(offer.nodes)
    total = 0.0
    for value in dict.fromkeys(v for node in offer.nodes for v in node.operands()):
        producer = value.producer
        if value.is_constant or producer in inside:
            continue
        if result.device.get(producer, CPU) != offer.device.name:
            total += call_device(offer.device, "border_cost", value.type.nbytes)
    return total
