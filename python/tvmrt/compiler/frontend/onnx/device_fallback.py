"""Fallback of unsupported nodes to a device that takes ONNX nodes."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence

import onnx

from tvmrt.compiler.ir import Builder, TensorType, Value
from tvmrt.compiler.ir.custom import text_of_types
from tvmrt.compiler.ir.sizes import symbols_of
from tvmrt.error import UnsupportedError

# Returns the result types of a node that a device takes. Raises UnsupportedError if the device
# cannot run it. Operands are named i0, i1, ..., results o0, o1, ...; None is an omitted operand.
FallbackHandler = Callable[
    [onnx.NodeProto, Mapping[str, int], "Sequence[Value | None]"], Sequence[TensorType]
]


def emit_device_node(
    builder: Builder,
    handler: FallbackHandler,
    node: onnx.NodeProto,
    opsets: Mapping[str, int],
    inputs: Sequence[Value | None],
) -> list[Value | None]:
    """Add an ``onnx_node`` that the device will run, and return its results.

    Raises UnsupportedError if the device cannot run it.
    """
    if any(a.type in (a.GRAPH, a.GRAPHS) for a in node.attribute):
        raise UnsupportedError("its subgraph is part of the network")
    if any(v is not None and symbols_of(v.shape) for v in inputs):
        raise UnsupportedError("its operands have dynamic sizes")
    plain = onnx.NodeProto()
    plain.CopyFrom(node)
    del plain.input[:], plain.output[:]
    plain.input.extend("" if v is None else f"i{i}" for i, v in enumerate(inputs))
    plain.output.extend(f"o{i}" if key else "" for i, key in enumerate(node.output))
    types = handler(plain, opsets, inputs)
    text = base64.b64encode(plain.SerializeToString(deterministic=True)).decode()
    versions = {domain or "ai.onnx": version for domain, version in opsets.items()}
    attrs = {
        "node": text,
        "opsets": " ".join(f"{domain}:{version}" for domain, version in sorted(versions.items())),
        "types": text_of_types(types),
    }
    made = iter(builder.emit_many("onnx_node", inputs, **attrs))
    return [next(made) if key else None for key in node.output]
