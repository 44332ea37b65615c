"""Make a small ``.tflite`` network of each operator, with an operand of each element type."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tflite_case import Net

# Element types by the names used in the tests: an integer that represents a real value with a
# scale is "quantised".
PLAIN = ("float32", "int8", "uint8", "int16", "int32", "int64", "bool")
QUANTIZED = ("quantised int8", "quantised uint8", "quantised int16")
TYPES = (*PLAIN, *QUANTIZED)
# (scale, zero point) of the results that the format fixes.
FIXED_RESULTS = {
    "LOGISTIC": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)},
    "SOFTMAX": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)},
    "TANH": {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)},
    "L2_NORMALIZATION": {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)},
    "LOG_SOFTMAX": {"int8": (1 / 16, 127), "uint8": (1 / 16, 255)},
}


class TypedNet(Net):
    """Network of one operator whose operands have one element type."""

    def __init__(self, operator: str, kind: str) -> None:
        super().__init__()
        self.operator = operator
        self.kind = kind
        self.dtype = kind.rpartition(" ")[2]
        self.is_quantized = kind in QUANTIZED
        self.wide = self.dtype == "int16"

    def scaled(self, scale: float = 0.031, zero: int = 3) -> dict:
        """Return the quantisation arguments of a tensor, if the type has one."""
        if not self.is_quantized:
            return {}
        if self.wide:
            return {"scale": scale / 256, "zero": 0}
        return {"scale": scale, "zero": zero + (128 if self.dtype == "uint8" else 0)}

    def bias_scale(self) -> dict:
        """Return the bias scale of a matmul with weights of scale 0.017."""
        return {"scale": self.scaled()["scale"] * 0.017} if self.is_quantized else {}

    def given(self, *shape: int, **quantization) -> int:
        return self.input(shape, self.dtype, **(quantization or self.scaled()))

    def made(self, *shape: int, dtype: str = "", **quantization) -> int:
        if not dtype or dtype == self.dtype:
            fixed = FIXED_RESULTS.get(self.operator, {}).get(self.dtype)
            if fixed and self.is_quantized:
                quantization = {"scale": fixed[0], "zero": fixed[1]}
            quantization = quantization or self.scaled(0.043, -4)
        return self.output(shape, dtype or self.dtype, **quantization)

    def known(self, *shape: int, **quantization) -> int:
        """Return a constant of the type with small values above its zero point."""
        quantization = quantization or self.scaled()
        start = quantization.get("zero", 0)
        values = start + 1 + np.arange(int(np.prod(shape))).reshape(shape) % 5
        return self.const(np.asarray(values, self.dtype), **quantization)

    def ints(self, *numbers) -> int:
        return self.const(np.array(numbers, np.int32))

    def do(self, inputs, outputs, options: str = "", version: int = 1, **fields) -> None:
        self.op(self.operator, inputs, outputs, version, options, **fields)


def _one(shape=(3, 8), options: str = "", same: bool = False, **fields) -> Callable:
    """Make an operator of one operand that keeps its shape and, with ``same``, its quantisation."""

    def build(net: TypedNet) -> None:
        result = net.made(*shape, **(net.scaled() if same else {}))
        net.do([net.given(*shape)], [result], options, **fields)

    return build


def _two(options: str = "", dtype: str = "", same: bool = False, **fields) -> Callable:
    """Make an elementwise operator of two operands, with one quantisation if ``same``."""

    def build(net: TypedNet) -> None:
        second = net.scaled() if same else net.scaled(0.027, -7)
        result = net.made(3, 8, dtype=dtype, **(net.scaled() if same and not dtype else {}))
        net.do([net.given(3, 8), net.given(3, 8, **second)], [result], options, **fields)

    return build


def _moved(shape, result, *ints, options: str = "", dtype: str = "", **fields) -> Callable:
    """Make an operator that moves elements; its further operands are constant integers."""

    def build(net: TypedNet) -> None:
        operands = [net.const(np.array(each, np.int32)) for each in ints]
        made = net.made(*result, dtype=dtype, **({} if dtype else net.scaled()))
        net.do([net.given(*shape), *operands], [made], options, **fields)

    return build


def _pool(net: TypedNet) -> None:
    fields = {"strideW": 2, "strideH": 2, "filterWidth": 2, "filterHeight": 2}
    result = net.made(1, 2, 2, 3, **net.scaled())
    net.do([net.given(1, 4, 4, 3)], [result], "Pool2DOptions", **fields)


def _fold(options: str = "ReducerOptions", same: bool = False, dtype: str = "") -> Callable:
    def build(net: TypedNet) -> None:
        result = net.made(3, dtype=dtype, **(net.scaled() if same else {}))
        fields = {"keepDims": False} if options else {}
        net.do([net.given(3, 8), net.ints(1)], [result], options, **fields)

    return build


def _divided(net: TypedNet, options: str) -> None:
    """Divide by constants above zero."""
    net.do([net.given(3, 8), net.known(3, 8)], [net.made(3, 8)], options)


def _weights(net: TypedNet, *shape: int, axis: int = 0) -> int:
    values = np.arange(int(np.prod(shape))).reshape(shape) % 7 - 3
    if net.dtype == "float32" or not net.is_quantized:
        return net.const(values.astype(net.dtype))
    if net.dtype == "uint8":
        return net.const((values + 128).astype(np.uint8), scale=0.017, zero=128)
    return net.const(values.astype(np.int8), scale=0.017, axis=axis)


def _convolution(net: TypedNet) -> None:
    depth = net.operator == "DEPTHWISE_CONV_2D"
    w = _weights(net, *((1, 2, 2, 3) if depth else (2, 2, 2, 3)), axis=3 if depth else 0)
    options = "DepthwiseConv2DOptions" if depth else "Conv2DOptions"
    fields = {"strideW": 1, "strideH": 1, "padding": 1, **({"depthMultiplier": 1} if depth else {})}
    result = net.made(1, 3, 3, 3 if depth else 2)
    bias = {"int16": np.int64, "float32": np.float32}.get(net.dtype, np.int32)
    b = net.const(np.zeros(3 if depth else 2, bias), **net.bias_scale())
    net.do([net.given(1, 4, 4, 3), w, b], [result], options, 3, **fields)


def _transposed_convolution(net: TypedNet) -> None:
    w = _weights(net, 2, 2, 2, 3)
    result = net.made(1, 5, 5, 2)
    fields = {"strideW": 1, "strideH": 1, "padding": 1}
    net.do([net.ints(1, 5, 5, 2), w, net.given(1, 4, 4, 3)], [result], "TransposeConvOptions", 3,
           **fields)  # fmt: skip


def _volumes(net: TypedNet) -> None:
    fields = {"strideD": 1, "strideW": 1, "strideH": 1, "padding": 1}
    if net.operator == "CONV_3D":
        operands = [net.given(1, 3, 3, 3, 2), _weights(net, 2, 2, 2, 2, 3)]
        net.do(operands, [net.made(1, 2, 2, 2, 3)], "Conv3DOptions", **fields)
    else:
        operands = [net.ints(1, 4, 4, 4, 3), _weights(net, 2, 2, 2, 3, 2), net.given(1, 3, 3, 3, 2)]
        net.do(operands, [net.made(1, 4, 4, 4, 3)], "Conv3DOptions", **fields)


def _dense(net: TypedNet) -> None:
    bias = {"int16": np.int64, "float32": np.float32}.get(net.dtype, np.int32)
    b = net.const(np.zeros(4, bias), **net.bias_scale())
    net.do([net.given(3, 8), _weights(net, 4, 8), b], [net.made(3, 4)], "FullyConnectedOptions", 4)


def _matrices(net: TypedNet) -> None:
    net.do([net.given(3, 8), net.given(8, 4)], [net.made(3, 4)], "BatchMatMulOptions", 3)


def _joined(net: TypedNet) -> None:
    same = net.scaled()
    result = net.made(6, 8, **same)
    net.do([net.given(3, 8), net.given(3, 8)], [result], "ConcatenationOptions", axis=0)


def _packed(net: TypedNet) -> None:
    result = net.made(3, 2, 8, **net.scaled())
    net.do([net.given(3, 8), net.given(3, 8)], [result], "PackOptions", axis=1, valuesCount=2)


def _unpacked(net: TypedNet) -> None:
    results = [net.made(8, **net.scaled()) for _ in range(3)]
    net.do([net.given(3, 8)], results, "UnpackOptions", num=3, axis=0)


def _split(net: TypedNet) -> None:
    results = [net.made(3, 4, **net.scaled()) for _ in range(2)]
    net.do([net.ints(1), net.given(3, 8)], results, "SplitOptions", numSplits=2)


def _split_unevenly(net: TypedNet) -> None:
    results = [net.made(3, n, **net.scaled()) for n in (3, 5)]
    operands = [net.given(3, 8), net.ints(3, 5), net.const(np.array(1, np.int32))]
    net.do(operands, results, "SplitVOptions", numSplits=2)


def _padded_with(net: TypedNet) -> None:
    value = net.known(1)
    pads = net.const(np.array([[1, 0], [0, 2]], np.int32))
    net.do([net.given(3, 8), pads, value], [net.made(4, 10, **net.scaled())])


def _chosen(net: TypedNet) -> None:
    condition, same = net.input((3, 8), "bool"), net.scaled()
    options = "SelectV2Options" if net.operator == "SELECT_V2" else "SelectOptions"
    net.do([condition, net.given(3, 8), net.given(3, 8)], [net.made(3, 8, **same)], options)


def _filled(net: TypedNet) -> None:
    net.do([net.ints(3, 4), net.given()], [net.made(3, 4, **net.scaled())])


def _largest(net: TypedNet) -> None:
    results = [net.made(3, 2, **net.scaled()), net.made(3, 2, dtype="int32")]
    k = net.const(np.array(2, np.int32))
    net.do([net.given(3, 8), k], results)


def _hot(net: TypedNet) -> None:
    places, depth = net.input((3,), "int32"), net.const(np.array(5, np.int32))
    on, off = net.known(), net.known()
    net.do([places, depth, on, off], [net.made(3, 5, **net.scaled())], "OneHotOptions", axis=-1)


def _scattered(net: TypedNet) -> None:
    places = net.const(np.array([[3], [1]], np.int32))
    net.do([places, net.given(2, 4), net.ints(5, 4)], [net.made(5, 4, **net.scaled())])


def _dense_of_sparse(net: TypedNet) -> None:
    operands = [net.ints(1, 3), net.ints(6), net.given(2), net.known()]
    net.do(operands, [net.made(6, **net.scaled())])


def _updated(net: TypedNet) -> None:
    operands = [net.given(3, 8), net.given(2, 2), net.input((2,), "int32")]
    net.do(operands, [net.made(3, 8, **net.scaled())])


def _embedded(net: TypedNet) -> None:
    net.do([net.ints(2, 0), net.known(3, 4)], [net.made(2, 4, **net.scaled())])


def _unique(net: TypedNet) -> None:
    results = [net.made(8, **net.scaled()), net.made(8, dtype="int32")]
    net.graph.tensors[results[0]].shapeSignature = [-1]
    net.do([net.given(8)], results, "UniqueOptions", idxOutType=2)


def _found(net: TypedNet) -> None:
    result = net.made(24, 2, dtype="int64")
    net.graph.tensors[result].shapeSignature = [-1, 2]
    net.do([net.given(3, 8)], [result])


def _diagonal(net: TypedNet) -> None:
    operands = [net.given(4)] if net.operator == "MATRIX_DIAG" else [net.given(4, 4), net.given(4)]
    net.do(operands, [net.made(4, 4, **net.scaled())])


def _segments(net: TypedNet) -> None:
    operands = [net.given(3, 8), net.ints(0, 0, 1)]
    operands += [net.const(np.array(2, np.int32))] if "UNSORTED" in net.operator else []
    net.do(operands, [net.made(2, 8, **net.scaled())])


def _resized(options: str) -> Callable:
    def build(net: TypedNet) -> None:
        operands = [net.given(1, 3, 4, 2), net.ints(5, 6)]
        net.do(operands, [net.made(1, 5, 6, 2, **net.scaled())], options, 3)

    return build


def _to_integers(net: TypedNet) -> None:
    if net.dtype == "float32":
        result = net.output((3, 8), "int8", scale=0.013, zero=-4)
    else:
        result = net.made(3, 8)
    net.do([net.given(3, 8)], [result])


def _to_floats(net: TypedNet) -> None:
    net.do([net.given(3, 8)], [net.made(3, 8, dtype="float32")])


def _buckets(net: TypedNet) -> None:
    result = net.made(3, 8, dtype="int32")
    net.do([net.given(3, 8)], [result], "BucketizeOptions", boundaries=[-1.0, 0.5, 2.0])


def _slopes(net: TypedNet) -> None:
    slopes = net.known(8)
    if net.wide:  # as converters write it; LiteRT's kernel reads slopes of int16 as bytes
        slopes = net.const((np.arange(8) % 5 + 1).astype(np.int8), scale=0.017, zero=0)
    net.do([net.given(3, 8), slopes], [net.made(3, 8)])


def _powers(net: TypedNet) -> None:
    net.do([net.given(3, 8), net.known(3, 8)], [net.made(3, 8)], "PowOptions")


def _shifted(net: TypedNet) -> None:
    net.do([net.given(3, 8), net.known(3, 8)], [net.made(3, 8)], "RightShiftOptions")


def _many(net: TypedNet) -> None:
    net.do([net.given(3, 8)] * 3, [net.made(3, 8, **net.scaled())], "AddNOptions")


def _cast(net: TypedNet) -> None:
    net.do([net.given(3, 8)], [net.made(3, 8, dtype="int32")], "CastOptions")


def _shape_of(net: TypedNet) -> None:
    if net.operator == "SHAPE":
        net.do([net.given(3, 8)], [net.made(2, dtype="int32")], "ShapeOptions", outType=2)
    else:
        net.do([net.given(3, 8)], [net.made(dtype="int32")])


def _argument(net: TypedNet) -> None:
    options = "ArgMaxOptions" if net.operator == "ARG_MAX" else "ArgMinOptions"
    operands = [net.given(3, 8), net.const(np.array(1, np.int32))]
    net.do(operands, [net.made(3, dtype="int32")], options, outputType=2)


def _running(net: TypedNet) -> None:
    operands = [net.given(3, 8), net.const(np.array(1, np.int32))]
    net.do(operands, [net.made(3, 8)], "CumsumOptions")


PADS = [[1, 0], [0, 2]]
NETS: dict[str, Callable[[TypedNet], None]] = {
    **dict.fromkeys(
        """ABS CEIL FLOOR ROUND COS SIN EXP SQRT LOGISTIC TANH SIGN LOG RSQRT SQUARE ELU RELU
        HARD_SWISH RELU6 RELU_N1_TO_1 RELU_0_TO_1 ZEROS_LIKE LOGICAL_NOT LOG_SOFTMAX""".split(),
        _one(),
    ),
    "NEG": _one(same=True),
    "GELU": _one(options="GeluOptions"),
    "LEAKY_RELU": _one(options="LeakyReluOptions", alpha=0.3),
    "SOFTMAX": _one(options="SoftmaxOptions", beta=1.0),
    "L2_NORMALIZATION": _one(options="L2NormOptions"),
    "LOCAL_RESPONSE_NORMALIZATION": _one(
        (1, 2, 2, 6), "LocalResponseNormalizationOptions", radius=2, bias=1.0, alpha=0.5, beta=0.5
    ),
    "ADD": _two("AddOptions", potScaleInt16=False),
    "SUB": _two("SubOptions", potScaleInt16=False),
    "MUL": _two("MulOptions"),
    "DIV": lambda net: _divided(net, "DivOptions"),
    "FLOOR_DIV": lambda net: _divided(net, "FloorDivOptions"),
    "FLOOR_MOD": lambda net: _divided(net, "FloorModOptions"),
    "SQUARED_DIFFERENCE": _two("SquaredDifferenceOptions"),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), _two("MaximumMinimumOptions", same=True)),
    "POW": _powers,
    "RIGHT_SHIFT": _shifted,
    "BITWISE_XOR": _two("BitwiseXorOptions"),
    "ATAN2": _two(),
    "ADD_N": _many,
    "PRELU": _slopes,
    **dict.fromkeys(("LOGICAL_AND", "LOGICAL_OR"), _two()),
    **dict.fromkeys("EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL".split(),
                    _two(dtype="bool")),
    **dict.fromkeys(("SELECT", "SELECT_V2"), _chosen),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), _pool),
    **dict.fromkeys("MEAN SUM REDUCE_PROD REDUCE_ANY REDUCE_ALL".split(), _fold()),
    **dict.fromkeys(("REDUCE_MAX", "REDUCE_MIN"), _fold(same=True)),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), _argument),
    "CUMSUM": _running,
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), _convolution),
    "TRANSPOSE_CONV": _transposed_convolution,
    **dict.fromkeys(("CONV_3D", "CONV_3D_TRANSPOSE"), _volumes),
    "FULLY_CONNECTED": _dense,
    "BATCH_MATMUL": _matrices,
    "EMBEDDING_LOOKUP": _embedded,
    "CONCATENATION": _joined,
    "PACK": _packed,
    "UNPACK": _unpacked,
    "SPLIT": _split,
    "SPLIT_V": _split_unevenly,
    "TRANSPOSE": _moved((3, 8), (8, 3), [1, 0]),
    "REVERSE_V2": _moved((3, 8), (3, 8), [1]),
    "SLICE": _moved((3, 8), (2, 5), [1, 2], [2, 5]),
    "STRIDED_SLICE": _moved((3, 8), (2, 3), [0, 1], [3, 7], [2, 2], options="StridedSliceOptions"),
    "GATHER": _moved((3, 8), (2, 8), [2, 0], options="GatherOptions"),
    "GATHER_ND": _moved((3, 8), (2,), [[2, 1], [0, 7]]),
    "PAD": _moved((3, 8), (4, 10), PADS),
    "PADV2": _padded_with,
    "MIRROR_PAD": _moved((3, 8), (4, 10), PADS, options="MirrorPadOptions"),
    "SPACE_TO_BATCH_ND": _moved((1, 4, 4, 3), (4, 2, 2, 3), [2, 2], [[0, 0], [0, 0]]),
    "BATCH_TO_SPACE_ND": _moved((4, 2, 2, 3), (1, 4, 4, 3), [2, 2], [[0, 0], [0, 0]]),
    "SPACE_TO_DEPTH": _moved((1, 4, 4, 3), (1, 2, 2, 12), options="SpaceToDepthOptions",
                             blockSize=2),
    "DEPTH_TO_SPACE": _moved((1, 2, 2, 12), (1, 4, 4, 3), options="DepthToSpaceOptions",
                             blockSize=2),
    "RESIZE_BILINEAR": _resized("ResizeBilinearOptions"),
    "RESIZE_NEAREST_NEIGHBOR": _resized("ResizeNearestNeighborOptions"),
    "TILE": _moved((3, 8), (6, 8), [2, 1]),
    "RESHAPE": _moved((3, 8), (4, 6), [4, 6]),
    "SQUEEZE": _moved((3, 1, 8), (3, 8)),
    "EXPAND_DIMS": _moved((3, 8), (3, 1, 8), 1),
    "BROADCAST_TO": _moved((3, 1), (3, 4), [3, 4], version=2),
    "REVERSE_SEQUENCE": _moved((3, 8), (3, 8), [2, 5, 8], options="ReverseSequenceOptions",
                               seqDim=1, batchDim=0),
    **dict.fromkeys(("SHAPE", "RANK"), _shape_of),
    "FILL": _filled,
    "TOPK_V2": _largest,
    "ONE_HOT": _hot,
    "SCATTER_ND": _scattered,
    "SPARSE_TO_DENSE": _dense_of_sparse,
    "DYNAMIC_UPDATE_SLICE": _updated,
    "UNIQUE": _unique,
    "WHERE": _found,
    **dict.fromkeys(("MATRIX_DIAG", "MATRIX_SET_DIAG"), _diagonal),
    **dict.fromkeys(
        "SEGMENT_SUM UNSORTED_SEGMENT_SUM UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX "
        "UNSORTED_SEGMENT_MIN".split(), _segments,
    ),
    "QUANTIZE": _to_integers,
    "DEQUANTIZE": _to_floats,
    "BUCKETIZE": _buckets,
    "CAST": _cast,
}  # fmt: skip


def typed_net(operator: str, kind: str) -> bytes:
    """Return the file of an operator in an element type, one of TYPES."""
    net = TypedNet(operator, kind)
    NETS[operator](net)
    return net.data()


def typed_nets(operators: list[str], kind: str) -> bytes:
    """Return the file of several operators in parallel; each has its own inputs and outputs."""
    net = TypedNet("", kind)
    for net.operator in operators:
        NETS[net.operator](net)
    return net.data()
