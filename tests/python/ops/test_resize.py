"""Resize and Upsample, compared with ONNX Runtime or the reference evaluator."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from nn_case import build_model, case, check

from tvmrt.compiler.frontend.onnx import import_model

RNG = np.random.default_rng(13)
COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")


def array(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def by_scales(id, x, scales, roi=None, **attrs):
    inputs = [x, roi, np.array(scales, np.float32)]
    return case(id, "Resize", inputs, [2] if roi is None else [1, 2], **attrs)


def by_sizes(id, x, sizes, roi=None, **attrs):
    inputs = [x, roi, None, np.array(sizes, np.int64)]
    return case(id, "Resize", inputs, [3] if roi is None else [1, 3], **attrs)


def test_nearest(tmp_path):
    x = array(1, 3, 7, 6)
    cases = [
        by_scales(
            f"{c} {r} {s}",
            x,
            [1, 1, *s],
            mode="nearest",
            nearest_mode=r,
            coordinate_transformation_mode=c,
        )
        for c, r, s in product(
            COORDINATES,
            ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
            ((2, 3), (0.6, 0.5), (1.7, 2)),
        )
    ]
    cases += [
        by_sizes("by sizes", x, [1, 3, 13, 4], mode="nearest"),
        by_scales("channels too", x, [1, 2, 1.5, 1], mode="nearest"),
        by_scales("sequence", array(2, 20, 5), [1, 1, 2], mode="nearest"),
    ]
    check(cases, 13, tmp_path)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_blended(tmp_path, mode):
    x = array(1, 3, 7, 6)
    cases = [
        by_scales(f"{c} {s}", x, [1, 1, *s], mode=mode, coordinate_transformation_mode=c)
        for c, s in product(COORDINATES, ((2, 3), (0.6, 0.5), (1.7, 2)))
    ]
    cases += [by_sizes("by sizes", x, [1, 3, 13, 4], mode=mode)]
    cases += [
        by_sizes("one row", x, [1, 3, 1, 1], mode=mode, coordinate_transformation_mode=c)
        for c in COORDINATES
    ]
    if mode == "linear":
        cases.append(by_scales("volume", array(1, 2, 3, 4, 5), [1, 1, 2, 1.5, 2], mode=mode))
        cases.append(by_scales("sequence", array(2, 20, 5), [1, 1, 2], mode=mode))
    else:
        cases += [
            by_scales("another cubic", x, [1, 1, 2, 0.7], mode=mode, cubic_coeff_a=-0.5),
            by_scales("exclude outside", x, [1, 1, 2, 0.7], mode=mode, exclude_outside=1),
        ]
    check(cases, 13, tmp_path)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_aligned_corners_are_the_corners(tmp_path, mode):
    """Scales with a fractional output extent, as in the onnx tests
    resize_downsample_scales_{linear,cubic}_align_corners. onnxruntime divides by the integer
    extent; the onnx tests use the fractional one, for which corners do not match."""
    x = array(1, 1, 2, 4)
    keywords = {"mode": mode, "coordinate_transformation_mode": "align_corners"}
    corners = x[:, :, :1, ::3]
    check([by_scales(mode, x, [1, 1, 0.6, 0.6], wanted=[corners], **keywords)], 13, tmp_path)
    check([by_scales(mode, x, [1, 1, 0.6, 0.6], **keywords)], 13, tmp_path)


def test_regions(tmp_path):
    x = array(1, 2, 7, 6)
    roi = np.array([0, 0, 0.2, 0.1, 1, 1, 0.8, 1.4], np.float32)
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.5}
    cases = [
        by_sizes(f"{mode}", x, [1, 2, 5, 9], roi=roi, mode=mode, **crop)
        for mode in ("linear", "cubic", "nearest")
    ]
    check(cases, 13, tmp_path)


@pytest.mark.parametrize("end", [np.inf, np.nan])
def test_a_region_that_is_not_finite_is_refused(end):
    roi = np.array([0, end], np.float32)
    attrs = {"mode": "nearest", "coordinate_transformation_mode": "tf_crop_and_resize"}
    model, _ = build_model([by_sizes("far", array(4), [2], roi=roi, **attrs)], 18)
    with pytest.raises(ValueError, match=r"the region of interest \[0.0, \w+\] is not finite"):
        import_model(model)


def test_axes_and_aspect(tmp_path):
    x = array(1, 3, 8, 6)
    cases = [
        by_sizes("two axes", x, [9, 5], mode="linear", axes=[3, 2]),
        by_scales("negative axes", x, [2, 1.5], mode="nearest", axes=[-2, -1]),
        by_sizes(
            "not larger",
            x,
            [12, 7],
            mode="linear",
            axes=[2, 3],
            keep_aspect_ratio_policy="not_larger",
        ),
        by_sizes(
            "not smaller",
            x,
            [12, 7],
            mode="nearest",
            axes=[2, 3],
            keep_aspect_ratio_policy="not_smaller",
        ),
    ]
    check(cases, 19, tmp_path)


def test_symmetric(tmp_path):
    x = array(1, 3, 8, 6)
    symmetric = {"coordinate_transformation_mode": "half_pixel_symmetric"}
    cases = [
        by_scales(m, x, [1, 1, 2.3, 0.6], mode=m, **symmetric)
        for m in ("linear", "cubic", "nearest")
    ]
    check(cases, 19, tmp_path, "reference")


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias(tmp_path, mode):
    x = array(1, 3, 16, 15)
    cases = [
        by_scales(f"{s}", x, [1, 1, *s], mode=mode, antialias=1)
        for s in ((0.5, 0.4), (0.3, 0.12), (2, 0.7))
    ]
    check(cases, 19, tmp_path)


@pytest.mark.parametrize("opset", [7, 9, 10])
def test_older_opsets(tmp_path, opset):
    x = array(1, 3, 5, 6)

    def one(mode, scales):
        if opset == 7:
            return case(
                f"{mode} {scales}", "Upsample", [x], mode=mode, scales=[float(s) for s in scales]
            )
        op = "Upsample" if opset == 9 else "Resize"
        return case(f"{mode} {scales}", op, [x, np.array(scales, np.float32)], [1], mode=mode)

    cases = [one(mode, [1, 1, *s]) for mode in ("nearest", "linear") for s in ((2, 2), (3, 1.5))]
    if opset == 10:
        cases += [one(mode, [1, 1, 0.5, 0.6]) for mode in ("nearest", "linear")]
    check(cases, opset, tmp_path)


def test_integers(tmp_path):
    x = RNG.integers(0, 255, (1, 3, 5, 6)).astype(np.uint8)
    cases = [by_scales("nearest", x, [1, 1, 2, 2], mode="nearest")]
    check(cases, 13, tmp_path)
