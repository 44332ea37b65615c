"""Compare operators of the domain com.microsoft with onnxruntime, one library per subject."""

from __future__ import annotations

import microsoft_attention as attention
import microsoft_experts as experts
import microsoft_floats as floats
import microsoft_int8 as quantized
import microsoft_mixing as mixing
import microsoft_recurrences as recurrences
import numpy as np
import pytest
from harness import Batch
from nn_case import build_model, case

from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.error import UnsupportedError

OPSET = 17

# a library of all operators takes a minute: the everyday tests compile every fourth one
_OF_ATTENTION = [
    *attention.packed(),
    *attention.multi_head(),
    *attention.decoder(),
    *attention.group_query(),
    *attention.quantized_caches(),
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
_LANGUAGE = [
    Batch(OPSET, cases)
    for cases in (
        [*recurrences.linear_attention(), *recurrences.gates()],
        recurrences.gated_delta(),
        recurrences.causal_convolutions(),
        experts.experts(),
        experts.quantized_experts(),
        [*mixing.routers(), *mixing.streams(), *mixing.engrams(), *mixing.ngrams()],
    )
]


@pytest.mark.slow
@pytest.mark.parametrize("part", [part for batch in _LANGUAGE for part in batch])
def test_operators_of_language_models(part):
    part.check()


@pytest.mark.slow
@pytest.mark.parametrize("part", list(_ATTENTION))
def test_attention_of_onnxruntime(part):
    part.check()


@pytest.mark.slow
@pytest.mark.parametrize("part", list(_MORE))
def test_more_attention_of_onnxruntime(part):
    part.check()


@pytest.mark.slow
@pytest.mark.parametrize("part", list(_FLOATS))
def test_floats_of_onnxruntime(part):
    part.check()


@pytest.mark.slow
@pytest.mark.parametrize("part", list(_BYTES))
def test_quantised_operators(part):
    part.check()


# refused nodes: the operator, operands, attributes, and words of the error text
REFUSED = [
    ("Nonesuch", 1, {}, "com.microsoft::Nonesuch"),
    ("BeamSearch", 1, {}, "until a text ends"),
    ("QuickGelu", 1, {"beta": 1.0}, "attribute beta is not known; there are alpha"),
    ("CDist", 2, {"metric": "cosine"}, "distances by cosine"),
    ("FusedGemm", 2, {"activation": "Wave"}, "fused activation Wave"),
    ("GroupNorm", 3, {}, "attribute activation is missing"),
    ("SkipLayerNormalization", 3, {}, "operand scale is float32[3, 3], expected float32[H]"),
]


def test_all_refusals_are_reported_together():
    x = np.zeros((3, 3), np.float32)
    unknown = [row for row in REFUSED if "missing" not in row[3] and "operand" not in row[3]]
    cases = [
        case(op, op, [x] * count, domain="com.microsoft", **attrs)
        for op, count, attrs, _ in unknown
    ]
    with pytest.raises(UnsupportedError) as caught:
        import_model(build_model(cases, OPSET)[0])
    assert str(caught.value).startswith(f"{len(cases)} nodes of the network")
    for number, (_, _, _, words) in enumerate(unknown):
        assert f"case{number} (" in str(caught.value)
        assert words in str(caught.value)


@pytest.mark.parametrize("op, count, attrs, words", REFUSED[-2:])
def test_a_malformed_node_is_a_sentence(op, count, attrs, words):
    x = np.zeros((3, 3), np.float32)
    one = case(op, op, [x] * count, domain="com.microsoft", **attrs)
    with pytest.raises(ValueError, match="node case0") as caught:
        import_model(build_model([one], OPSET)[0])
    assert words in str(caught.value)
