"""Nodes without an operator here that a device takes as they are."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence

import onnx

from tvmrt.compiler.ir import Builder, TensorType, Value
from tvmrt.compiler.ir.custom import text_of_types
from tvmrt.compiler.ir.extent import symbols_of
from tvmrt.error import UnsupportedError

# What a device makes of a node: the types of its results. Raises UnsupportedError where it cannot
# run it. Operands are named i0, i1, ..., results o0, o1, ...; None stands for one left out.
Adopter = Callable[
    [onnx.NodeProto, Mapping[str, int], "Sequence[Value | None]"], Sequence[TensorType]
]


def adopt(
    builder: Builder,
    adopter: Adopter,
    node: onnx.NodeProto,
    opsets: Mapping[str, int],
    inputs: Sequence[Value | None],
) -> list[Value | None]:
    """The node's results, of an ``onnx_node`` that the device will run.

    Raises UnsupportedError if it cannot.
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
    types = adopter(plain, opsets, inputs)
    text = base64.b64encode(plain.SerializeToString(deterministic=True)).decode()
    versions = {domain or "ai.onnx": version for domain, version in opsets.items()}
    attrs = {
        "node": text,
        "opsets": " ".join(f"{domain}:{version}" for domain, version in sorted(versions.items())),
        "types": text_of_types(types),
    }
    made = iter(builder.emit_many("onnx_node", inputs, **attrs))
    return [next(made) if key else None for key in node.output]
