"""Functions of a network with the tvm-ffi calling convention, in addition to its packed main.

``__tvm_ffi_<name>`` and ``__tvm_ffi_main`` are f(inputs..., outputs...). Their checks and the call
of the packed function are in ``kernels/op/tvm_ffi.h``.
"""

from __future__ import annotations

from tvmrt.compiler.ir.program import Program
from tvmrt.compiler.ir.sizes import Extent
from tvmrt.error import UnsupportedError

from ..c.formatting import print_fields, rows, wrap
from ..c.initializers import dtype_initializer
from ..c.packed_functions import WEAK
from ..c.writer import c_string

HEADER = "#include <tvm/runtime/kernels/op/tvm_ffi.h>"
_PARAMETERS = (
    "void *self",
    "const tvmrt_ffi_any *args",
    "int32_t num_args",
    "tvmrt_ffi_any *result",
)


def refuse(program: Program) -> None:
    """Raise UnsupportedError for networks with data-dependent output shapes or with state."""
    program.reject_data_dependent_outputs(
        "and a tvm-ffi function writes into preallocated tensors; choose abi packed"
    )
    if program.states:
        raise UnsupportedError(
            "the network keeps state between runs, which abi tvm-ffi does not support; choose "
            "abi packed"
        )


def print_entries(program: Program, prefix: str, module_name: str) -> list[str]:
    """Return C lines with the tensor descriptions and both functions."""
    inputs = list(zip(program.input_names, program.input_types))
    ports = [*inputs, *zip(program.output_names, program.output_types)]
    lines, table = [], []
    for i, (name, type) in enumerate(ports):
        extents = [-1 if isinstance(n, Extent) else n for n in type.shape] or [0]
        lines += wrap(f"static const int64_t ffi_shape{i}[] = ", extents, ";", brackets="{}")
        dtype = dtype_initializer(type.dtype)
        fields = {"name": c_string(name), "dtype": dtype, "ndim": type.rank}
        table.append({**fields, "shape": f"ffi_shape{i}"})
    name = module_name or "network"
    axes = sum(type.rank for _, type in ports)
    network = {
        "name": c_string(name),
        "ports": "ffi_ports",
        "num_inputs": len(inputs),
        "num_ports": len(ports),
        "workspace_bytes": program.arena_bytes,
        "main": f"{prefix}___tvm_main__",
        **{word: word for word in ("tensors", "values", "codes", "extents")},
    }
    lines += [
        *rows("static const tvmrt_ffi_port ffi_ports[]", table),
        "",
        "/* f(inputs..., outputs...) with the calling convention of tvm-ffi. */",
        *wrap("static int ffi_network", _PARAMETERS[1:], " {"),
        f"  DLTensor tensors[{len(ports) + 1}];",
        f"  TVMValue values[{len(ports) + 2}];",
        f"  int codes[{len(ports) + 2}];",
        f"  int64_t extents[{max(axes, 1)}];",
        *("  " + line for line in print_fields("const tvmrt_ffi_network network", network)),
        "  return tvmrt_ffi_call(&network, args, num_args, result);",
        "}",
        "",
    ]
    for word in dict.fromkeys((name, "main")):
        symbol = f"__tvm_ffi_{word}"
        lines += [
            *wrap(f"TVM_DLL int {symbol}", _PARAMETERS, ";"),
            *(WEAK if word != name else []),  # each network in a program defines "main"
            *wrap(f"int {symbol}", _PARAMETERS, " {"),
            "  (void)self;",
            "  return ffi_network(args, num_args, result);",
            "}",
            "",
        ]
    return lines
