"""Pooling, compared with ONNX Runtime or the reference evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from nn_case import case, check

RNG = np.random.default_rng(7)


def array(*shape, dtype=np.float32):
    if np.issubdtype(dtype, np.integer):
        return RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape).astype(dtype)
    return RNG.uniform(-1, 1, shape).astype(dtype)


WINDOWS = [
    ("plain", (2, 5, 9, 8), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("padded", (1, 20, 9, 8), {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 1, 1, 0]}),
    ("ceil", (1, 3, 10, 11), {"kernel_shape": [3, 3], "strides": [2, 3], "ceil_mode": 1}),
    (
        "same upper",
        (1, 3, 7, 7),
        {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    ),
    (
        "same lower",
        (1, 3, 7, 7),
        {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    ),
    ("valid", (1, 3, 7, 7), {"kernel_shape": [2, 3], "auto_pad": "VALID"}),
    ("sequence", (2, 6, 17), {"kernel_shape": [4], "strides": [3], "pads": [2, 1]}),
    ("volume", (1, 4, 5, 6, 7), {"kernel_shape": [2, 3, 2], "strides": [2, 1, 3]}),
    ("whole image", (1, 7, 5, 4), {"kernel_shape": [5, 4]}),
    ("one channel", (2, 1, 9, 9), {"kernel_shape": [3, 3], "strides": [3, 3]}),
]


@pytest.mark.slow
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_windows(tmp_path, op):
    cases = [case(id, op, [array(*shape)], **attrs) for id, shape, attrs in WINDOWS]
    dilated = {"kernel_shape": [2, 3], "dilations": [3, 2], "strides": [1, 2], "pads": [1, 2, 1, 2]}
    cases.append(case("dilated", op, [array(1, 5, 9, 12)], **dilated))
    if op == "AveragePool":
        cases += [
            case(f"{id}, pads count", op, [array(*shape)], count_include_pad=1, **attrs)
            for id, shape, attrs in WINDOWS
        ]
    if op == "LpPool":
        cases += [case(f"p {p}", op, [array(1, 5, 8, 8)], kernel_shape=[3, 3], p=p) for p in (1, 3)]
    check(cases, 22, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [8, 10, 11])
def test_older_opsets(tmp_path, opset):
    cases = [
        case(f"{op} {id}", op, [array(*shape)], **attrs)
        for op in ("MaxPool", "AveragePool")
        for id, shape, attrs in WINDOWS
        if opset > 8 or "ceil_mode" not in attrs
    ]
    check(cases, opset, tmp_path)


def test_other_types(tmp_path):
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    cases = [
        case(str(np.dtype(dtype)), "MaxPool", [array(1, 3, 9, 8, dtype=dtype)], **window)
        for dtype in (np.int8, np.uint8, np.float64)
    ]
    check(cases, 13, tmp_path)


def test_indices(tmp_path):
    cases = [
        case(id, "MaxPool", [array(*shape)], outputs=2, **attrs) for id, shape, attrs in WINDOWS
    ]
    cases += [
        case(
            "columns first",
            "MaxPool",
            [array(2, 3, 6, 8)],
            outputs=2,
            kernel_shape=[2, 2],
            storage_order=1,
        ),
        case(
            "columns first, sequence",
            "MaxPool",
            [array(2, 3, 8)],
            outputs=2,
            kernel_shape=[2],
            storage_order=1,
        ),
        case(
            "columns first, volume",
            "MaxPool",
            [array(1, 2, 4, 5, 6)],
            outputs=2,
            kernel_shape=[2, 2, 2],
            storage_order=1,
        ),
        case("int8", "MaxPool", [array(1, 2, 6, 6, dtype=np.int8)], outputs=2, kernel_shape=[2, 2]),
    ]
    check(cases, 13, tmp_path)


def test_whole_images(tmp_path):
    cases = [
        case(f"{op} {shape}", op, [array(*shape)])
        for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
        for shape in ((2, 5, 7, 6), (1, 33, 4), (1, 3, 2, 3, 4))
    ]
    cases += [case(f"p {p}", "GlobalLpPool", [array(1, 5, 4, 4)], p=p) for p in (1, 3)]
    check(cases, 13, tmp_path)


def test_unpool(tmp_path):
    x = np.array([[[[1, 2], [3, 4]]]], np.float32)
    places = np.array([[[[5, 7], [13, 15]]]], np.int64)
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    cases = [
        case("natural shape", "MaxUnpool", [x, places], **window),
        case("larger", "MaxUnpool", [x, places, np.array([1, 1, 5, 5])], [2], **window),
        case("constant places", "MaxUnpool", [x, places], [1], **window),
    ]
    check(cases, 11, tmp_path, "reference")
