"""Conversion of regions of ``onnx_node`` back to ONNX models."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import onnx
from onnx import helper, numpy_helper

from tvmrt.compiler.sdk.devices import constants_of
from tvmrt.plugins.region_writers.onnx_writer import tensor_info

IR_VERSION = 9


def nodes_to_onnx(region: Mapping[str, Any], constants: bytes) -> onnx.ModelProto:
    """Convert a region that has only ``onnx_node`` to a model; tensor N is named ``tN``.

    Parameters
    ----------
    region
        JSON of the region, as passed to a device's ``pre_run``.
    constants
        Bytes that the offsets of the region's constants refer to.
    """
    versions: dict[str, int] = {}
    nodes = []
    for row in region["nodes"]:
        versions.update(_versions(row["attrs"]["opsets"]))
        nodes.append(_node(row))
    graph = helper.make_graph(
        nodes,
        region["name"],
        [tensor_info(region, number) for number in region["inputs"]],
        [tensor_info(region, number) for number in region["outputs"]],
        [numpy_helper.from_array(a, f"t{i}") for i, a in constants_of(region, constants).items()],
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)


def _node(row: Mapping[str, Any]) -> onnx.NodeProto:
    node = onnx.NodeProto.FromString(base64.b64decode(row["attrs"]["node"]))
    inputs = [f"t{i}" if i >= 0 else "" for i in row["inputs"]]
    results = iter(row["outputs"])
    outputs = [f"t{next(results)}" if name else "" for name in node.output]
    del node.input[:], node.output[:]
    node.input.extend(inputs)
    node.output.extend(outputs)
    return node


def _versions(text: str) -> dict[str, int]:
    pairs = (word.rsplit(":", 1) for word in text.split())
    return {"" if domain == "ai.onnx" else domain: int(version) for domain, version in pairs}
