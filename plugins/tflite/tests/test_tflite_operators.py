"""Compare single operators, many per network, with LiteRT's reference kernels."""

from __future__ import annotations

import numpy as np
import pytest
from every_tensor import check_every_tensor
from tflite_case import Bytes, Net, assert_like, feeds_for, litert_runs, ours, random_bytes

import tvmrt

pytest.importorskip("ai_edge_litert")

rng = np.random.default_rng(11)
ACTIVATIONS = {"NONE": 0, "RELU": 1, "N1_TO_1": 2, "RELU6": 3}


def _products(net: Bytes) -> None:
    x = net.given(2, 9, 7, 6)
    bias = np.int64 if net.wide else np.int32
    geometry = {"strideW": 1, "strideH": 2, "dilationWFactor": 1, "dilationHFactor": 1}
    for groups, padding, act in ((1, 0, 0), (2, 1, 1), (1, 0, 3)):
        units = 4 + groups
        scales = rng.uniform(0.002, 0.02, units)
        w = net.const(random_bytes(rng, units, 3, 3, 6 // groups), scale=scales)
        b = net.const(rng.integers(-2000, 2000, units).astype(bias), scale=1.0)
        y = net.made(2, *((5, 7) if padding == 0 else (4, 5)), units)
        net.op(
            "CONV_2D",
            [x, w, b],
            [y],
            3,
            "Conv2DOptions",
            padding=padding,
            fusedActivationFunction=act,
            **geometry,
        )
    w = net.const(random_bytes(rng, 1, 3, 3, 12), scale=rng.uniform(0.002, 0.02, 12), axis=3)
    y, b = net.made(2, 5, 7, 12), net.const(rng.integers(-900, 900, 12).astype(bias), scale=1.0)
    net.op(
        "DEPTHWISE_CONV_2D",
        [x, w, b],
        [y],
        3,
        "DepthwiseConv2DOptions",
        padding=0,
        depthMultiplier=2,
        **geometry,
    )
    # scales that are powers of two give exact ties, where the roundings differ
    for scale, units in ((2.0**-7, 8), (0.0117, 5)):
        q = {"scale": 2.0**-12 if net.wide else 0.25, "zero": 0}
        rows = net.given(6, 20, **q)
        w = net.const(random_bytes(rng, units, 20), scale=scale)
        y = net.made(6, units, scale=q["scale"])
        net.op("FULLY_CONNECTED", [rows, w, -1], [y], 4, "FullyConnectedOptions")


def _pairs(net: Bytes) -> None:
    for name, options in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")):
        for shape, act in (((3, 4, 5), 0), ((4, 1), 1), ((1, 5), 3)):
            a, b = net.given(3, 4, 5), net.given(*shape)
            extra = {"potScaleInt16": False} if name != "MUL" else {}
            net.op(
                name,
                [a, b],
                [net.made(3, 4, 5)],
                1 + net.wide,
                options,
                fusedActivationFunction=act,
                **extra,
            )
    q = net.scale()
    a, b = net.given(3, 4, 5, **q), net.given(3, 4, 5, **q)
    net.op("MAXIMUM", [a, b], [net.made(3, 4, 5, **q)], 2, "MaximumMinimumOptions")


def _windows(net: Bytes) -> None:
    for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        for padding, act in ((0, 0), (1, 1)):
            q = net.scale()
            x = net.given(1, 7, 8, 5, **q)
            shape = (4, 4) if padding == 0 else (3, 3)
            net.op(
                name,
                [x],
                [net.made(1, *shape, 5, **q)],
                2,
                "Pool2DOptions",
                padding=padding,
                strideW=2,
                strideH=2,
                filterWidth=3,
                filterHeight=3,
                fusedActivationFunction=act,
            )
    for axes, shape in (((1, 2), (2, 4)), ((3,), (2, 3, 5))):
        x = net.given(2, 3, 5, 4)
        net.op(
            "MEAN",
            [x, net.const(np.array(axes, np.int32))],
            [net.made(*shape)],
            2,
            "ReducerOptions",
            keepDims=False,
        )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_integer_matmuls_reductions_and_pools(dtype, tmp_path):
    net = Bytes(rng, dtype)
    _products(net)
    _pairs(net)
    _windows(net)
    assert len(check_every_tensor(net.data(), tmp_path)) > 15


def _unary(net: Bytes) -> None:
    whole = (16, 16)
    least = -128
    for name, version, q in (
        ("LOGISTIC", 2, {"scale": 1 / 256, "zero": least}), ("TANH", 2, {"scale": 1 / 128}),
        ("HARD_SWISH", 1, {}), ("RELU", 2, {}), ("RELU6", 2, {}), ("RELU_N1_TO_1", 1, {}),
        ("EXP", 2, {}), ("LOG", 2, {}), ("QUANTIZE", 2, {}),
    ):  # fmt: skip
        for _ in range(2):
            net.op(name, [net.given(*whole)], [net.made(*whole, **q)], version)
    for alpha in (0.2, 1.7, -0.3):
        net.op(
            "LEAKY_RELU",
            [net.given(*whole)],
            [net.made(*whole)],
            2,
            "LeakyReluOptions",
            alpha=alpha,
        )
    slopes = net.const(random_bytes(rng, 16), scale=0.011, zero=3)
    net.op("PRELU", [net.given(*whole), slopes], [net.made(*whole)])
    for beta in (1.0, 0.3):
        net.op(
            "SOFTMAX",
            [net.given(5, 7)],
            [net.made(5, 7, scale=1 / 256, zero=least)],
            2,
            "SoftmaxOptions",
            beta=beta,
        )
    net.op("DEQUANTIZE", [net.given(*whole)], [net.made(*whole, dtype="float32")], 2)
    x = net.input((64,), "float32")
    net.op("QUANTIZE", [x], [net.made(64, scale=0.0123, zero=5)])
    for option in ({}, {"halfPixelCenters": True}, {"alignCorners": True}):
        q = net.scale()
        size = net.const(np.array([7, 9], np.int32))
        net.op(
            "RESIZE_BILINEAR",
            [net.given(1, 4, 5, 3, **q), size],
            [net.made(1, 7, 9, 3, **q)],
            3,
            "ResizeBilinearOptions",
            **option,
        )
        net.op(
            "RESIZE_NEAREST_NEIGHBOR",
            [net.given(1, 4, 5, 3, **q), size],
            [net.made(1, 7, 9, 3, **q)],
            3,
            "ResizeNearestNeighborOptions",
            **option,
        )


def test_unary_functions_of_int8(tmp_path):
    net = Bytes(rng)
    _unary(net)
    assert len(check_every_tensor(net.data(), tmp_path)) > 25


def test_functions_for_microcontrollers_are_within_a_step_of_the_tables(tmp_path):
    net = Bytes(rng)
    for name, scale, zero in (("LOGISTIC", 1 / 256, -128), ("TANH", 1 / 128, 0)):
        net.op(
            name,
            [net.given(16, 16, scale=0.061, zero=9)],
            [net.made(16, 16, scale=scale, zero=zero)],
            2,
        )
    feeds = [np.arange(256, dtype=np.uint8).view(np.int8).reshape(16, 16)] * 2
    tables = ours(net.data(), feeds, tmp_path)
    fixed = ours(net.data(), feeds, tmp_path, tflite_rounding="micro")
    for a, b in zip(tables, fixed):
        assert np.abs(a.astype(int) - b).max() <= 1


def test_rounding_for_microcontrollers_is_in_fixed_point(tmp_path):
    # 127 / 256 is almost one half: one rounding gives 0, two give 1
    net = Bytes(rng)
    x, w = net.given(1, 1, scale=1.0, zero=0), net.const(np.array([[1]], np.int8), scale=2.0**-8)
    net.op(
        "FULLY_CONNECTED",
        [x, w, -1],
        [net.made(1, 1, scale=1.0, zero=0)],
        4,
        "FullyConnectedOptions",
    )
    feeds = [np.array([[127]], np.int8)]
    assert ours(net.data(), feeds, tmp_path)[0].tolist() == [[0]]
    micro = ours(net.data(), feeds, tmp_path, tflite_rounding="micro")
    assert micro[0].tolist() == [[1]]


def _floats(net: Net) -> None:
    def made(*shape: int, dtype: str = "float32") -> int:
        index = net.tensor(shape, dtype)
        net.graph.outputs.append(index)
        return index

    def ints(*numbers) -> int:
        return net.const(np.array(numbers, np.int32))

    x = net.input((2, 6, 4, 3), "float32")
    net.op(
        "STRIDED_SLICE",
        [x, ints(1, 5, -1, 0), ints(2, 0, 0, 9), ints(1, -2, -1, 2)],
        [made(3, 3, 2)],
        4,
        "StridedSliceOptions",
        shrinkAxisMask=1,
    )
    net.op(
        "STRIDED_SLICE",
        [x, ints(0, 0, 1), ints(0, 0, 3), ints(1, 1, 1)],
        [made(2, 6, 4, 1, 2)],
        4,
        "StridedSliceOptions",
        ellipsisMask=1,
        newAxisMask=2,
    )
    net.op("SPACE_TO_DEPTH", [x], [made(2, 3, 2, 12)], 2, "SpaceToDepthOptions", blockSize=2)
    net.op(
        "SPACE_TO_BATCH_ND",
        [x, ints(3, 2), net.const(np.array([[0, 0], [1, 1]], np.int32))],
        [made(12, 2, 3, 3)],
        2,
    )
    y = net.input((12, 2, 3, 3), "float32")
    net.op(
        "BATCH_TO_SPACE_ND",
        [y, ints(3, 2), net.const(np.array([[1, 0], [1, 1]], np.int32))],
        [made(2, 5, 4, 3)],
        2,
    )
    net.op(
        "MIRROR_PAD",
        [x, net.const(np.array([[0, 0], [2, 1], [1, 3], [0, 0]], np.int32))],
        [made(2, 9, 8, 3)],
        2,
        "MirrorPadOptions",
        mode=1,
    )
    net.op(
        "SPLIT", [ints(1), x], [made(2, 3, 4, 3), made(2, 3, 4, 3)], 2, "SplitOptions", numSplits=2
    )
    net.op(
        "SPLIT_V",
        [x, ints(1, -1), ints(2)],
        [made(2, 6, 1, 3), made(2, 6, 3, 3)],
        2,
        "SplitVOptions",
        numSplits=2,
    )
    net.op("PACK", [x, x], [made(2, 6, 2, 4, 3)], 2, "PackOptions", valuesCount=2, axis=2)
    net.op("REVERSE_V2", [x, ints(2)], [made(2, 6, 4, 3)], 2)
    net.op("GATHER", [x, ints(5, 0, 3)], [made(2, 3, 4, 3)], 2, "GatherOptions", axis=1)
    net.op(
        "ARG_MAX", [x, ints(3)], [made(2, 6, 4, dtype="int32")], 2, "ArgMaxOptions", outputType=2
    )
    net.op("CUMSUM", [x, ints(1)], [made(2, 6, 4, 3)], 1, "CumsumOptions", reverse=True)
    net.op("TILE", [x, ints(1, 2, 1, 3)], [made(2, 12, 4, 9)], 2)
    net.op(
        "L2_POOL_2D",
        [x],
        [made(2, 3, 2, 3)],
        1,
        "Pool2DOptions",
        padding=0,
        strideH=2,
        strideW=2,
        filterHeight=2,
        filterWidth=2,
    )
    for option in ({}, {"halfPixelCenters": True}, {"alignCorners": True}):
        net.op(
            "RESIZE_BILINEAR",
            [x, ints(9, 3)],
            [made(2, 9, 3, 3)],
            3,
            "ResizeBilinearOptions",
            **option,
        )
    for name in ("RSQRT", "SQUARE", "NEG", "FLOOR", "HARD_SWISH", "LOGISTIC", "GELU", "SIN"):
        z = net.input((5, 7), "float32")
        if name == "RSQRT":
            squared = made(5, 7)
            net.op("SQUARE", [z], [squared])
            z = squared
        net.op(name, [z], [made(5, 7)], 1)


def test_layouts_and_functions_of_floats(tmp_path):
    net = Net()
    _floats(net)
    assert len(check_every_tensor(net.data(), tmp_path)) > 25


def test_an_open_batch_is_bound_by_its_name(tmp_path):
    net = Net()
    x = net.input((1, 3), "float32", name="image")
    net.graph.tensors[x].shapeSignature = [-1, 3]
    y = net.tensor((1, 3), "float32")
    net.graph.tensors[y].shapeSignature = [-1, 3]
    net.op("RELU", [x], [y])
    net.graph.outputs.append(y)
    data = net.data()
    feeds = [np.array([[1, -2, 3], [-4, 5, -6]], np.float32)]
    got = ours(data, feeds, tmp_path, shapes={"image": (2, 3)})
    np.testing.assert_array_equal(got[0], np.maximum(feeds[0], 0))
    assert feeds_for(data)[0].shape == (1, 3)


def test_an_open_batch_takes_any_number_of_rows(tmp_path):
    """The file's extent 1 stands for any batch; a declared one is kept."""
    net = Net()
    x = net.input((1, 3), "float32", name="image")
    net.graph.tensors[x].shapeSignature = [-1, 3]
    y = net.tensor((1, 3), "float32")
    net.graph.tensors[y].shapeSignature = [-1, 3]
    net.op("SOFTMAX", [x], [y], 3, "SoftmaxOptions", beta=1.0)
    net.graph.outputs.append(y)
    network = tvmrt.load(net.data(), cache=tmp_path)
    for rows in (20, 1, 3200):
        image = rng.standard_normal((rows, 3)).astype(np.float32)
        right = np.exp(image) / np.exp(image).sum(1, keepdims=True)
        np.testing.assert_allclose(network(image), right, 1e-5)
    assert [each.dims["batch"] for each in network.variants.networks] == [(1, None)]
    declared = tvmrt.load(net.data(), dims={"N": 4}, cache=tmp_path)
    with pytest.raises(ValueError, match="dimension N has 5 elements, expected 1 to 4"):
        declared(np.zeros((5, 3), np.float32))


def test_float_activations_with_integer_weights(tmp_path):
    net = Net()
    x = net.input((3, 20), "float32")
    image = net.input((2, 7, 6, 4), "float32")

    def made(*shape: int) -> int:
        index = net.tensor(shape, "float32")
        net.graph.outputs.append(index)
        return index

    for asymmetric in (False, True):
        w, bias = net.const(random_bytes(rng, 5, 20), scale=0.01), net.const(np.ones(5, np.float32))
        net.op(
            "FULLY_CONNECTED",
            [x, w, bias],
            [made(3, 5)],
            9,
            "FullyConnectedOptions",
            asymmetricQuantizeInputs=asymmetric,
        )
    w = net.const(random_bytes(rng, 5, 3, 3, 4), scale=rng.uniform(0.01, 0.02, 5))
    bias = net.const(np.ones(5, np.float32))
    net.op(
        "CONV_2D",
        [image, w, bias],
        [made(2, 7, 6, 5)],
        5,
        "Conv2DOptions",
        padding=0,
        strideW=1,
        strideH=1,
    )
    w = net.const(random_bytes(rng, 1, 3, 3, 4), scale=rng.uniform(0.01, 0.02, 4), axis=3)
    bias = net.const(np.ones(4, np.float32))
    net.op(
        "DEPTHWISE_CONV_2D",
        [image, w, bias],
        [made(2, 5, 4, 4)],
        6,
        "DepthwiseConv2DOptions",
        padding=1,
        strideW=1,
        strideH=1,
        depthMultiplier=1,
    )
    assert len(check_every_tensor(net.data(), tmp_path)) == 4


def test_quotients_and_lengths_of_integers(tmp_path):
    net = Bytes(rng)
    # for coarser results LiteRT shifts small quotients by more bits than the type has
    for scale in (0.02, 0.013):
        a, b = net.given(300, scale=0.05, zero=3), net.given(300, scale=0.02, zero=-128)
        # division by zero is undefined: keep the divisor above it
        above = net.tensor((300,), "int8", scale=0.02, zero=-128)
        least = net.const(np.array([-127], np.int8), scale=0.02, zero=-128)
        net.op("MAXIMUM", [b, least], [above], 2, "MaximumMinimumOptions")
        net.op("DIV", [a, above], [net.made(300, scale=scale, zero=-7)], 2, "DivOptions")
    x, y = net.given(20, 6, scale=0.05, zero=3), net.made(20, 6, scale=1 / 128, zero=0)
    net.op("L2_NORMALIZATION", [x], [y], 2, "L2NormOptions")
    assert len(check_every_tensor(net.data(), tmp_path)) == 5


def test_more_moves_of_elements(tmp_path):
    net = Net()

    def ints(*numbers) -> int:
        return net.const(np.array(numbers, np.int32))

    x = net.input((3, 4, 5), "float32")
    places = net.const(np.array([[3, 0], [1, 1], [2, 3]], np.int32))
    net.op(
        "GATHER",
        [x, places],
        [net.output((3, 2, 5), "float32")],
        5,
        "GatherOptions",
        axis=1,
        batchDims=1,
    )
    places = net.const(np.array([[4, 0], [1, 1], [2, 3]], np.int32))
    net.op(
        "GATHER",
        [x, places],
        [net.output((3, 4, 2), "float32")],
        5,
        "GatherOptions",
        axis=2,
        batchDims=1,
    )
    net.op(
        "TOPK_V2",
        [x, ints(2)],
        [net.output((3, 4, 2), "float32"), net.output((3, 4, 2), "int32")],
        2,
    )
    index = net.input((2, 3), "int32")
    on, off = (net.const(np.array(v, np.float32)) for v in (2, -1))
    net.op(
        "ONE_HOT",
        [index, ints(5), on, off],
        [net.output((2, 5, 3), "float32")],
        1,
        "OneHotOptions",
        axis=1,
    )
    net.op(
        "REVERSE_SEQUENCE",
        [x, ints(2, 0, 4)],
        [net.output((3, 4, 5), "float32")],
        1,
        "ReverseSequenceOptions",
        seqDim=1,
        batchDim=0,
    )
    starts, part = net.input((3,), "int32"), net.input((2, 1, 3), "float32")
    net.op("DYNAMIC_UPDATE_SLICE", [x, part, starts], [net.output((3, 4, 5), "float32")], 1)
    targets = net.const(np.array([[3], [1]], np.int32))
    rows = net.input((2, 4), "float32")
    net.op("SCATTER_ND", [targets, rows, ints(5, 4)], [net.output((5, 4), "float32")], 1)
    net.op("L2_NORMALIZATION", [x], [net.output((3, 4, 5), "float32")], 1, "L2NormOptions")
    volume = net.input((1, 4, 5, 6, 2), "float32")
    w = net.const(rng.standard_normal((3, 2, 2, 2, 3)).astype(np.float32))
    net.op(
        "CONV_3D",
        [volume, w],
        [net.output((1, 2, 5, 3, 3), "float32")],
        1,
        "Conv3DOptions",
        padding=0,
        strideD=2,
        strideH=1,
        strideW=2,
    )
    assert len(check_every_tensor(net.data(), tmp_path)) == 10


def test_multiplication_by_a_constant_with_a_zero_point(tmp_path):
    """Quotients have ten bits, nine with the zero point: GCC 12 computed the shift in int16
    vectors, in which the product overflows."""
    net, every = Net(), np.arange(-128, 128, dtype=np.int8)
    for zero in range(32, 104, 8):
        for weight in (150, 165, 255):
            x = net.input((4, 256), "int8", scale=0.1, zero=127)
            w = net.const(np.full((1, 1), weight - 128, np.int8), 0.1, -128)
            scale = 0.01 * 255 * weight / 281  # the smallest result is -281 and the zero point
            y = net.tensor((4, 256), "int8", scale=scale, zero=zero)
            net.op("MUL", [x, w], [y], options="MulOptions")
            net.graph.outputs.append(y)
    data = net.data()
    feeds = [np.tile(every, (4, 1))] * len(net.graph.inputs)
    got = ours(data, feeds, tmp_path, tflite_rounding="reference")
    assert_like(got, litert_runs(data, [feeds])[0])
