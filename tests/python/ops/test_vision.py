"""Grid sampling, RoI pooling, deformable convolution, Fourier transforms."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from nn_case import case, check

RNG = np.random.default_rng(19)


def array(*shape, low=-1.0, high=1.0):
    return RNG.uniform(low, high, shape).astype(np.float32)


@pytest.mark.parametrize("opset", [16, 20])
def test_grid_sample(tmp_path, opset):
    linear, cubic = ("bilinear", "bicubic") if opset == 16 else ("linear", "cubic")
    x, grid = array(2, 3, 5, 6), array(2, 4, 7, 2, low=-1.4, high=1.4)
    cases = [
        case(
            f"{mode} {padding} {corners}",
            "GridSample",
            [x, grid],
            mode=mode,
            padding_mode=padding,
            align_corners=corners,
        )
        for mode, padding, corners in product(
            (linear, cubic, "nearest"), ("zeros", "border", "reflection"), (0, 1)
        )
    ]
    if opset == 20:
        volume, places = array(1, 17, 3, 4, 5), array(1, 2, 3, 4, 3, low=-1.3, high=1.3)
        cases += [
            case(
                f"volume {mode} {padding}",
                "GridSample",
                [volume, places],
                mode=mode,
                padding_mode=padding,
            )
            for mode, padding in product(("linear", "nearest"), ("zeros", "border", "reflection"))
        ]
    check(cases, opset, tmp_path)


def test_affine_grid(tmp_path):
    cases = [
        case("image", "AffineGrid", [array(2, 2, 3), np.array([2, 3, 4, 5])], [1]),
        case(
            "corners", "AffineGrid", [array(2, 2, 3), np.array([2, 3, 4, 5])], [1], align_corners=1
        ),
        case("volume", "AffineGrid", [array(1, 3, 4), np.array([1, 3, 2, 4, 5])], [1]),
    ]
    check(cases, 20, tmp_path, "reference")


@pytest.mark.parametrize("opset", [10, 16])
def test_roi_align(tmp_path, opset):
    x = array(2, 5, 9, 8)
    regions = np.array([[0, 0, 7, 8], [1.2, 2.5, 5, 6.1], [-2, 3, 12, 5], [6, 6, 7, 7]], np.float32)
    images = np.array([0, 1, 1, 0])
    shape = {"output_height": 3, "output_width": 2}
    cases = [
        case(
            f"ratio {r}, scale {s}",
            "RoiAlign",
            [x, regions, images],
            sampling_ratio=r,
            spatial_scale=s,
            **shape,
        )
        for r, s in product((0, 2), (1.0, 0.6))
    ]
    cases.append(
        case("max", "RoiAlign", [x, regions, images], mode="max", sampling_ratio=2, **shape)
    )
    check(cases, opset, tmp_path)


def test_max_roi_pool(tmp_path):
    regions = np.array([[0, 0, 0, 7, 8], [1, 1.2, 2.5, 5, 6.1], [1, -2, 3, 12, 5]], np.float32)
    cases = [
        case(
            f"scale {s}",
            "MaxRoiPool",
            [array(2, 5, 9, 8), regions],
            pooled_shape=[3, 2],
            spatial_scale=s,
        )
        for s in (1.0, 0.5)
    ]
    check(cases, 13, tmp_path)


def test_deform_conv(tmp_path):
    def one(id, channels=4, outputs=6, group=1, parts=1, mask=False, bias=False, **attrs):
        out = (5, 4) if attrs.get("strides") is None else (3, 2)
        inputs = [array(2, channels, 5, 4), array(outputs, channels // group, 3, 3)]
        inputs.append(array(2, 2 * parts * 9, *out, low=-2, high=2))
        inputs.append(array(outputs) if bias else None)
        inputs.append(array(2, parts * 9, *out) if mask else None)
        while inputs[-1] is None:
            inputs.pop()
        constants = [i for i in (1, 3) if i < len(inputs) and inputs[i] is not None]
        return case(
            id,
            "DeformConv",
            inputs,
            constants,
            kernel_shape=[3, 3],
            pads=[1, 1, 1, 1],
            group=group,
            offset_group=parts,
            **attrs,
        )

    cases = [
        one("plain"),
        one("mask and bias", mask=True, bias=True),
        one("stride", strides=[2, 2]),
        one("groups", group=2, parts=2, mask=True),
        one("parts across groups", channels=8, group=2, parts=4),
        one("groups across parts", channels=8, group=4, outputs=8, parts=2),
    ]
    check(cases, 19, tmp_path)


def test_fourier(tmp_path):
    length = np.array(12)
    cases = [
        case("real", "DFT", [array(2, 10, 1), None, np.array(1)], [2]),
        case("complex", "DFT", [array(2, 10, 2), None, np.array(1)], [2]),
        case("one side", "DFT", [array(2, 10, 1), None, np.array(1)], [2], onesided=1),
        case("inverse", "DFT", [array(2, 10, 2), None, np.array(1)], [2], inverse=1),
        case("longer", "DFT", [array(2, 10, 2), length, np.array(1)], [1, 2]),
        case("shorter", "DFT", [array(2, 14, 2), length, np.array(1)], [1, 2]),
        case("first axis", "DFT", [array(3, 4, 5, 1), None, np.array(0)], [2]),
        case("default axis", "DFT", [array(3, 4, 5, 1)]),
    ]
    check(cases, 20, tmp_path, "reference")


def test_short_time_fourier(tmp_path):
    window = np.hanning(16).astype(np.float32)
    signal = array(2, 100, 1)
    cases = [
        case("window", "STFT", [signal, np.array(8), window], [1, 2]),
        case("length", "STFT", [signal, np.array(5), None, np.array(16)], [1, 3]),
        case(
            "both sides", "STFT", [signal, np.array(8), window, np.array(16)], [1, 2, 3], onesided=0
        ),
    ]
    check(cases, 17, tmp_path)
