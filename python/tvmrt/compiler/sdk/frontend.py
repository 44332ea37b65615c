"""For importers: the current node, and functions that emit operators."""

from tvmrt.compiler.frontend.context import OperatorContext
from tvmrt.compiler.frontend.dims import Dims, parse_dim, unused_name
from tvmrt.compiler.frontend.onnx.activation import (
    ACTIVATIONS,
    emit_gelu,
    emit_swish,
    softmax_along,
)
from tvmrt.compiler.frontend.onnx.attention import (
    AttentionHeads,
    append_past,
    join_heads,
    key_distances,
    mask_to_bias,
    rotate_features,
    rotate_heads,
    split_heads,
)
from tvmrt.compiler.frontend.onnx.conditionals import combine_guards, select_under_guard
from tvmrt.compiler.frontend.onnx.context import NodeContext
from tvmrt.compiler.frontend.onnx.convolution import convolution, convolution_window
from tvmrt.compiler.frontend.onnx.dropout import draw, uniform
from tvmrt.compiler.frontend.onnx.elementwise import element_type
from tvmrt.compiler.frontend.onnx.indexing import (
    checked_indices,
    gather_nd,
    gather_rows,
    unique_slices,
)
from tvmrt.compiler.frontend.onnx.inputs import name_symbolic_axes
from tvmrt.compiler.frontend.onnx.legalize_types import (
    decode_string,
    retype,
    stored_type,
    table_type,
)
from tvmrt.compiler.frontend.onnx.loops import Step, emit_loop, scan_steps
from tvmrt.compiler.frontend.onnx.matmul import emit_matmul, gemm, numpy_matmul, scale_by
from tvmrt.compiler.frontend.onnx.normalization import (
    layer_normalization,
    normalize_rows,
    rms_normalization,
    rms_normalize,
)
from tvmrt.compiler.frontend.onnx.plain_operators import importer_of
from tvmrt.compiler.frontend.onnx.pooling import is_global, pool, pool_window
from tvmrt.compiler.frontend.onnx.quantize import (
    dequantize,
    dequantize_accumulator,
    dequantize_linear,
    dequantize_operand,
    dynamic_quantized,
    emit_qlinear_conv,
    flatten_parameters,
    int_bias,
    integer_matmul,
    quantize,
    quantize_linear,
)
from tvmrt.compiler.frontend.onnx.recurrent import (
    LSTM,
    parse_activations,
    sequence_lengths,
    stack_directions,
)
from tvmrt.compiler.frontend.onnx.registry import Importer, onnx_op
from tvmrt.compiler.frontend.onnx.shape import pad as import_pad
from tvmrt.compiler.frontend.onnx.shape import range_ as import_range
from tvmrt.compiler.frontend.onnx.shape import trilu
from tvmrt.compiler.frontend.onnx.string_tensors import (
    check_no_nul,
    is_text,
    string_op,
    to_handles,
)
from tvmrt.compiler.frontend.onnx.structured_loop import StructuredLoop
from tvmrt.compiler.frontend.onnx.tensor_expressions import TensorExpr
from tvmrt.compiler.frontend.onnx.tensors import captured_names
from tvmrt.compiler.frontend.shapes import default_window, infer_extent, slice_range
from tvmrt.compiler.frontend.size_propagation import KnownSizes, track_sizes

__all__ = [
    "ACTIVATIONS", "AttentionHeads", "Dims", "Importer", "KnownSizes", "LSTM", "NodeContext",
    "OperatorContext", "Step", "StructuredLoop", "TensorExpr", "append_past", "captured_names",
    "check_no_nul", "checked_indices", "combine_guards", "convolution", "convolution_window",
    "decode_string", "default_window", "dequantize", "dequantize_accumulator", "dequantize_linear",
    "dequantize_operand", "draw", "dynamic_quantized", "element_type", "emit_gelu", "emit_loop",
    "emit_matmul", "emit_qlinear_conv", "emit_swish", "flatten_parameters", "gather_nd",
    "gather_rows", "gemm", "import_pad", "import_range", "importer_of", "infer_extent", "int_bias",
    "integer_matmul", "is_global", "is_text", "join_heads", "key_distances", "layer_normalization",
    "mask_to_bias", "name_symbolic_axes", "normalize_rows", "numpy_matmul", "onnx_op",
    "parse_activations", "parse_dim", "pool", "pool_window", "quantize", "quantize_linear",
    "retype", "rms_normalization", "rms_normalize", "rotate_features", "rotate_heads", "scale_by",
    "scan_steps", "select_under_guard", "sequence_lengths", "slice_range", "softmax_along",
    "split_heads", "stack_directions", "stored_type", "string_op", "table_type", "to_handles",
    "track_sizes", "trilu", "uniform", "unique_slices", "unused_name",
]  # fmt: skip
