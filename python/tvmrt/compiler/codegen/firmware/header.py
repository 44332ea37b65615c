"""Header of a firmware network: size macros, tensor structs and the entry function.

Order and spelling are those that existing microcontroller programs expect: structs and the file in
lower case, macros in upper case, every struct member a ``void *``, or ``const void *`` for
inputs that are only read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tvmrt.compiler.ir.program import Program

from .. import pools
from ..c.formatting import OUT_OF_RANGE
from ..c.initializers import float_literal
from ..c.packed_functions import packed_prototype
from ..c.writer import comment_text
from ..entries import device_hooks
from . import dynamic_dims, link_guard, pool_functions, size_assertions
from .main import run_parameters
from .tensor_names import Tensor, input_tensors, output_tensors, tensor_macro


def print_header(prefix: str, options, number: str, body: Sequence[str]) -> str:
    """Return the text of the header; ``body`` is the result of print_body()."""
    lines = [
        *link_guard.guard_lines(prefix, number, *link_guard.NETWORKS),
        "#include <stddef.h>",
        "#include <stdint.h>",
        *(
            ["", "#include <tvm/runtime/c_packed_func.h>"]
            if options.interface_api == "packed"
            else []
        ),
        *(["", "#include <tvm/runtime/trace.h>"] if options.traced else []),
        "",
        *link_guard.declaration_lines(prefix, number, body),
    ]
    return "\n".join(lines)


def print_body(
    program: Program, prefix: str, options, weights_bytes: int, more: Sequence[str] = ()
) -> list[str]:
    """Return the header's declarations, followed by the lines ``more``.

    ``weights_bytes`` is the size of the weights in flash.
    """
    inputs, outputs = input_tensors(program), output_tensors(program)
    packed = options.interface_api == "packed"
    lines = []
    for what, tensors in (("Input", inputs), ("Output", outputs)):
        for tensor in tensors:
            lines += [
                f"/*! \\brief {what} {comment_text(tensor.origin)}:"
                f" {dynamic_dims.shape_text(tensor.type)};"
                f" in bytes{dynamic_dims.bounds_text(tensor.type.shape)}. */",
                f"#define {tensor_macro(prefix, tensor.member)} {tensor.type.nbytes}",
                *_quantization(prefix, tensor),
            ]
    lines.append("")
    lines += dynamic_dims.structs(program, prefix)
    if packed:
        lines += _packed_run(program, prefix, inputs, outputs)
    else:
        lines += _plain_run(program, prefix, options, inputs, outputs)
    lines += size_assertions.header_lines(program, prefix, weights_bytes)
    return [*lines, *more]


def _quantization(prefix: str, tensor: Tensor) -> list[str]:
    """Return the macros of a quantised tensor."""
    if tensor.quantization is None:
        return []
    scale, zero_point = tensor.quantization
    macro = partial(tensor_macro, prefix, tensor.member)
    zero = f"({zero_point})" if zero_point < 0 else zero_point
    return [
        f"/*! \\brief Integers q of {tensor.member} stand for (q - zero point) * scale. */",
        f"#define {macro('SCALE')} {float_literal(scale)}",
        f"#define {macro('ZERO_POINT')} {zero}",
    ]


def _plain_run(program: Program, prefix: str, options, inputs, outputs) -> list[str]:
    tag = prefix.lower()
    # the program fills inputs in pools through the struct
    pointer = "void *" if pools.io_in_pools(program) else "const void *"
    borrowed = "borrowed for the call."
    lines = [
        *_struct(f"{tag}_inputs", f"Addresses of the inputs; {borrowed}", inputs, pointer),
        *_struct(f"{tag}_outputs", f"Addresses of the outputs; {borrowed}", outputs, "void *"),
    ]
    if pools.caller_provided(program):
        lines += [
            "/*! \\brief Memory that the program provides; borrowed for the call. */",
            f"struct {tag}_workspace_pools {{",
            *(f"  void *{pool.name};" for pool in pools.caller_provided(program)),
            "};",
            "",
        ]
    lines += device_hooks.struct(program, prefix)
    if pools.io_in_pools(program):
        lines += pool_functions.map_declarations(program, prefix, options)
    about = _RUN_SIZED if program.has_dynamic_dims() else _RUN
    return [*lines, *about, *prototype(prefix, "run", run_parameters(program, prefix)), ""]


def prototype(prefix: str, function: str, parameters: Sequence[object]) -> list[str]:
    """Return the declaration of one of the network's functions, one parameter per line."""
    end = link_guard.prototype_end(prefix, function)
    rows = [f"    {p}," for p in parameters[:-1]] + [f"    {p}){end}" for p in parameters[-1:]]
    head = f"int32_t {prefix}_{function}("
    return [head, *rows] if rows else [f"{head}void){end}"]


_RUN = [
    "/*!",
    " * \\brief Run the network once.",
    " * \\return 0; kTvmErrorFunctionCallInvalidArg for a NULL or misaligned pointer,",
    " * kTvmErrorNetworkPoolMisplaced for such a pool; -1 if an operator fails. One call at a",
    " * time: concurrent runs would share the workspace.",
    " */",
]

_RUN_SIZED = [
    *_RUN[:3],
    " * kTvmErrorNetworkPoolMisplaced for such a pool, kTvmErrorNetworkDimensionOutOfRange for a",
    " * size out of its bounds, and nothing is written; -1 if an operator fails. One call",
    " * at a time: concurrent runs would share the workspace.",
    " */",
]


_SIZED_TENSORS = [
    " * For dynamic dimensions, ndim and shape are read, too: inputs have the sizes, outputs",
    " * have at least the extents of the results, which are then written to them.",
]


def _packed_run(program: Program, prefix: str, inputs, outputs) -> list[str]:
    order = [f"{t.member}, {dynamic_dims.shape_text(t.type)}" for t in [*inputs, *outputs]]
    order += [
        f"memory that the program lends: the pool {pool.name}, {pool.used_bytes} bytes"
        for pool in pools.caller_provided(program)
    ]
    rows = [f" *  {i}: {text}" for i, text in enumerate(order)]
    sized = bool(program.dims())
    return [
        "/*!",
        " * \\brief Run the network once. Each argument is a DLTensor; only its data is read:",
        *rows,
        *(_SIZED_TENSORS if sized else []),
        " * \\return 0; kTvmErrorFunctionCallNumArguments for a wrong number of arguments;",
        *([f" * kTvmError{OUT_OF_RANGE} for an extent out of its bounds;"] if sized else []),
        " * kTvmErrorFunctionCallInvalidArg for a NULL or misaligned one; -1 if an operator",
        " * fails. One call at a time: concurrent runs would share the workspace.",
        " */",
        *packed_prototype(f"{prefix}_run", link_guard.prototype_end(prefix, "run")),
        "",
        "/*! \\brief Return the network's TVMMetadata and TVMModelMetadata; see metadata.h. */",
        *packed_prototype(f"{prefix}_get_c_metadata"),
        *packed_prototype(f"{prefix}_get_model_metadata"),
        "",
    ]


def _struct(tag: str, brief: str, tensors: Sequence[Tensor], pointer: str) -> list[str]:
    members = [f"  {pointer}{t.member}; /*!< {dynamic_dims.shape_text(t.type)} */" for t in tensors]
    empty = ["  void *unused; /*!< C has no empty structs. */"]
    return [f"/*! \\brief {brief} */", f"struct {tag} {{", *(members or empty), "};", ""]
