"""Operators that no fixed program can stand for, each with the reason."""

from __future__ import annotations

from tvmrt.error import UnsupportedError

from .context import NodeContext
from .registry import onnx_op

_REASONS = {
    "ImageDecoder": "it decodes image files; do that before the network runs",
}


@onnx_op(*_REASONS)
def refuse(ctx: NodeContext) -> None:
    raise UnsupportedError(_REASONS[ctx.op])
