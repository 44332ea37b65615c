"""Supported element types per operator. Every operator is checked against this table before it is
imported, so an importer never sees a type that it does not support.

"quantised int8" and the like are integers with a scale; without "quantised" the values are used
directly. Some files have int32 tensors with a scale, which only DEQUANTIZE uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.blockwise_quantization import check_blockwise
from tvmrt.plugins.tflite.frontend.context import INT8_TYPES, QUANTIZED

if TYPE_CHECKING:
    from tvmrt.plugins.tflite.frontend.context import OpContext
    from tvmrt.plugins.tflite.frontend.model_file import Tensor

_BYTES = tuple(f"quantised {dtype}" for dtype in INT8_TYPES)
_QUANTIZED = tuple(f"quantised {dtype}" for dtype in QUANTIZED)
_NARROW = ("int2", "int4", "uint4")
_WITH_SCALES = (*QUANTIZED, *_NARROW)
_WIDE = ("int32", "int64")
_PLAIN = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")

# Types of operand 0, or of the operands listed in OPERANDS.
TYPES: dict[str, tuple[str, ...]] = {
    name: types
    for names, types in (
        ("CEIL FLOOR ROUND COS SIN SQUARE L2_POOL_2D CONV_3D CONV_3D_TRANSPOSE RFFT2D "
         "LOCAL_RESPONSE_NORMALIZATION LSTM BIDIRECTIONAL_SEQUENCE_LSTM RNN "
         "UNIDIRECTIONAL_SEQUENCE_RNN BIDIRECTIONAL_SEQUENCE_RNN NON_MAX_SUPPRESSION_V4 "
         "NON_MAX_SUPPRESSION_V5", ("float32",)),
        ("UNIDIRECTIONAL_SEQUENCE_LSTM SVDF", ("float32", "quantised int8")),
        ("ELU HARD_SWISH L2_NORMALIZATION LOG_SOFTMAX SQRT", ("float32", *_BYTES)),
        ("EXP LOG RSQRT LOGISTIC TANH SOFTMAX GELU LEAKY_RELU PRELU RELU RELU6 RELU_N1_TO_1 "
         "RELU_0_TO_1 CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV FULLY_CONNECTED BATCH_MATMUL "
         "RESIZE_BILINEAR", ("float32", *_QUANTIZED)),
        ("AVERAGE_POOL_2D MAX_POOL_2D", ("float32", "int8", "uint8", "int16", *_QUANTIZED)),
        ("ABS ADD SUB MUL", ("float32", "int16", *_WIDE, *_QUANTIZED)),
        ("DIV SQUARED_DIFFERENCE MEAN", ("float32", *_WIDE, *_QUANTIZED)),
        ("SUM", ("float32", *_WIDE, "bool", *_QUANTIZED)),
        ("NEG", ("float32", "int8", "int16", *_WIDE, "quantised int8", "quantised int16")),
        ("SIGN", ("float32", "float64", "int32")),
        ("POW ADD_N CUMSUM SEGMENT_SUM UNSORTED_SEGMENT_SUM UNSORTED_SEGMENT_PROD "
         "UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN ZEROS_LIKE", ("float32", *_WIDE)),
        ("BUCKETIZE", ("float32", "float64", *_WIDE)),
        ("ATAN2", ("float32", "float64")),
        ("FLOOR_DIV FLOOR_MOD", ("float32", "int8", "int16", *_WIDE)),
        ("MAXIMUM MINIMUM", ("float32", *_PLAIN, *_QUANTIZED)),
        ("LESS LESS_EQUAL GREATER GREATER_EQUAL", ("float32", "int16", *_WIDE, *_QUANTIZED)),
        ("EQUAL NOT_EQUAL", ("float32", "int16", *_WIDE, "bool", *_QUANTIZED)),
        ("BITWISE_XOR", (*_PLAIN, "bool", *_QUANTIZED)),
        ("RIGHT_SHIFT", (*_PLAIN, *_QUANTIZED)),
        ("LOGICAL_AND LOGICAL_OR LOGICAL_NOT REDUCE_ANY REDUCE_ALL", ("bool",)),
        ("REDUCE_PROD", ("float32", *_PLAIN, "bool", "quantised int8", "quantised int16")),
        ("REDUCE_MAX REDUCE_MIN ARG_MAX ARG_MIN", ("float32", *_PLAIN, "bool", *_QUANTIZED)),
        ("TOPK_V2", ("float32", *_PLAIN, *_QUANTIZED)),
        ("SCATTER_ND", ("float32", *_PLAIN, *_QUANTIZED)),
        ("QUANTIZE", ("float32", *_QUANTIZED)),
        ("DEQUANTIZE", ("float16", "bfloat16", *(f"quantised {dtype}" for dtype in _NARROW),
                        *_QUANTIZED, "quantised int32")),
    )
    for name in names.split()
}  # fmt: skip

# Operands that the type check applies to, where it is not operand 0 only.
_PAIRS = """ADD SUB MUL DIV SQUARED_DIFFERENCE POW ATAN2 FLOOR_DIV FLOOR_MOD MAXIMUM MINIMUM LESS
    LESS_EQUAL GREATER GREATER_EQUAL EQUAL NOT_EQUAL BITWISE_XOR RIGHT_SHIFT LOGICAL_AND LOGICAL_OR
    """.split()
OPERANDS = {
    "TRANSPOSE_CONV": (2,), "CONV_3D_TRANSPOSE": (2,), "SCATTER_ND": (1,),
    **dict.fromkeys(_PAIRS, (0, 1)),
}  # fmt: skip


def type_name(tensor: Tensor, types: tuple[str, ...]) -> str:
    """Return a tensor's element type as spelled in TYPES, for an operator with these types."""
    quantised = f"quantised {tensor.dtype}"
    known = tensor.dtype in _WITH_SCALES or quantised in types
    return quantised if known and tensor.quantization is not None else tensor.dtype


def check_types(ctx: OpContext) -> None:
    """Raise UnsupportedError if the operator does not support an operand's type."""
    check_blockwise(ctx)
    name = ctx.op.name
    types = TYPES.get(name)
    if types is None:
        return
    tensors = [ctx.tensor(i) for i in OPERANDS.get(name, (0,))]
    for tensor in tensors:
        kind = type_name(tensor, types)
        if kind not in types and tensor.dtype != "complex64":
            bare = " without a scale" if f"quantised {kind}" in types else ""
            raise UnsupportedError(
                f"tensor {tensor.name} has elements of {kind}{bare}; {name} is compiled for "
                f"{_join_names(types)}; {_remedy(kind, types)}"
            )
    if len({tensor.dtype for tensor in tensors}) > 1:
        a, b = tensors
        raise UnsupportedError(
            f"tensor {a.name} has elements of {a.dtype} and tensor {b.name} of {b.dtype}; {name} "
            "needs two tensors of the same type"
        )


def _remedy(kind: str, types: tuple[str, ...]) -> str:
    """Return the advice for an operand of an unsupported type."""
    if kind.startswith("quantised"):
        others = [each for each in types if each == "float32" or each.startswith("quantised")]
        if others:
            names = " or ".join(each.rpartition(" ")[2] for each in others[:2])
            return f"leave this operator in {names} when quantising the network"
    if f"quantised {kind}" in types:
        return "convert the network again with a scale for this tensor"
    return f"cast the tensor to {types[0]} before it"


def _join_names(types: tuple[str, ...]) -> str:
    return " and ".join(filter(None, [", ".join(types[:-1]), types[-1]]))
