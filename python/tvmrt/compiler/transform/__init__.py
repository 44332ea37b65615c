"""Passes from graph to graph, one file each."""

from .expand_composed import expand_composed
from .fixed_point_requantize import to_fixed_point
from .float_sums import sums_in_float
from .fold_requantization import fold_requantization
from .fold_sign_change import fold_sign_change
from .layout_inference import infer_layouts
from .merge_sibling_convs import merge_sibling_convs
from .nest_concats import nest_concats
from .optimize import optimize
from .quantize_weights import MIN_WEIGHTS, quantize_weights
from .reduce_matmul_precision import reduce_matmul_precision
from .winograd import to_winograd, to_winograd_within_limits

__all__ = [
    "MIN_WEIGHTS",
    "expand_composed",
    "fold_requantization",
    "fold_sign_change",
    "infer_layouts",
    "merge_sibling_convs",
    "nest_concats",
    "optimize",
    "quantize_weights",
    "reduce_matmul_precision",
    "sums_in_float",
    "to_fixed_point",
    "to_winograd",
    "to_winograd_within_limits",
]
