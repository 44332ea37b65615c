"""Operators that a device takes and no case reaches."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.devices import Device, call_device
from tvmrt.compiler.sdk.graph import DTYPES, OPS, Node, TensorType, Value

from .device_under_test import AcceptedCase, description
from .finding import Finding


def untested_operators(device: Device, accepted: list[AcceptedCase]) -> Finding:
    """Return a finding, which does not fail, with the operators that were not tested."""
    reached = {op for claim in accepted for region in claim.regions for op in region}
    missing = [op for op in taken_operators(device) if op not in reached]
    detail = f"no case reaches {', '.join(missing)}"
    return Finding("operators", "not tested", True, detail if missing else "nothing")


def taken_operators(device: Device) -> list[str]:
    """Return the operators that a device names in ``describe`` or in ``patterns``, or for which
    ``supports`` gives no reason."""
    named = description(device).get("ops") or {op for chain in device.patterns for op in chain}
    return sorted(named or (op for op in OPS if _supports(device, op)))


def _supports(device: Device, op: str) -> bool:
    """Return whether a device takes a node of plain float32 operands; a method that reads
    attributes which the node lacks fails, and is counted as taking it if it knows the name."""
    contract = OPS[op].contract
    kind = TensorType((1, 4, 4, 4), DTYPES["float32"])
    operands = [
        Value(o.name, kind, data=np.ones(kind.shape, np.float32) if o.constant else None)
        for o in contract.operands
        if not o.optional
    ]
    node = Node(op, operands, dict(contract.example), "n", ("n",))
    node.outputs = [Value("y", kind, node)]
    try:
        return call_device(device, "supports", node) is None
    except Exception:  # it read what this node lacks, so it knows the operator
        return True
