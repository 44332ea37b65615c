"""Operators of ``com.microsoft`` that a compiled program cannot support, with reasons."""

from __future__ import annotations

from tvmrt.compiler.sdk.frontend import NodeContext, onnx_op
from tvmrt.error import UnsupportedError

from .domain import MICROSOFT

_SEARCH = "it runs whole networks until a text ends; compile the network of one step, and loop"
_UNUSED = "exporters of published models do not write it"
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
    "VarlenCausalConvWithState": _PACKED,
    "VarlenNGramHashMapping": _PACKED,
    "AttnLSTM": f"{_UNUSED}; export the network's cell and attention as ONNX operators",
    "BifurcationDetector": _SEARCH,
    "ConvTransposeWithDynamicPads": f"{_UNUSED}; export it as ConvTranspose with constant pads",
    "CropAndResize": f"{_UNUSED}; export it as RoiAlign or Resize",
    "DynamicTimeWarping": "it aligns words after the network has run; call it on the results",
    "GatherPacked": "its tables have formats of onnxruntime's own; use GatherBlockQuantized",
    "MatMulFpQ4": "its weights are packed for the processor at hand; use MatMulNBits",
    "MaxpoolWithMask": f"{_UNUSED}; export it as Where and MaxPool",
    "MurmurHash3": "it hashes text before the network; call it on the inputs",
    "NGramRepeatBlock": _SEARCH,
    "SampleOp": "it is an example without a use; remove it",
    "SparseAttention": "caches in blocks are not supported; use Attention or GroupQueryAttention",
    "SparseToDenseMatMul": "sparse tensors are not supported; export a dense MatMul",
    "WordConvEmbedding": f"{_UNUSED}; export it as Gather, Conv and ReduceMax",
    "EPContext": "it holds what another runtime compiled; compile the model it was made of",
}


def refuse(ctx: NodeContext) -> None:
    raise UnsupportedError(REASONS[ctx.op])


onnx_op(*REASONS, domain=MICROSOFT)(refuse)
