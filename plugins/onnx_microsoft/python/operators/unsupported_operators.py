"""Operators of ``com.microsoft`` that a compiled program cannot support, with reasons."""

from __future__ import annotations

from tvmrt.compiler.sdk.frontend import NodeContext, onnx_op
from tvmrt.error import UnsupportedError

from .domain import MICROSOFT

_SEARCH = "it runs whole networks until a text ends; compile the network of one step, and loop"
_PACKED = "sequences are packed without padding; optimise the model for CPUs"

REASONS = {
    "BeamSearch": _SEARCH,
    "GreedySearch": _SEARCH,
    "Sampling": _SEARCH,
    "WhisperBeamSearch": _SEARCH,
    "PackedAttention": _PACKED,
    "PackedMultiHeadAttention": _PACKED,
    "PagedAttention": _PACKED,
    "RemovePadding": _PACKED,
    "RestorePadding": _PACKED,
    "EPContext": "it holds what another runtime compiled; compile the model it was made of",
}


def refuse(ctx: NodeContext) -> None:
    raise UnsupportedError(REASONS[ctx.op])


onnx_op(*REASONS, domain=MICROSOFT)(refuse)
