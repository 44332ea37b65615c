"""Operators that cannot be compiled, each with the reason."""

from __future__ import annotations

from tvmrt.error import UnsupportedError

from .context import NodeContext
from .registry import onnx_op

REASONS = {
    "ImageDecoder": "it decodes image files; decode them before the network",
    "RegexFullMatch": "it has a regular expression; match texts before the network",
}


def refuse(ctx: NodeContext) -> None:
    raise UnsupportedError(REASONS[ctx.op])


onnx_op(*REASONS)(refuse)
