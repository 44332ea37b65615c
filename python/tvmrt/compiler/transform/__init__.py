"""Passes from graph to graph, one file each."""

from .expand_composed import expand_composed
from .fixed_point import to_fixed_point
from .join_siblings import join_siblings
from .layouts import infer_layouts
from .narrow_weights import narrow_weights
from .nest_concats import nest_concats
from .optimize import optimize
from .reduce_products import reduce_products
from .winograd import squares_within, to_winograd

__all__ = [
    "expand_composed",
    "infer_layouts",
    "join_siblings",
    "narrow_weights",
    "nest_concats",
    "optimize",
    "reduce_products",
    "to_fixed_point",
    "squares_within",
    "to_winograd",
]
