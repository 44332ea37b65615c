"""Operators of the domain com.microsoft beside onnxruntime, a library for each subject."""

from __future__ import annotations

import microsoft_attention as attention
import microsoft_bytes as quantized
import microsoft_floats as floats
import pytest
from harness import Batch

OPSET = 17

# a library of all of them takes a minute: every fourth is compiled every day
_OF_ATTENTION = [
    *attention.packed(),
    *attention.multi_head(),
    *attention.decoder(),
    *attention.group_query(),
    *attention.rotary(),
    *attention.quantized(),
]
_ATTENTION = Batch(OPSET, _OF_ATTENTION[::4])
_MORE = Batch(OPSET, [each for i, each in enumerate(_OF_ATTENTION) if i % 4])
_FLOATS = Batch(
    OPSET,
    [
        *floats.activations(),
        *floats.norms(),
        *floats.embeddings(),
        *floats.products(),
        *floats.convolutions(),
        *floats.plain(),
    ],
)
_BYTES = Batch(
    OPSET,
    [
        *quantized.pointwise(),
        *quantized.convolutions(),
        *quantized.products(),
        *quantized.recurrent(),
        *quantized.blocks(),
    ],
)


@pytest.mark.parametrize("part", _ATTENTION)
def test_attention_of_onnxruntime(part):
    part.check()


@pytest.mark.slow
@pytest.mark.parametrize("part", _MORE)
def test_more_attention_of_onnxruntime(part):
    part.check()


@pytest.mark.parametrize("part", _FLOATS)
def test_floats_of_onnxruntime(part):
    part.check()


@pytest.mark.parametrize("part", _BYTES)
def test_bytes_of_onnxruntime(part):
    part.check()
