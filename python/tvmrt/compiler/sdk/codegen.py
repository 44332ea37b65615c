"""Generated C: targets, names, sources, lowerings."""

from tvmrt.compiler.codegen.c.formatting import call, comma_separated, include_guard, wrap
from tvmrt.compiler.codegen.c.initializers import is_pair, print_array, print_struct
from tvmrt.compiler.codegen.c.inputs import input_pointer, input_pointers
from tvmrt.compiler.codegen.c.naming import identifier, module_name_of
from tvmrt.compiler.codegen.c.writer import (
    Function,
    FunctionWriter,
    Parameter,
    c_string,
    error_location,
)
from tvmrt.compiler.codegen.firmware.call_lines import CallLines
from tvmrt.compiler.codegen.firmware.dynamic_dims import members as dynamic_dim_members
from tvmrt.compiler.codegen.firmware.tensor_names import header_name as firmware_header_name
from tvmrt.compiler.codegen.firmware.tensor_names import input_tensors, output_tensors
from tvmrt.compiler.codegen.firmware.trace import network_hash, traced_tensors
from tvmrt.compiler.codegen.kernel_headers import tables_in
from tvmrt.compiler.codegen.lowering import Lowering, lowers
from tvmrt.compiler.codegen.mcu_families import McuFamily, board_names, find_mcu_family
from tvmrt.compiler.codegen.operators.custom_files import header_name as operator_header_name
from tvmrt.compiler.codegen.options import Sources
from tvmrt.compiler.codegen.pools import io_in_pools, pool_symbol
from tvmrt.compiler.codegen.pools import symbol as memory_pool_symbol
from tvmrt.compiler.codegen.target import (
    FIRMWARE,
    Target,
    get_target,
    is_unhosted,
    native_family,
    target_names,
)
from tvmrt.compiler.codegen.window.boards.board_lowering import BoardLowering
from tvmrt.compiler.codegen.window.boards.kernel import (
    MicroKernel,
    MicroWeights,
    pad_to_multiple,
)
from tvmrt.compiler.codegen.window.boards.layer_f32 import MicroLayerF32
from tvmrt.compiler.codegen.window.boards.layer_i8 import (
    MicroLayerI8,
    dense_kernel,
    im2col_buffer_of,
    pack_windows,
)
from tvmrt.compiler.codegen.window.boards.shape import Im2colBuffer, LineBuffer, row_line_buffer
from tvmrt.compiler.symbols import PACKED_SUFFIX, prefix_of

__all__ = [
    "BoardLowering", "CallLines", "FIRMWARE", "Function", "FunctionWriter", "Im2colBuffer",
    "LineBuffer", "Lowering", "McuFamily", "MicroKernel", "MicroLayerF32", "MicroLayerI8",
    "MicroWeights", "PACKED_SUFFIX", "Parameter", "Sources", "Target", "board_names", "c_string",
    "call", "comma_separated", "dense_kernel", "dynamic_dim_members", "error_location",
    "find_mcu_family", "firmware_header_name", "get_target", "identifier", "im2col_buffer_of",
    "include_guard", "input_pointer", "input_pointers", "input_tensors", "io_in_pools", "is_pair",
    "is_unhosted", "lowers", "memory_pool_symbol", "module_name_of", "native_family",
    "network_hash", "operator_header_name", "output_tensors", "pack_windows", "pad_to_multiple",
    "pool_symbol", "prefix_of", "print_array", "print_struct", "row_line_buffer", "tables_in",
    "target_names", "traced_tensors", "wrap",
]  # fmt: skip
