"""Operators that no fixed program can stand for, each with the reason."""

from __future__ import annotations

from tvmrt.error import UnsupportedError

from .context import NodeContext
from .registry import onnx_op

_RANDOM = "it draws random numbers; compile a network whose results depend on its inputs only"
_SEQUENCE = "it handles sequences or optional values; only tensors are supported"
_STRING = "it handles strings; do that before the network runs"

_REASONS = {
    "Bernoulli": _RANDOM,
    "ConcatFromSequence": _SEQUENCE,
    "ImageDecoder": "it decodes image files; do that before the network runs",
    "Multinomial": _RANDOM,
    "Optional": _SEQUENCE,
    "OptionalGetElement": _SEQUENCE,
    "OptionalHasElement": _SEQUENCE,
    "RandomNormal": _RANDOM,
    "RandomNormalLike": _RANDOM,
    "RandomUniform": _RANDOM,
    "RandomUniformLike": _RANDOM,
    "RegexFullMatch": _STRING,
    "SequenceAt": _SEQUENCE,
    "SequenceConstruct": _SEQUENCE,
    "SequenceEmpty": _SEQUENCE,
    "SequenceErase": _SEQUENCE,
    "SequenceInsert": _SEQUENCE,
    "SequenceLength": _SEQUENCE,
    "SequenceMap": _SEQUENCE,
    "SplitToSequence": _SEQUENCE,
    "StringConcat": _STRING,
    "StringNormalizer": _STRING,
    "StringSplit": _STRING,
    "TfIdfVectorizer": "it counts words; do that before the network runs",
}


@onnx_op(*_REASONS)
def refuse(ctx: NodeContext) -> None:
    raise UnsupportedError(_REASONS[ctx.op])
