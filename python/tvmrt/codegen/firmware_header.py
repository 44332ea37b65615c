"""The header of a firmware network: sizes as macros, the structs of tensors, the entry function.

Order and spelling are those that programs for microcontrollers were written against: structs and
the file in lower case, macros in upper case, every struct member a ``void *``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvmrt.ir.graph import TensorType
from tvmrt.ir.program import Program

from .naming import member
from .writer import TVM_PACKED_PARAMETERS, comment_text


@dataclass(frozen=True)
class Tensor:
    """An input or output as C sees it: the struct's member and the macro of its size."""

    member: str
    origin: str  # the network's own name
    type: TensorType


def header_name(prefix: str) -> str:
    """The file's name; lower case, whatever the module is called."""
    return f"{prefix.lower()}.h"


def input_tensors(program: Program) -> list[Tensor]:
    return [Tensor(member(n), n, t) for n, t in zip(program.input_names, program.input_types)]


def output_tensors(program: Program) -> list[Tensor]:
    """A single output is ``output``, several are ``output0``, ``output1`` ..."""
    names = program.output_names
    numbered = [f"output{i}" for i in range(len(names))] if len(names) > 1 else ["output"]
    return [Tensor(m, n, t) for m, n, t in zip(numbered, names, program.output_types)]


def print_header(program: Program, prefix: str, options, more: Sequence[str] = ()) -> str:
    """Text of the header, with the lines of further declarations at its end.

    Raises ValueError where two names become one in C.
    """
    inputs, outputs = input_tensors(program), output_tensors(program)
    pool = options.pool
    _check_names(prefix, inputs, outputs, pool)
    guard = f"{prefix.upper()}_H_"
    packed = options.interface_api == "packed"
    lines = [
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdint.h>",
        *(["", "#include <tvm/runtime/c_packed_func.h>"] if packed else []),
        *(["", "#include <tvm/runtime/trace.h>"] if options.traced else []),
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
    ]
    for what, tensors in (("Input", inputs), ("Output", outputs)):
        for tensor in tensors:
            lines += [
                f"/*! \\brief {what} {comment_text(tensor.origin)}: {_type_text(tensor.type)};"
                " in bytes. */",
                f"#define {_size_macro(prefix, tensor.member)} {tensor.type.nbytes}",
            ]
    lines.append("")
    lines += (
        _packed_run(prefix, inputs, outputs)
        if packed
        else _plain_run(prefix, inputs, outputs, pool)
    )
    lines += [
        "/*! \\brief Memory for intermediate values, in bytes. "
        + ("The caller's pool. */" if pool else "The network has it itself. */"),
        f"#define {prefix.upper()}_WORKSPACE_SIZE {program.arena_bytes}",
    ]
    if pool:
        lines += [
            f"/*! \\brief What the pool {pool} must hold, in bytes; aligned to 16 bytes. */",
            f"#define {prefix.upper()}_{pool.upper()}_WORKSPACE_POOL_SIZE {program.arena_bytes}",
        ]
    lines += ["", *more, "#ifdef __cplusplus", "}", "#endif", "", f"#endif /* {guard} */", ""]
    return "\n".join(lines)


def _plain_run(prefix: str, inputs, outputs, pool: str | None) -> list[str]:
    tag = prefix.lower()
    lines = [
        *_struct(f"{tag}_inputs", "Where the inputs are; borrowed for the call.", inputs),
        *_struct(f"{tag}_outputs", "Where the outputs go; borrowed for the call.", outputs),
    ]
    parameters = [f"struct {tag}_inputs *inputs", f"struct {tag}_outputs *outputs"]
    if pool:
        lines += [
            "/*! \\brief Memory that the program lends; borrowed for the call. */",
            f"struct {tag}_workspace_pools {{",
            f"  void *{pool};",
            "};",
            "",
        ]
        parameters.append(f"struct {tag}_workspace_pools *workspace_pools")
    return [
        *lines,
        *_RUN,
        f"int32_t {prefix}_run(",
        *(f"    {p}," for p in parameters[:-1]),
        f"    {parameters[-1]});",
        "",
    ]


_RUN = [
    "/*!",
    " * \\brief Run the network once.",
    " * \\return 0; kTvmErrorFunctionCallInvalidArg for a NULL or misaligned pointer; -1 where the",
    " * network stops. One call at a time: the workspace is not shared.",
    " */",
]


def _packed_run(prefix: str, inputs, outputs) -> list[str]:
    order = [*inputs, *outputs]
    rows = [f" *  {i}: {t.member}, {_type_text(t.type)}" for i, t in enumerate(order)]
    return [
        "/*!",
        " * \\brief Run the network once. Each argument is a DLTensor of which only data is read:",
        *rows,
        " * \\return 0; kTvmErrorFunctionCallNumArguments for another number of arguments;",
        " * kTvmErrorFunctionCallInvalidArg for a NULL or misaligned one; -1 where the network",
        " * stops. One call at a time: the workspace is not shared.",
        " */",
        *_packed_prototype(f"{prefix}_run"),
        "",
        "/*! \\brief Give out the network's TVMMetadata and TVMModelMetadata; see metadata.h. */",
        *_packed_prototype(f"{prefix}_get_c_metadata"),
        *_packed_prototype(f"{prefix}_get_model_metadata"),
        "",
    ]


def _packed_prototype(symbol: str) -> list[str]:
    first, second, third = TVM_PACKED_PARAMETERS
    indent = " " * (len(symbol) + 9)
    return [f"int32_t {symbol}({first},", f"{indent}{second},", f"{indent}{third});"]


def _struct(tag: str, brief: str, tensors: Sequence[Tensor]) -> list[str]:
    members = [f"  void *{t.member}; /*!< {_type_text(t.type)} */" for t in tensors]
    empty = ["  void *unused; /*!< C has no empty struct. */"]
    return [f"/*! \\brief {brief} */", f"struct {tag} {{", *(members or empty), "};", ""]


def _type_text(type: TensorType) -> str:
    return f"{type.dtype}[{', '.join(map(str, type.shape))}]"


def _size_macro(prefix: str, name: str) -> str:
    return f"{prefix.upper()}_{name.upper()}_SIZE"


def _check_names(prefix: str, inputs, outputs, pool: str | None) -> None:
    taken = {f"{prefix.upper()}_WORKSPACE_SIZE": "the size of the workspace"}
    if pool:
        taken[_size_macro(prefix, f"{pool}_WORKSPACE_POOL")] = f"the pool {pool}"
    for what, tensors in (("input", inputs), ("output", outputs)):
        for tensor in tensors:
            macro = _size_macro(prefix, tensor.member)
            mine = f"{what} {tensor.origin}"
            if macro in taken:
                raise ValueError(
                    f"{taken[macro]} and {mine} both become {macro} in C; "
                    "rename one of them in the network"
                )
            taken[macro] = mine
