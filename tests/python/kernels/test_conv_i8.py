"""Convolutions and matrix products of 8-bit tensors against numpy, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from i8_case import (
    FLAGS,
    FORMATS,
    TYPES,
    Batch,
    Shape,
    int8_range,
    layer,
    random_bytes,
    run_conv,
    usable_formats,
)
from kernel_build import PARALLEL, has_compiler

from tvmrt.codegen.window.layer_i8 import ConvI8
from tvmrt.codegen.window.tiles_i8 import choose_tile

ONE, TWO = (1, 1), (2, 2)
NONE = ((0, 0), (0, 0))

SHAPES = {
    "3x3": Shape(in_c=16, out_c=32, size=(9, 9)),
    "3x3-odd-channels": Shape(in_c=13, out_c=37, size=(7, 11)),
    "3x3-first-layer": Shape(in_c=3, out_c=32, size=(15, 17), stride=TWO),
    "3x3-no-padding": Shape(in_c=8, out_c=64, size=(9, 8), pad=NONE),
    "3x3-stride-3": Shape(in_c=5, out_c=16, size=(12, 13), stride=(3, 3)),
    "3x3-dilated": Shape(in_c=8, out_c=24, size=(11, 12), dilation=TWO, pad=((2, 2), (2, 2))),
    "3x3-dilated-rows-only": Shape(
        in_c=8, out_c=24, size=(13, 9), dilation=(3, 1), pad=((3, 3), (1, 1))
    ),
    "3x3-dilated-few-channels": Shape(in_c=3, out_c=9, size=(10, 10), dilation=TWO, pad=NONE),
    "1x1": Shape(in_c=24, out_c=48, size=(7, 5), kernel=ONE, pad=NONE),
    "1x1-batch-3": Shape(batch=3, in_c=20, out_c=80, size=(5, 3), kernel=ONE, pad=NONE),
    "1x1-stride-2": Shape(in_c=17, out_c=33, size=(9, 9), kernel=ONE, pad=NONE, stride=TWO),
    "1x1-two-channels": Shape(in_c=2, out_c=16, size=(6, 6), kernel=ONE, pad=NONE),
    "1x1-padded": Shape(in_c=8, out_c=8, size=(4, 4), kernel=ONE, pad=((1, 1), (1, 2))),
    "1x7": Shape(in_c=4, out_c=16, size=(8, 9), kernel=(1, 7), pad=((0, 0), (3, 3))),
    "7x1": Shape(in_c=4, out_c=16, size=(8, 9), kernel=(7, 1), pad=((3, 3), (0, 0))),
    "one-column": Shape(
        in_c=6, out_c=20, size=(30, 1), kernel=(5, 1), stride=(2, 1), pad=((2, 2), (0, 0))
    ),
    "10x4-mono": Shape(
        in_c=1, out_c=64, size=(49, 10), kernel=(10, 4), stride=TWO, pad=((4, 5), (1, 1))
    ),
    "3x3-mono": Shape(in_c=1, out_c=10, size=(8, 8)),
    "5x5-asymmetric-padding": Shape(
        in_c=6, out_c=20, size=(8, 10), kernel=(5, 5), pad=((0, 3), (4, 1))
    ),
    "3x3-more-padding-than-image": Shape(in_c=4, out_c=4, size=(2, 2), pad=((3, 3), (3, 3))),
    "groups-2": Shape(in_c=16, out_c=40, size=(6, 6), groups=2),
    "groups-3-odd": Shape(in_c=15, out_c=21, size=(6, 7), groups=3, stride=TWO),
    "groups-of-2-channels": Shape(in_c=8, out_c=8, size=(6, 7), groups=4),
    "channel-multiplier": Shape(in_c=4, out_c=12, size=(6, 7), groups=4),
    "batch-2": Shape(batch=2, in_c=8, out_c=16, size=(6, 5)),
    "1-d": Shape(
        in_c=12, out_c=20, size=(31,), kernel=(5,), stride=(2,), dilation=(1,), pad=((2, 2),)
    ),
    "3-d": Shape(
        in_c=5,
        out_c=18,
        size=(4, 5, 6),
        kernel=(3, 3, 3),
        stride=(1, 2, 1),
        dilation=(1, 1, 1),
        pad=((1, 1), (1, 1), (1, 1)),
    ),
    "3-d-dilated": Shape(
        in_c=4,
        out_c=6,
        size=(6, 5, 6),
        kernel=(2, 2, 2),
        stride=(1, 1, 1),
        dilation=(2, 1, 2),
        pad=((1, 1), (1, 1), (1, 1)),
    ),
    "wide": Shape(in_c=64, out_c=200, size=(3, 70)),
}


BATCH = Batch(SHAPES)


@pytest.mark.everyday(1)
@pytest.mark.parametrize("fmt", usable_formats())
@pytest.mark.parametrize("types", TYPES)
def test_types_give_numpys_bytes(tmp_path_factory, fmt, types):
    BATCH.check(tmp_path_factory.getbasetemp(), fmt, "3x3-odd-channels", types)


@pytest.mark.parametrize("fmt", usable_formats())
@pytest.mark.parametrize("name", SHAPES)
def test_shapes_give_numpys_bytes(tmp_path_factory, fmt, name):
    BATCH.check(tmp_path_factory.getbasetemp(), fmt, name, "u8-u8-u8")


@pytest.mark.parametrize("fmt", usable_formats())
@pytest.mark.parametrize(
    "name", ["3x3-first-layer", "3x3-dilated-few-channels", "groups-2", "1x1", "3x3-mono"]
)
@pytest.mark.parametrize("types", ["s8-u8-outliers", "u8-u8-far-outliers"])
def test_few_large_weights_take_extra_quads(tmp_path_factory, fmt, name, types):
    BATCH.check(tmp_path_factory.getbasetemp(), fmt, name, types)


@pytest.mark.slow
@pytest.mark.skipif(not has_compiler("clang"), reason="needs clang")
@pytest.mark.parametrize("fmt", usable_formats())
@pytest.mark.parametrize("name", ["3x3-odd-channels", "1x1-batch-3", "groups-3-odd"])
def test_clang_gives_the_same_bytes(tmp_path_factory, fmt, name):
    folder = tmp_path_factory.getbasetemp()
    BATCH.check(folder, fmt, name, "s8-u8-s8", cc="clang", flags=FLAGS[fmt])


@pytest.mark.slow
@pytest.mark.parametrize("fmt", usable_formats())
@pytest.mark.parametrize("name", ["3x3-odd-channels", "3x3-dilated", "1x1"])
def test_shared_work_gives_the_same_bytes(tmp_path_factory, fmt, name):
    folder = tmp_path_factory.getbasetemp()
    BATCH.check(folder, fmt, name, "u8-u8-u8", flags=[*FLAGS[fmt], "-DTASKS=3", *PARALLEL])


@pytest.mark.slow
@pytest.mark.parametrize("fmt", usable_formats())
@pytest.mark.parametrize("w_signed", [True, False], ids=["s8-weights", "u8-weights"])
def test_onnxruntime_gives_the_same_bytes(tmp_path_factory, fmt, w_signed):
    onnxruntime = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    helper, to_tensor = onnx.helper, onnx.numpy_helper.from_array
    s, rng = SHAPES["3x3-first-layer"], np.random.default_rng(1)
    x = random_bytes(rng, False, (1, s.in_c, *s.size))
    w = random_bytes(rng, w_signed, (s.out_c, s.in_c, *s.kernel))
    bias = rng.integers(-3000, 3000, s.out_c).astype(np.int32)
    w_zero = np.array(0 if w_signed else 119, w.dtype)
    w_scale = rng.uniform(0.001, 0.003, s.out_c if w_signed else ()).astype(np.float32)
    x_scale, y_scale = np.float32(0.02), np.float32(0.037)
    zeros = np.full(w_scale.shape, w_zero, w.dtype)
    constants = {
        "xs": x_scale,
        "xz": np.uint8(113),
        "w": w,
        "ws": w_scale,
        "wz": zeros,
        "ys": y_scale,
        "yz": np.uint8(101),
        "b": bias,
    }
    node = helper.make_node(
        "QLinearConv", ["x", *constants], ["y"], pads=[1, 1, 1, 1], strides=[2, 2]
    )
    kind = onnx.TensorProto.UINT8
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", kind, [1, s.out_c, *s.out])],
        [to_tensor(np.asarray(v), name) for name, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    expected = session.run(None, {"x": x})[0].transpose(0, 2, 3, 1)
    conv = layer(FORMATS[fmt], s, False, 113).fit(w, w_zero)
    y = np.zeros(expected.shape, np.uint8)
    scale = np.broadcast_to(x_scale * w_scale / y_scale, (s.out_c,)).astype(np.float32)
    run_conv(
        tmp_path_factory.getbasetemp(),
        conv,
        np.ascontiguousarray(x.transpose(0, 2, 3, 1)),
        w,
        w_zero,
        bias,
        scale,
        y,
        int8_range(101, False),
    )
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("pixels", [256, 729, 1089, 3136])
@pytest.mark.parametrize("tasks", [2, 4])
def test_threads_get_alike_parts_of_one_row(pixels, tasks):
    """As the kernel shares the chunks of a row out: the largest part beside the mean."""
    one = ConvI8.matmul(FORMATS["vnni512"], pixels, 96, 64).fit(np.ones((64, 96), np.int8))
    members = one.members(shifted=False, epilogue=False)
    chunk, chunks = members["chunk"], members["chunks"]
    assert not members["by_blocks"]
    ends = [min(pixels, chunks * task // tasks * chunk) for task in range(tasks + 1)]
    parts = [end - begin for begin, end in zip(ends, ends[1:])]
    assert sum(parts) == pixels
    assert max(parts) <= 1.1 * pixels / tasks


def test_of_tiles_with_as_many_products_the_one_of_fewer_pixels_is_taken():
    """Four vectors by 4 pixels take 0.84 of the time of two by 8 in a layer of 64 channels."""
    assert choose_tile(FORMATS["vnni512"], 4, 8) == (4, 4)
    assert choose_tile(FORMATS["vnni512"], 2, 8) == (2, 8)
