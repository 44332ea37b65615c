"""Convolutions, also transposed, compared with ONNX Runtime or the reference evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from nn_case import case, check

RNG = np.random.default_rng(11)


def array(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


LAYERS = [
    ("3x3", (1, 5, 9, 8), (7, 5, 3, 3), {"pads": [1, 1, 1, 1]}),
    ("1x1", (2, 5, 6, 7), (20, 5, 1, 1), {}),
    ("1x1 stride 2", (1, 5, 6, 7), (4, 5, 1, 1), {"strides": [2, 2]}),
    (
        "strides and uneven pads",
        (2, 3, 9, 8),
        (4, 3, 3, 2),
        {"strides": [2, 3], "pads": [0, 1, 2, 0]},
    ),
    ("dilated", (1, 3, 11, 12), (4, 3, 3, 3), {"dilations": [2, 3], "pads": [2, 3, 2, 3]}),
    ("groups", (1, 6, 8, 8), (9, 2, 3, 3), {"group": 3, "pads": [1, 1, 1, 1]}),
    ("depthwise", (1, 6, 8, 8), (6, 1, 3, 3), {"group": 6, "pads": [1, 1, 1, 1]}),
    ("two outputs a channel", (1, 6, 8, 8), (12, 1, 3, 3), {"group": 6, "strides": [2, 2]}),
    ("same upper", (1, 3, 8, 9), (4, 3, 3, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ("same lower", (1, 3, 8, 9), (4, 3, 2, 4), {"auto_pad": "SAME_LOWER", "strides": [1, 2]}),
    ("valid", (1, 3, 8, 9), (4, 3, 2, 4), {"auto_pad": "VALID"}),
    ("sequence", (2, 4, 21), (6, 4, 5), {"pads": [2, 1], "strides": [2]}),
    ("sequence, depthwise", (1, 8, 21), (8, 1, 5), {"group": 8, "dilations": [2]}),
    (
        "volume",
        (1, 3, 5, 6, 7),
        (4, 3, 2, 3, 3),
        {"pads": [1, 0, 1, 0, 1, 1], "strides": [1, 2, 1]},
    ),
]


@pytest.mark.slow
def test_constant_weights(tmp_path):
    cases = [
        case(id, "Conv", [array(*x), array(*w), array(w[0])], [1, 2], **attrs)
        for id, x, w, attrs in LAYERS
    ]
    cases.append(case("no bias", "Conv", [array(1, 3, 5, 5), array(4, 3, 3, 3)], [1]))
    cases.append(
        case("computed bias", "Conv", [array(1, 3, 5, 5), array(4, 3, 3, 3), array(4)], [1])
    )
    check(cases, 13, tmp_path)


@pytest.mark.slow
def test_computed_weights(tmp_path):
    cases = [
        case(id, "Conv", [array(*x), array(*w), array(w[0])], **attrs) for id, x, w, attrs in LAYERS
    ]
    check(cases, 13, tmp_path)


TRANSPOSED = [
    ("stride 1", (1, 5, 6, 7), (5, 4, 3, 3), {"pads": [1, 1, 1, 1]}),
    ("stride 2", (2, 5, 6, 7), (5, 4, 3, 3), {"strides": [2, 2]}),
    ("stride 2, 2x2", (1, 5, 6, 7), (5, 4, 2, 2), {"strides": [2, 2]}),
    ("stride 2, 4x4", (1, 5, 6, 7), (5, 4, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("columns only", (1, 6, 5, 7), (6, 4, 1, 5), {"strides": [1, 2], "pads": [0, 2, 0, 2]}),
    ("stride above kernel", (1, 3, 4, 5), (3, 4, 2, 1), {"strides": [3, 2]}),
    ("output padding", (1, 3, 4, 5), (3, 4, 3, 3), {"strides": [2, 3], "output_padding": [1, 2]}),
    ("output shape", (1, 3, 4, 5), (3, 4, 3, 3), {"strides": [2, 2], "output_shape": [10, 11]}),
    (
        "smaller output shape",
        (1, 3, 4, 5),
        (3, 4, 3, 3),
        {"strides": [2, 2], "output_shape": [8, 9]},
    ),
    ("same upper", (1, 3, 4, 5), (3, 4, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ("same lower", (1, 3, 4, 5), (3, 4, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    ("dilated", (1, 3, 6, 5), (3, 4, 3, 3), {"dilations": [2, 3], "pads": [2, 1, 1, 2]}),
    ("dilated stride 2", (1, 3, 6, 5), (3, 4, 3, 2), {"dilations": [2, 3], "strides": [2, 2]}),
    ("groups", (1, 6, 4, 5), (6, 2, 3, 3), {"group": 2, "strides": [2, 1], "pads": [1, 1, 1, 1]}),
    ("depthwise", (1, 6, 4, 5), (6, 1, 3, 3), {"group": 6, "strides": [2, 2]}),
    (
        "depthwise dilated",
        (1, 16, 5, 9),
        (16, 1, 3, 3),
        {"group": 16, "dilations": [2, 1], "pads": [4, 1, 4, 1]},
    ),
    ("sequence", (2, 4, 9), (4, 3, 4), {"strides": [3], "pads": [1, 0]}),
    (
        "volume",
        (1, 3, 3, 4, 5),
        (3, 2, 2, 3, 3),
        {"strides": [2, 1, 2], "pads": [0, 1, 0, 1, 0, 1]},
    ),
    ("wide pads", (1, 3, 7, 6), (3, 4, 2, 2), {"strides": [2, 2], "pads": [3, 2, 4, 3]}),
]


@pytest.mark.slow
def test_without_channels(tmp_path):
    """A convolution without input channels is its bias; without filters it has no result."""
    cases = [
        case("no input", "Conv", [array(1, 0, 5), array(8, 0, 3), array(8)], [1, 2]),
        case("no output", "Conv", [array(1, 3, 5), array(0, 3, 3)], [1]),
    ]
    for strides in ([1], [2]):
        to = {"strides": strides}
        cases += [
            case(f"transposed {to}", "ConvTranspose", [array(1, 0, 5), array(0, 4, 3)], [1], **to),
            case(f"grouped {to}", "ConvTranspose", [array(1, 0, 5), array(0, 4, 3), array(16)],
                 [1, 2], group=4, **to),
            case(f"no output {to}", "ConvTranspose", [array(1, 3, 5), array(3, 0, 3)], [1], **to),
        ]  # fmt: skip
    check(cases, 13, tmp_path)


@pytest.mark.slow
def test_transposed(tmp_path):
    cases = [
        case(
            id,
            "ConvTranspose",
            [array(*x), array(*w), array(w[1] * attrs.get("group", 1))],
            [1, 2],
            **attrs,
        )
        for id, x, w, attrs in TRANSPOSED
    ]
    cases.append(case("no bias", "ConvTranspose", [array(1, 3, 5, 5), array(3, 4, 3, 3)], [1]))
    check(cases, 13, tmp_path)
