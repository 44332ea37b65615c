"""List the float networks of a folder."""

from __future__ import annotations

from pathlib import Path

import onnx

QUANTIZED = {"QuantizeLinear", "DequantizeLinear", "QLinearConv", "DynamicQuantizeLinear"}


def float_networks(folder: Path) -> list[Path]:
    """Return the networks without quantised tensors."""
    found = []
    for path in sorted(folder.glob("*.onnx")):
        model = onnx.load(path, load_external_data=False)
        if not QUANTIZED & {node.op_type for node in model.graph.node}:
            found.append(path)
    return found
