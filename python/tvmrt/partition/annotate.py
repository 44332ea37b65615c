"""Which device gets which node.

Contract: every node is the CPU's or exactly one device's; nodes that a pattern takes together get
the same device, or none does. Non-goal: regions, see merge.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tvmrt.ir import Graph, Node, Value

if TYPE_CHECKING:
    from tvmrt.devices import Device

CPU = "cpu"


@dataclass
class Assignment:
    """``device`` has the nodes that a device gets; ``reasons`` what each device said of a node that
    it did not get; ``atoms`` the chains of nodes that must stay together."""

    device: dict[Node, str] = field(default_factory=dict)
    reasons: dict[Node, dict[str, str]] = field(default_factory=dict)
    atoms: list[list[Node]] = field(default_factory=list)

    def refuse(self, node: Node, device: str, reason: str) -> None:
        """Note why the device has not got the node; the first reason stays."""
        self.reasons.setdefault(node, {}).setdefault(device, reason)


@dataclass
class _Offer:
    """Nodes that a device would take together."""

    device: Device
    nodes: list[Node]

    def cost(self) -> float | None:
        """Seconds of the nodes themselves; None if the device does not know."""
        costs = [self.device.cost(node) for node in self.nodes]
        return None if any(c is None for c in costs) else sum(costs)


def assign(graph: Graph, devices: Sequence[Device]) -> Assignment:
    """Ask every device about every node, and choose. ``devices`` in order of preference."""
    result = Assignment()
    by_node: dict[Node, list[_Offer]] = {}
    for device in devices:
        for offer in _offers(graph, device, result):
            for node in offer.nodes:
                by_node.setdefault(node, []).append(offer)
    for node in graph.nodes:
        free = [o for o in by_node.get(node, ()) if not any(n in result.device for n in o.nodes)]
        if not free or node in result.device:
            continue
        chosen = _cheapest(free, result, graph)
        for member in chosen.nodes:
            result.device[member] = chosen.device.name
        if len(chosen.nodes) > 1:
            result.atoms.append(chosen.nodes)
        for other in free:
            if other is not chosen:
                reason = f"{chosen.device.name} is cheaper or named before {other.device.name}"
                result.refuse(node, other.device.name, reason)
    for node in [n for n, name in result.device.items() if name == CPU]:
        del result.device[node]
    return result


def _offers(graph: Graph, device: Device, result: Assignment) -> list[_Offer]:
    """What one device would take, with a note of what it would not."""
    said = device.annotate(graph)
    willing = []
    for node in graph.nodes:
        reason = said.get(node, f"{device.name} takes no {node.op}")
        if reason is None and device.name != CPU:
            reason = _hindrance(node)
        if reason is None:
            willing.append(node)
        else:
            result.refuse(node, device.name, reason)
    if not device.patterns:
        return [_Offer(device, [node]) for node in willing]
    chains = match_patterns(graph, device.patterns, set(willing))
    matched = {node for chain in chains for node in chain}
    for node in willing:
        if node not in matched:
            result.refuse(node, device.name, f"{device.name} takes {node.op} in no such place")
    return [_Offer(device, chain) for chain in chains]


def _hindrance(node: Node) -> str | None:
    """Why no device at all can have a node that it would take."""
    if node.guard is not None:
        return "it runs under a condition, which the CPU decides"
    values = [*node.operands(), *node.outputs]
    if any(v.type.size == 0 for v in values):
        return "a tensor of no elements needs no device"
    if all(v is None or v.is_constant for v in node.inputs):
        return "it reads constants alone"
    return None


def match_patterns(
    graph: Graph, patterns: Sequence[Sequence[str]], willing: set[Node]
) -> list[list[Node]]:
    """Chains of willing nodes, the longest first, each node in one at most."""
    users = graph.consumers()
    outputs = set(graph.outputs)
    taken: set[Node] = set()
    chains = []
    for pattern in sorted(patterns, key=len, reverse=True):
        for node in graph.nodes:
            chain = _chain(node, pattern, users, outputs)
            if chain and all(n in willing and n not in taken for n in chain):
                chains.append(chain)
                taken.update(chain)
    return chains


def _chain(node: Node, pattern: Sequence[str], users, outputs: set[Value]) -> list[Node] | None:
    """The chain that begins at the node, if it has these operators."""
    chain = [node]
    if node.op != pattern[0]:
        return None
    for op in pattern[1:]:
        last = chain[-1]
        if len(last.outputs) != 1 or last.output in outputs:
            return None
        readers = users.get(last.output, [])
        if len(readers) != 1 or readers[0].op != op:
            return None
        chain.append(readers[0])
    return chain


def _cheapest(offers: list[_Offer], result: Assignment, graph: Graph) -> _Offer:
    """The offer of the least seconds, borders included, if all know them; else the first."""
    if len({offer.device.name for offer in offers}) == 1:
        return max(offers, key=lambda o: len(o.nodes))
    largest = max(offers, key=lambda o: len(o.nodes)).nodes
    priced = []
    for offer in offers:
        seconds = _Offer(offer.device, largest).cost()
        if seconds is None:
            return offers[0]
        priced.append((seconds + _borders(offer, result), len(priced), offer))
    return min(priced, key=lambda row: row[:2])[2]


def _borders(offer: _Offer, result: Assignment) -> float:
    """Seconds for the operands that are made elsewhere."""
    inside = set(offer.nodes)
    total = 0.0
    for value in dict.fromkeys(v for node in offer.nodes for v in node.operands()):
        producer = value.producer
        if value.is_constant or producer in inside:
            continue
        if result.device.get(producer, CPU) != offer.device.name:
            total += offer.device.border_cost(value.type.nbytes)
    return total
