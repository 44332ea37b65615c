"""Intermediate representation: graphs of typed tensors and their operators."""

# ruff: noqa: F401 (names for other packages)

from importlib import import_module
from pkgutil import iter_modules

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

for _module in iter_modules(__path__):  # they fill the table of operators
    import_module(f"{__name__}.{_module.name}")
