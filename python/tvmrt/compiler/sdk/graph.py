"""The graph of a network: operators, values, sizes, contracts."""

from tvmrt.compiler.ir import (
    DTYPES,
    OPS,
    POINTWISE,
    Builder,
    CSource,
    DeviceMemory,
    Graph,
    ModuleBlob,
    Needs,
    Node,
    Packaged,
    Region,
    SourceType,
    States,
    TensorType,
    Trait,
    Value,
    Vendor,
    broadcast,
    constant,
    get_op,
)
from tvmrt.compiler.ir.contract import LIMIT, Contract, holds, let
from tvmrt.compiler.ir.custom import (
    call_of,
    copy_graph,
    kernel_record,
    text_of_types,
    types_of_text,
)
from tvmrt.compiler.ir.limits import max_unrolled_nodes
from tvmrt.compiler.ir.mmap_constants import mmap_from_file
from tvmrt.compiler.ir.op import GAP, REDUCE, Kernel, Op, normalize_axis, register
from tvmrt.compiler.ir.pointwise import PointwiseOp, entry_for_dtype
from tvmrt.compiler.ir.quantized import pack_interleaved
from tvmrt.compiler.ir.recurrent import ACTIVATIONS, drop_default_attributes
from tvmrt.compiler.ir.reduced_precision import PRECISION
from tvmrt.compiler.ir.reference_conv import valid_counts
from tvmrt.compiler.ir.region import CHANNELS_LAST_LAYOUT, DENSE_LAYOUT, region_of
from tvmrt.compiler.ir.sizes import (
    Extent,
    SymInt,
    as_extent,
    expected_size,
    extent_text,
    sym_max,
    symbols_of,
    upper_bound,
)
from tvmrt.compiler.ir.strings import StringsOp, TextOp
from tvmrt.compiler.ir.tensor_type import PerTensor
from tvmrt.compiler.ir.tree_ensemble import fits_packed_links
from tvmrt.compiler.ir.value_users import ValueUsers
from tvmrt.compiler.ir.winograd import transform_matrices

__all__ = [
    "ACTIVATIONS", "Builder", "CHANNELS_LAST_LAYOUT", "CSource", "Contract", "DENSE_LAYOUT",
    "DTYPES", "DeviceMemory", "Extent", "GAP", "Graph", "Kernel", "LIMIT", "ModuleBlob", "Needs",
    "Node", "OPS", "Op", "POINTWISE", "PRECISION", "Packaged", "PerTensor", "PointwiseOp", "REDUCE",
    "Region", "SourceType", "States", "StringsOp", "SymInt", "TensorType", "TextOp", "Trait",
    "Value", "ValueUsers", "Vendor", "as_extent", "broadcast", "call_of", "constant", "copy_graph",
    "drop_default_attributes", "entry_for_dtype", "expected_size", "extent_text",
    "fits_packed_links", "get_op", "holds", "kernel_record", "let", "max_unrolled_nodes",
    "mmap_from_file", "normalize_axis", "pack_interleaved", "region_of", "register", "sym_max",
    "symbols_of", "text_of_types", "transform_matrices", "types_of_text", "upper_bound",
    "valid_counts",
]  # fmt: skip
