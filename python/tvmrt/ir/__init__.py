"""The intermediate representation: graphs of typed tensors, and the operators they know."""

from . import (  # noqa: F401  (fill the table)
    blocks,
    conversion,
    counts,
    custom,
    data_movement,
    extents,
    fixed_gates,
    fixed_point,
    foreign,
    indexing,
    loop,
    nn,
    normalization,
    pairs,
    pointwise,
    quantized,
    random,
    recurrent,
    reduction,
    region,
    resize,
    run_operands,
    scan,
    signal,
    small,
    state,
    text,
    trees,
    view,
    vision,
)
from .builder import Builder
from .dtype import DTYPES, HANDLE, DType, dtype_of, dtype_of_text
from .graph import Graph, Node, TensorType, Value, constant, walk_back
from .op import KERNEL, OPS, POINTWISE, REDUCE, VIEW, Op, broadcast, get_op
from .region import PACKED_PARAMETERS, CSource, DeviceMemory, ModuleBlob, Region, regions_of
from .state import States
from .strided import Strided, compact, dense

__all__ = [
    "DTYPES",
    "HANDLE",
    "KERNEL",
    "OPS",
    "POINTWISE",
    "REDUCE",
    "VIEW",
    "Builder",
    "CSource",
    "DeviceMemory",
    "PACKED_PARAMETERS",
    "DType",
    "Graph",
    "ModuleBlob",
    "Node",
    "Op",
    "Region",
    "States",
    "Strided",
    "TensorType",
    "Value",
    "broadcast",
    "compact",
    "constant",
    "dense",
    "dtype_of",
    "dtype_of_text",
    "get_op",
    "regions_of",
    "walk_back",
]
