"""Sizes of a firmware network as macros, and static assertions about them."""

from __future__ import annotations

from tvmrt.compiler.ir.program import Program

from .. import pools
from ..c.formatting import wrap


def header_lines(program: Program, prefix: str, weights_bytes: int) -> list[str]:
    """Return header lines with the sizes and an assertion that each pool is large enough."""
    upper = prefix.upper()
    io = sum(t.nbytes for t in [*program.input_types, *program.output_types])
    lines = [
        "/*! \\brief Memory for intermediate values, all pools together, in bytes. */",
        f"#define {upper}_WORKSPACE_SIZE {program.arena_bytes}",
        "/*! \\brief Weights, each aligned to 16 bytes, in bytes; they are read in place. */",
        f"#define {upper}_CONSTANTS_SIZE_BYTES {weights_bytes}",
        "/*! \\brief Inputs and outputs, in bytes. */",
        f"#define {upper}_IO_SIZE_BYTES {io}",
    ]
    for pool in pools.caller_provided(program):
        lines += [
            f"/*! \\brief Size of the pool {pool.name}, in bytes; aligned to"
            f" {pools.ALIGN_BYTES} bytes. */",
            f"#define {pools.pool_macro(prefix, pool)} {pool.used_bytes}",
        ]
    lines += ["", *_ASSERT]
    for pool in program.pools:
        lines += _capacity(prefix, pool)
    return lines


_ASSERT = [
    "/*! \\brief Static assertion; if it fails, the compiler's error contains its name. */",
    "#ifndef TVMGEN_ASSERT",
    "#if defined(__cplusplus) && __cplusplus >= 201103L",
    "#define TVMGEN_ASSERT(claim, name) static_assert(claim, #name)",
    "#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L",
    "#define TVMGEN_ASSERT(claim, name) _Static_assert(claim, #name)",
    "#else",
    "#define TVMGEN_ASSERT(claim, name) typedef char tvmgen_claim_##name[(claim) ? 1 : -1]",
    "#endif",
    "#endif",
    "",
]


def _capacity(prefix: str, pool) -> list[str]:
    if pool.capacity is None:
        return []
    tag, macro = prefix.lower(), f"{prefix.upper()}_{pool.name.upper()}_CAPACITY"
    return [
        f"/*! \\brief Bytes of the memory {pool.name}; a program may define the actual size. */",
        f"#ifndef {macro}",
        f"#define {macro} {pool.capacity}",
        "#endif",
        f"TVMGEN_ASSERT({pool.used_bytes} <= {macro}, {tag}_fits_{pool.name});",
    ]


def entry_lines(program: Program, prefix: str, sources, options, arguments) -> list[str]:
    """Return assertions for the entry file: offsets are in bounds, sizes match the header."""
    tag, upper = prefix.lower(), prefix.upper()
    lines = []
    for place, buffer in arguments.named_offsets():
        condition = f"{place} + {buffer.nbytes} <= {program.pools[buffer.pool].used_bytes}"
        lines += wrap("TVMGEN_ASSERT", [condition, f"{tag}_{place}"], ";")
    if not options.image:
        lines += [
            f"TVMGEN_ASSERT(sizeof({pools.symbol(pool, prefix, options)}) =="
            f" {pool.used_bytes}, {tag}_size_of_{pool.name});"
            for pool in pools.own(program)
        ]
    arrays = [] if options.weights_in_blob else sources.weight_buffers
    sizes = [f"ALIGNED({sources.symbol_of(b)})" for b in arrays]
    if sizes:
        parts = " +\n    ".join([*sizes[:-1], f"{sizes[-1]} =="])
        lines += [
            "#define ALIGNED(weights) ((sizeof(weights) + 15) / 16 * 16)",
            f"TVMGEN_ASSERT(\n    {parts}\n    {upper}_CONSTANTS_SIZE_BYTES, {tag}_weights);",
        ]
    return ["/* Sizes, checked at compile time. */", *lines, ""] if lines else []
