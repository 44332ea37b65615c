"""Operators that no fixed program can stand for, each with the reason."""

from __future__ import annotations

from tvmrt.error import UnsupportedError

from .context import NodeContext
from .registry import onnx_op

_RANDOM = "it draws random numbers; compile a network whose results depend on its inputs only"
_STRING = "it handles strings; do that before the network runs"

_REASONS = {
    "Bernoulli": _RANDOM,
    "ImageDecoder": "it decodes image files; do that before the network runs",
    "Multinomial": _RANDOM,
    "RandomNormal": _RANDOM,
    "RandomNormalLike": _RANDOM,
    "RandomUniform": _RANDOM,
    "RandomUniformLike": _RANDOM,
    "RegexFullMatch": _STRING,
    "StringConcat": _STRING,
    "StringNormalizer": _STRING,
    "StringSplit": _STRING,
    "TfIdfVectorizer": "it counts words; do that before the network runs",
}


@onnx_op(*_REASONS)
def refuse(ctx: NodeContext) -> None:
    raise UnsupportedError(_REASONS[ctx.op])
