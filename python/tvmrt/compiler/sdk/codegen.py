"""Generated C: targets, names, sources, lowerings."""

from tvmrt.compiler.codegen.c.formatting import call, comma_separated, include_guard, wrap
from tvmrt.compiler.codegen.c.initializers import is_pair
from tvmrt.compiler.codegen.c.naming import identifier, module_name_of
from tvmrt.compiler.codegen.c.writer import Function, Parameter
from tvmrt.compiler.codegen.firmware.call_lines import CallLines
from tvmrt.compiler.codegen.firmware.dynamic_dims import members as dynamic_dim_members
from tvmrt.compiler.codegen.firmware.tensor_names import header_name as firmware_header_name
from tvmrt.compiler.codegen.firmware.tensor_names import input_tensors, output_tensors
from tvmrt.compiler.codegen.firmware.trace import network_hash, traced_tensors
from tvmrt.compiler.codegen.kernel_headers import tables_in
from tvmrt.compiler.codegen.mcu_families import McuFamily, board_names, find_mcu_family
from tvmrt.compiler.codegen.operators.custom_files import header_name as operator_header_name
from tvmrt.compiler.codegen.options import Sources
from tvmrt.compiler.codegen.pools import pool_symbol
from tvmrt.compiler.codegen.pools import symbol as memory_pool_symbol
from tvmrt.compiler.codegen.target import FIRMWARE, Target, get_target, is_unhosted, target_names
from tvmrt.compiler.codegen.window.boards.board_lowering import BoardLowering
from tvmrt.compiler.codegen.window.boards.layer_i8 import MicroLayerI8
from tvmrt.compiler.symbols import PACKED_SUFFIX, prefix_of

__all__ = [
    "BoardLowering", "CallLines", "FIRMWARE", "Function", "McuFamily", "MicroLayerI8",
    "PACKED_SUFFIX", "Parameter", "Sources", "Target", "board_names", "call", "comma_separated",
    "dynamic_dim_members", "find_mcu_family", "firmware_header_name", "get_target",
    "identifier", "include_guard", "input_tensors", "is_pair", "is_unhosted",
    "memory_pool_symbol", "module_name_of", "network_hash", "operator_header_name",
    "output_tensors", "pool_symbol", "prefix_of", "tables_in", "target_names",
    "traced_tensors", "wrap",
]  # fmt: skip
