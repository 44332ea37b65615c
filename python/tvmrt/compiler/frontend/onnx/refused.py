"""Operators that no fixed program can stand for, each with the reason."""

from __future__ import annotations

from tvmrt.error import UnsupportedError

from .context import NodeContext
from .registry import onnx_op

_SEARCH = "it runs whole networks until a text ends; compile the network of one step, and loop"
_PACKED = "sequences are packed without padding; optimise the model for CPUs"

REASONS = {
    "": {"ImageDecoder": "it decodes image files; do that before the network runs"},
    "com.microsoft": {
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
    },
}


def refuse(ctx: NodeContext) -> None:
    domain = "" if ctx.node.domain == "ai.onnx" else ctx.node.domain
    raise UnsupportedError(REASONS[domain][ctx.op])


for _domain, _reasons in REASONS.items():
    onnx_op(*_reasons, domain=_domain)(refuse)
