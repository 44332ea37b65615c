"""ONNX nodes without an operator of the compiler: devices that run ONNX compute them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .contract import Contract
from .custom import types_of_text
from .op import Op, register
from .tensor_type import TensorType


@register("onnx_node")
class OnnxNode(Op):
    """Unchanged ONNX node for a device that runs ONNX; only in regions.

    ``node``: the bytes of its NodeProto in base64, with operands named ``i0``, ``i1``, ... and
    results named ``o0``, ``o1``, ...; operands and results that are left out have empty names.
    ``opsets``: operator set versions, as "ai.onnx:17 com.microsoft:1". ``types``: types of the
    results that are present, as "float32:1x3x8x8", separated by blanks.
    """

    contract = Contract("inputs*: any[*]", "node: text, opsets: text, types: text")

    def results(self, bindings: Mapping[str, Any]) -> list[TensorType]:
        return types_of_text(bindings["types"])
