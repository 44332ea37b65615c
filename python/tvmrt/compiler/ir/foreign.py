"""Nodes of ONNX that no operator of the compiler means: devices that run ONNX compute them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .contract import Contract
from .custom import types_of_text
from .graph import TensorType
from .op import Op, register


@register("onnx_node")
class OnnxNode(Op):
    """A node of ONNX as it is, for a device that runs ONNX; only in regions.

    ``node``: the bytes of its NodeProto in base64, whose operands are named ``i0``, ``i1``, ... and
    whose results ``o0``, ``o1``, ...; what is left out has an empty name. ``opsets``: the versions
    of the operators, as "ai.onnx:17 com.microsoft:1"; ``types``: those of the results that are
    there, as "float32:1x3x8x8", separated by blanks.
    """

    contract = Contract("inputs*: any[*]", "node: text, opsets: text, types: text")

    def results(self, known: Mapping[str, Any]) -> list[TensorType]:
        return types_of_text(known["types"])
