"""Kinds of operators: few enough to distinguish by colours."""

from __future__ import annotations

from tvmrt.compiler.ir import POINTWISE, REDUCE, VIEW, get_op

CONVOLUTION, PRODUCT, ELEMENTWISE = "convolution", "product", "elementwise"
MOVEMENT, REDUCTION, POOLING = "movement", "reduction", "pooling"
NORMALISATION, RECURRENT, QUANTISATION = "normalisation", "recurrent", "quantisation"
DEVICE, OTHER = "device", "other"

_BY_KIND = {POINTWISE: ELEMENTWISE, REDUCE: REDUCTION, VIEW: MOVEMENT}
_BY_NAME = {
    CONVOLUTION: "conv conv_transpose qconv deform_columns",
    PRODUCT: "matmul matmul_blocks qmatmul qmatmul_computed",
    POOLING: "max_pool avg_pool lp_pool max_pool_index max_unpool qmax_pool qavg_pool "
    "qavg_pool_zero_first roi_align max_roi_pool",
    RECURRENT: "lstm gru rnn loop",
    NORMALISATION: "softmax layer_norm group_norm lrn",
    ELEMENTWISE: "qadd qmul table",
    REDUCTION: "argmax argmin topk count_nonzero cumulative_sum cumulative_product",
    QUANTISATION: "quantize dequantize",
    MOVEMENT: "identity cast concat pad gather gather_elements gather_nd scatter_elements "
    "scatter_nd tensor_scatter pick take_at reverse_sequence iota resample",
    DEVICE: "region",
}
_KINDS = {name: kind for kind, names in _BY_NAME.items() for name in names.split()}


def kind_of(op: str) -> str:
    """Return the kind of an operator of the compiler's graph by name."""
    return _KINDS.get(op) or _BY_KIND.get(get_op(op).kind, OTHER)
