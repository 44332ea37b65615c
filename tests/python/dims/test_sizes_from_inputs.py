"""Extents that are computed from input elements, such as the longest of several lengths.

The reference is onnxruntime without optimisations, at each size.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from dynamic_networks import Draft
from onnx import TensorProto
from test_size_constraints import check, expected, load

import tvmrt

runtime = pytest.importorskip("onnxruntime")
FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
DIMS = {"batch": (1, 4), "frames": (1, 32)}


def model_of(d: Draft, y: str, declared: dict | None = None, kind: int = INT64) -> onnx.ModelProto:
    inputs = {"x": (FLOAT, ["batch", "frames"]), "lengths": (kind, ["batch"])}
    model = d.model(inputs, {"y": FLOAT})
    model.graph.node.extend([onnx.helper.make_node("Identity", [y], ["y"])])
    for name, shape in (declared or {}).items():
        info = onnx.helper.make_tensor_value_info(name, kind, shape)
        model.graph.value_info.extend([info])
    return model


def longest(d: Draft) -> str:
    return d.node("ReduceMax", ["lengths"], keepdims=0)


def counted(d: Draft, limit: str, dtype=np.int64) -> str:
    return d.node("Range", [d.constant(0, dtype), limit, d.constant(1, dtype)])


def grid(d: Draft, last: str) -> str:
    """Return [batch, last], as the older exporter writes the target of an Expand."""
    last = d.node("Unsqueeze", [last, d.constant([0], np.int64)])
    shape = d.node("Concat", [d.extent("lengths", 0), last], axis=0)
    minus = d.node("Mul", [d.constant([1, 1], np.int64), d.constant([-1], np.int64)])
    is_own = d.node("Equal", [shape, minus])
    return d.node("Where", [is_own, d.constant([1, 1], np.int64), shape])


def masked(d: Draft, places: str, x: str = "x") -> str:
    column = d.node("Unsqueeze", ["lengths", d.constant([1], np.int64)])
    mask = d.node("Cast", [d.node("Less", [places, column])], to=FLOAT)
    return d.node("Mul", [x, mask])


def declared_mask() -> onnx.ModelProto:
    """Use a Range and results that are declared as long as the input."""
    d = Draft()
    places = counted(d, longest(d))
    wide = d.node("Expand", [places, grid(d, longest(d))])
    shapes = {places: ["frames"], wide: ["batch", "frames"]}
    return model_of(d, masked(d, wide), shapes)


def plain_mask() -> onnx.ModelProto:
    d = Draft()
    return model_of(d, masked(d, counted(d, longest(d))))


def expanded_mask() -> onnx.ModelProto:
    """Compute the longest length twice, without declared shapes."""
    d = Draft()
    return model_of(d, masked(d, d.node("Expand", [counted(d, longest(d)), grid(d, longest(d))])))


def expanded_before() -> onnx.ModelProto:
    d = Draft()
    ones = d.node("ConstantOfShape", [grid(d, longest(d))])
    x = d.node("Add", ["x", ones])
    return model_of(d, masked(d, counted(d, longest(d)), x))


def narrow_lengths() -> onnx.ModelProto:
    d = Draft()
    return model_of(d, masked(d, counted(d, longest(d), np.int32)), kind=INT32)


def cut(d: Draft, maximum: str) -> str:
    end = d.node("Unsqueeze", [maximum, d.constant([0], np.int64)])
    first, axis = d.constant([0], np.int64), d.constant([1], np.int64)
    return d.node("Slice", ["x", first, end, axis])


def cut_then_masked() -> onnx.ModelProto:
    """Cut the input to the longest length, as the mask."""
    d = Draft()
    maximum = longest(d)
    x = cut(d, maximum)
    return model_of(d, masked(d, counted(d, maximum), x))


def masked_then_cut() -> onnx.ModelProto:
    d = Draft()
    maximum = longest(d)
    places = counted(d, maximum)
    return model_of(d, masked(d, places, cut(d, longest(d))))


def of_each(make: Callable[[], onnx.ModelProto], longest: Callable[[int], int]) -> None:
    model, rng = make(), np.random.default_rng(0)
    kind = np.int32 if make is narrow_lengths else np.int64
    net, _ = load(model, DIMS)
    for batch, frames in [(1, 1), (3, 7), (4, 32)]:
        lengths = rng.integers(0, longest(frames) + 1, batch).astype(kind)
        lengths[-1] = longest(frames)
        x = rng.normal(size=(batch, frames)).astype(np.float32)
        assert check(net, model, {"x": x, "lengths": lengths})


MASKS = (declared_mask, plain_mask, expanded_mask, expanded_before, narrow_lengths)


@pytest.mark.parametrize("make", MASKS, ids=lambda make: make.__name__)
def test_masks_of_lengths(make):
    of_each(make, lambda frames: frames)


@pytest.mark.parametrize("make", (cut_then_masked, masked_then_cut), ids=lambda make: make.__name__)
def test_sequences_that_are_cut_to_the_longest(make):
    of_each(make, lambda frames: max(frames - 2, 1))


@pytest.mark.parametrize("make", (plain_mask, expanded_mask), ids=lambda make: make.__name__)
@pytest.mark.parametrize("lengths", ([5, 2], [9, 2], [-1, -1]))
def test_lengths_that_do_not_fit_the_input(make, lengths):
    """onnxruntime also refuses 7 frames with a mask of another length."""
    model = make()
    net, _ = load(model, DIMS)
    inputs = {"x": np.ones((2, 7), np.float32), "lengths": np.array(lengths, np.int64)}
    assert expected(model, inputs) is None
    with pytest.raises(ValueError, match=r"Range1_0.*extent of axis 0.*frames"):
        net(inputs)
    inputs["lengths"] = np.array([7, 2])
    assert check(net, model, inputs)


def test_unbounded_mask_error_says_what_to_declare():
    d = Draft()
    column = d.node("Unsqueeze", ["lengths", d.constant([1], np.int64)])
    model = model_of(d, d.node("Less", [counted(d, longest(d)), column]))
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.BOOL
    with pytest.raises(tvmrt.error.UnsupportedError, match=r"Range2_0.*declare the shape"):
        tvmrt.compile(model, dims=DIMS, target="cortex-m4")
    shape = onnx.helper.make_tensor_type_proto(TensorProto.BOOL, ["batch", "most"])
    model.graph.output[0].type.CopyFrom(shape)
    net, _ = load(model, {**DIMS, "most": (1, 32)})
    inputs = {"x": np.ones((2, 7), np.float32), "lengths": np.array([3, 2], np.int64)}
    assert check(net, model, inputs)
