"""User-defined implementations of a file's custom operators."""

from __future__ import annotations

from typing import Any

from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.flexbuffer import read_map
from tvmrt.plugins.tflite.frontend.model_file import Tensor
from tvmrt.plugins.tflite.frontend.registry import Importer

DOMAIN = "tflite"


def importer_of(record: Any) -> Importer:
    """Return an importer for the custom operators that ``record`` implements.

    ``record`` offers ``add(builder, inputs, attributes, name)`` and the exception
    ``UnsupportedNode``. Attributes are the entries of the options map. If ``record`` computes
    scalars from attributes, they also hold ``custom_options`` (bytes) and the lists ``scales`` and
    ``zero_points`` of the inputs followed by the outputs, with None for a tensor without per-tensor
    quantisation.
    """

    def run(ctx: OpContext) -> list[Value]:
        attributes: dict[str, Any] = dict(read_map(ctx.op.custom_options))
        if getattr(record, "attributes", None) is not None:
            ends = [t for t in (*ctx.op.inputs, *ctx.op.outputs) if t >= 0]
            tensors = [ctx.subgraph.tensors[t] for t in ends]
            attributes["scales"] = [_quantization(t)[0] for t in tensors]
            attributes["zero_points"] = [_quantization(t)[1] for t in tensors]
            attributes["custom_options"] = ctx.op.custom_options
        elif "custom_options" in getattr(record, "defaults", ()):
            attributes["custom_options"] = ctx.op.custom_options
        try:
            made = record.add(ctx.builder, ctx.inputs, attributes, ctx.name)
        except record.UnsupportedNode as reason:
            raise UnsupportedError(f"the operator declines the node: {reason}") from reason
        return list(made)[: len(ctx.op.outputs)]

    return run


def _quantization(tensor: Tensor) -> tuple[float | None, int | None]:
    quantization = tensor.quantization
    if quantization is None or quantization.per_axis:
        return None, None
    return float(quantization.scale[0]), int(quantization.zero[0])
