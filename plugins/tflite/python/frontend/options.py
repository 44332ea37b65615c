"""Builtin operators of the format by number, and the options of each.

An option is NAME:KIND or NAME:KIND=DEFAULT, in the order of the table's fields. Kinds are formats
of the struct module, with ``*`` before it for a vector, or ``s`` for a string; ``_`` is unused.
"""

from __future__ import annotations

from typing import Any

from tvmrt.plugins.tflite.frontend.flatbuffer import Table

BUILTIN = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE
EMBEDDING_LOOKUP FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D
LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6
RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM
EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND
TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN
EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX
MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV
SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT
REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV
REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU
SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU
REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE
NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL
PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE
READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM
MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX
UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT
STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM
STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM
STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS
STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM
STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT
STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT
STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA
STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER
STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE
STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE
""".split()
CUSTOM = BUILTIN.index("CUSTOM")

# Operators, then the options of each; a line that begins with a space continues the one before.
_TABLE = """
CONV_2D | padding:b stride_w:i stride_h:i act:b dilation_w:i=1 dilation_h:i=1 bias_type:b
DEPTHWISE_CONV_2D | padding:b stride_w:i stride_h:i multiplier:i act:b dilation_w:i=1
    dilation_h:i=1
TRANSPOSE_CONV | padding:b stride_w:i stride_h:i act:b bias_type:b
CONV_3D CONV_3D_TRANSPOSE | padding:b stride_d:i stride_w:i stride_h:i act:b dilation_d:i=1
    dilation_w:i=1 dilation_h:i=1
BUCKETIZE | boundaries:*f
AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D | padding:b stride_w:i stride_h:i filter_w:i filter_h:i
    act:b
FULLY_CONNECTED | act:b weights_format:b keep_num_dims:? asymmetric:? bias_type:b
BATCH_MATMUL | adj_x:? adj_y:? asymmetric:?
SOFTMAX | beta:f
CONCATENATION | axis:i act:b
ADD SUB | act:b pot_scale_int16:?=1
MUL DIV L2_NORMALIZATION | act:b
LOCAL_RESPONSE_NORMALIZATION | radius:i bias:f alpha:f beta:f
RESIZE_BILINEAR | _:i _:i align_corners:? half_pixel_centers:?
RESIZE_NEAREST_NEIGHBOR | align_corners:? half_pixel_centers:?
RESHAPE | new_shape:*i
SPACE_TO_DEPTH DEPTH_TO_SPACE | block_size:i
GATHER | axis:i batch_dims:i
MEAN SUM REDUCE_MAX REDUCE_MIN REDUCE_PROD REDUCE_ANY REDUCE_ALL | keep_dims:?
SQUEEZE | squeeze_dims:*i
STRIDED_SLICE | begin_mask:i end_mask:i ellipsis_mask:i new_axis_mask:i shrink_axis_mask:i
    offset:?
SPLIT SPLIT_V | num_splits:i
CAST | in_type:b out_type:b
ARG_MAX ARG_MIN | output_type:b
SHAPE | out_type:b
FAKE_QUANT | min:f max:f num_bits:i narrow_range:?
PACK | values_count:i axis:i
UNPACK | num:i axis:i
ONE_HOT | axis:i
LEAKY_RELU | alpha:f
MIRROR_PAD | mode:b
REVERSE_SEQUENCE | seq_dim:i batch_dim:i
CUMSUM | exclusive:? reverse:?
GELU | approximate:?
IF | then:i otherwise:i
WHILE | condition:i body:i
CALL_ONCE | init:i
CALL | subgraph:I
VAR_HANDLE | container:s shared_name:s
UNIDIRECTIONAL_SEQUENCE_LSTM | act:b cell_clip:f proj_clip:f time_major:? asymmetric:? diagonal:?
BIDIRECTIONAL_SEQUENCE_LSTM | act:b cell_clip:f proj_clip:f merge_outputs:? time_major:?=1
    asymmetric:?
LSTM | act:b cell_clip:f proj_clip:f kernel_type:b asymmetric:?
RNN | act:b asymmetric:?
UNIDIRECTIONAL_SEQUENCE_RNN | time_major:? act:b asymmetric:?
BIDIRECTIONAL_SEQUENCE_RNN | time_major:? act:b merge_outputs:? asymmetric:?
SPARSE_TO_DENSE | validate_indices:?
UNIQUE | index_type:b=2
SVDF | rank:i act:b asymmetric:?
STABLEHLO_COMPOSITE | name:s decomposition:i
"""


def _options() -> dict[str, str]:
    rows = [row.split("|") for row in _TABLE.replace("\n ", " ").strip().splitlines()]
    return {operator: options for names, options in rows for operator in names.split()}


OPTIONS = _options()


def read_options(operator: str, table: Table | None) -> dict[str, Any]:
    """Return an operator's options by name; absent ones have their defaults."""
    result: dict[str, Any] = {}
    for field, text in enumerate(OPTIONS.get(operator, "").split()):
        name, _, rest = text.partition(":")
        kind, _, default = rest.partition("=")
        if kind == "s":
            result[name] = "" if table is None else table.text(field)
        elif kind.startswith("*"):
            numbers = None if table is None else table.numbers(field, kind[1:])
            result[name] = None if numbers is None else numbers.tolist()
        else:
            absent = int(default or 0)
            result[name] = absent if table is None else table.number(field, kind, absent)
    result.pop("_", None)
    return result
