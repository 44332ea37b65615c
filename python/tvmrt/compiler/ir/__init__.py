"""Intermediate representation: graphs of typed tensors and their operators."""

# ruff: noqa: F401 (names for other packages)

from . import (  # they fill the table
    conversion,
    custom,
    data_dependent_dims,
    data_movement,
    dynamic_operands,
    fixed_point,
    fixed_point_gates,
    indexing,
    loop,
    low_bit_types,
    matmul_nbits,
    nn,
    normalization,
    onnx_node,
    pointwise,
    quantized,
    random,
    recurrent,
    reduction,
    region,
    resize,
    scan,
    shape_tensor,
    signal,
    state,
    strings,
    svm_pairwise,
    tree_ensemble,
    view,
    vision,
    winograd,
)
from .builder import Builder, FoldingBudget
from .dtype import DTYPES, HANDLE, STRING, DType, SourceType, dtype_of, dtype_of_text
from .graph import Graph, Node, Value, constant, walk_back
from .op import (
    IR_VERSION,
    KERNEL,
    OPS,
    POINTWISE,
    REDUCE,
    VIEW,
    Op,
    broadcast,
    get_op,
    integer_form,
)
from .region import (
    PACKED_NAMES,
    PACKED_PARAMETERS,
    CSource,
    DeviceMemory,
    ModuleBlob,
    Needs,
    Packaged,
    Region,
    Vendor,
    digest_of,
    region_of,
    regions_of,
)
from .state import States
from .strided import Strided, compact, dense
from .tensor_type import TensorType
from .traits import Trait, Weights
