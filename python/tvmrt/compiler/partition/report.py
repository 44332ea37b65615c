"""Report on the device of each node and the reasons, for users and for ``--require-device``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tvmrt.compiler.ir import KERNEL, REDUCE, CSource, Graph, ModuleBlob, Node, Region, get_op
from tvmrt.compiler.ir.sizes import upper_bound
from tvmrt.error import UnsupportedError

from .annotate import CPU, Assignment

FOLDED = "none"  # the device of nodes without code


def _with_device(device: str, reason: str) -> str:
    """Return a reason with the name of its device."""
    return reason if device in reason.split() else f"{device}: {reason}"


def _note(region: Region) -> str:
    """Return the device's note on a region, and the sizes up to which it is on the device."""
    code_note = region.code.notes.get(region.symbol, "") if isinstance(region.code, CSource) else ""
    return "; ".join(filter(None, (code_note, region.note)))


def _weights(regions: Iterable[Region]) -> list[np.ndarray]:
    """Return the constants of regions, each once."""
    nodes = [node for region in regions for node in region.nodes]
    constants = [v.data for node in nodes for v in node.operands() if v.is_constant]
    return list({id(array): array for array in constants}.values())


@dataclass
class NodeAssignment:
    """Node of the ONNX network.

    ``device``: cpu, or device names separated by commas. ``reason``: Reason why no device takes it.
    ``region``: Symbol of its region.
    """

    name: str
    op_type: str
    device: str
    reason: str = ""
    region: str = ""


@dataclass
class RegionSummary:
    """Region of a device, with the bytes of its inputs, outputs and weights.

    ``code``: Code of the device for it, described. ``error``: Measured error of reduced precision.
    ``note``: Remark of the device, such as size or time.
    """

    symbol: str
    device: str
    onnx_nodes: list[str]
    operators: list[str]
    input_bytes: int
    output_bytes: int
    code: str
    precision: str = ""
    error: float | None = None
    weights_bytes: int = 0
    note: str = ""


@dataclass
class BoundaryTensor:
    """Tensor that passes from one region or device to another.

    ``nbytes``: Maximum over runs. ``copied``: Its layout changes. ``stays_in``: Device whose memory
    holds it throughout, so that it is not transferred, or empty.
    """

    tensor: str
    source: str
    target: str
    nbytes: int
    copied: bool
    stays_in: str = ""


@dataclass
class _AssignedNode:
    """Operator of the optimized graph with its device."""

    node: Node
    device: str = CPU
    reasons: dict[str, str] = field(default_factory=dict)
    region: str = ""


@dataclass
class Partition:
    """Network partitioned over devices. ``devices``: the requested devices, in order."""

    devices: list[str]
    op_types: dict[str, str]
    pieces: list[_AssignedNode] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)

    def begin(self, graph: Graph, assignment: Assignment) -> None:
        """Record the graph before regions are cut out of it."""
        self.pieces = [
            _AssignedNode(node, CPU, dict(assignment.reasons.get(node, {}))) for node in graph.nodes
        ]
        self._by_node = {piece.node: piece for piece in self.pieces}

    def place(self, nodes: Iterable[Node], region: Region) -> None:
        """Record that these nodes are in a region."""
        self.regions.append(region)
        for node in nodes:
            self._by_node[node].device = region.device
            self._by_node[node].region = region.symbol

    def refuse(self, nodes: Iterable[Node], device: str, reason: str) -> None:
        """Record that a device has refused nodes."""
        for node in nodes:
            self._by_node[node].reasons[device] = reason

    def node_rows(self) -> list[NodeAssignment]:
        """Return the network's nodes in order."""
        pieces: dict[str, list[_AssignedNode]] = {}
        for piece in self.pieces:
            for source in piece.node.sources:
                pieces.setdefault(source, []).append(piece)
        return [
            self._assignment_of(name, op, pieces.get(name, []))
            for name, op in self.op_types.items()
        ]

    def _assignment_of(
        self, name: str, op_type: str, pieces: Sequence[_AssignedNode]
    ) -> NodeAssignment:
        if not pieces:
            return NodeAssignment(name, op_type, FOLDED, "the compiler needs no code for it")
        devices = list(dict.fromkeys(p.device for p in pieces))
        symbols = list(dict.fromkeys(p.region for p in pieces if p.region))
        many_ops = len({piece.node.op for piece in pieces}) > 1
        code_note = [
            (piece.node.op, _with_device(device, reason))
            for piece in pieces
            if piece.device == CPU
            for device, reason in piece.reasons.items()
        ]
        many_ops = many_ops and len({reason for _, reason in code_note}) > 1
        reasons = [f"{op}: {reason}" if many_ops else reason for op, reason in code_note]
        text = "; ".join(dict.fromkeys(reasons))
        return NodeAssignment(name, op_type, ", ".join(devices), text, ", ".join(symbols))

    def region_rows(self) -> list[RegionSummary]:
        """Return the regions in the order of execution."""
        return [
            RegionSummary(
                region.symbol,
                region.device,
                list(region.onnx_nodes),
                [node.op for node in region.nodes],
                sum(upper_bound(v.type.nbytes) for v in region.inputs),
                sum(upper_bound(v.type.nbytes) for v in region.outputs),
                str(region.code),
                region.options.get("precision", ""),
                region.options.get("error"),
                sum(array.nbytes for array in _weights([region])),
                _note(region),
            )
            for region in self.regions
        ]

    @property
    def module_weights_bytes(self) -> int:
        """Bytes of weights in modules of devices; those of C sources belong to the library."""
        regions = [r for r in self.regions if isinstance(r.code, ModuleBlob)]
        return sum(array.nbytes for array in _weights(regions))

    def check_required(self, rules: Sequence[str]) -> None:
        """Check the partition: the rule ``device`` requires any node on it, ``device:OpType`` every
        node of that type.

        Raises
        ------
        UnsupportedError
            Names every such node on another device, with the reason.
        """
        problems = [text for rule in rules for text in self._violations(rule)]
        if problems:
            raise UnsupportedError("; ".join(problems))

    def _violations(self, rule: str) -> list[str]:
        device, _, op_type = rule.partition(":")
        if not op_type:
            if device == CPU or any(region.device == device for region in self.regions):
                return []
            return [f"device {device} supports no node of the network{self._reasons_text(device)}"]
        if op_type not in self.op_types.values():
            import onnx.defs  # reports can be described without it

            known = onnx.defs.has(op_type)
            return [] if known else [f"rule {rule}: neither ONNX nor the network has a {op_type}"]
        return [
            f"node {row.name} ({row.op_type}) is not on {device}: {row.reason or row.device}"
            for row in self.node_rows()
            if row.op_type == op_type and not self._is_on_device(row.name, device)
        ]

    def _is_on_device(self, name: str, device: str) -> bool:
        """Return whether a node is on the device: its kernels, or all of it if it has none."""
        pieces = [p for p in self.pieces if name in p.node.sources]
        heavy = [p for p in pieces if get_op(p.node.op).kind in (KERNEL, REDUCE)]
        return all(p.device == device for p in heavy or pieces)

    def _reasons_text(self, device: str) -> str:
        reasons = [p.reasons[device] for p in self.pieces if device in p.reasons]
        return f" ({'; '.join(list(dict.fromkeys(reasons))[:3])})" if reasons else ""
