"""Operators that no fixed program can stand for, each with the reason."""

from __future__ import annotations

from tvmrt.error import UnsupportedError

from .context import NodeContext
from .registry import onnx_op

REASONS = {"ImageDecoder": "it decodes image files; do that before the network runs"}


def refuse(ctx: NodeContext) -> None:
    raise UnsupportedError(REASONS[ctx.op])


onnx_op(*REASONS)(refuse)
