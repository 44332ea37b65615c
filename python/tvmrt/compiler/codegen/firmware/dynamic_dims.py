"""Dynamic dimensions of a firmware network, and the data-dependent counts of a run.

The caller passes a struct of sizes along with the structs of pointers. Run checks their bounds and
passes them on as integers; tensors are dense with the resulting extents. Run writes the number of
elements of data-dependent results to a struct of counts. A function in its own file computes all
extents, so that programs which do not call it do not link it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tvmrt.compiler.ir.program import Program
from tvmrt.compiler.ir.sizes import Extent, Symbol, SymInt, extent_text
from tvmrt.compiler.ir.tensor_type import TensorType

from .. import pools
from ..c.formatting import GAP, OUT_OF_RANGE, Declaration, bounds_check, reject_if, wrap
from ..c.naming import make_unique, member
from ..c.writer import Parameter, comment_text
from ..entries.symbolic_dims import nbytes_expression
from . import link_guard
from .tensor_names import Tensor, input_tensors, output_tensors, own_includes

DimMember = tuple[Symbol, str]


def struct(name: str, base: str) -> str:
    """Return the C text of a struct of a call with its member operator: of a parameter of run, or
    of a copy in the struct before it (``base``)."""
    return f"{base}{name}." if base else f"{name}->"


def members(program: Program) -> list[DimMember]:
    """Return the dimensions with their members in the struct of sizes."""
    return [row for row in _unique_members(program) if row[0].source is None]


def counts(program: Program) -> list[DimMember]:
    """Return the data-dependent output extents with their members in the struct of counts."""
    return [row for row in _unique_members(program) if row[0].source is not None]


def _unique_members(program: Program) -> list[DimMember]:
    """Return dimensions and counts with member names whose upper-case macros are distinct."""
    used: set[str] = set()
    symbols = (*program.dims(), *program.data_dependent_dims)
    return [(symbol, make_unique(member(symbol.name), used)) for symbol in symbols]


def parameters(program: Program, prefix: str) -> list[Declaration]:
    """Return the parameters for sizes and counts, if there are any."""
    tag = prefix.lower()
    sizes = [Declaration(f"struct {tag}_dims", "dims", pointer=True, const=True)]
    parameters = [Declaration(f"struct {tag}_counts", "counts", pointer=True)]
    return [
        *(sizes if program.dims() else []),
        *(parameters if program.data_dependent_dims else []),
    ]


def variables(program: Program, prefix: str) -> list[Declaration]:
    """Return main's parameters for dynamic dimensions: each size, and the struct of counts."""
    sizes = [Declaration("int", symbol.c) for symbol in program.dims()]
    return [*sizes, *parameters(program, prefix)[bool(sizes) :]]


def values(program: Program, base: str) -> list[str]:
    """Return the arguments that run passes for dynamic dimensions; the struct of counts is always a
    pointer."""
    sizes = [f"(int){struct('dims', base)}{name}" for _, name in members(program)]
    return [*sizes, *([f"{base}counts"] if program.data_dependent_dims else [])]


def print_count_outputs(program: Program, arguments) -> list[str]:
    """Return lines of main after the last operator that write the struct of counts."""
    lines = []
    for symbol, name in counts(program):
        access = program.data_dependent_dims[symbol]
        address = arguments.expression(Parameter("", access.buffer, access.at.offset))
        lines.append(f"counts->{name} = *({address});")
    return lines


def unused(program: Program, sources) -> list[str]:
    """Return the size parameters that no operator takes."""
    passed = {p.name for fn in sources.functions for p in fn.parameters if p.buffer is None}
    return [symbol.c for symbol in program.dims() if symbol.c not in passed]


def checks(program: Program, prefix: str) -> list[str]:
    """Return C lines that reject sizes out of bounds."""
    rows = members(program)
    return [line for _, name in rows for line in check(f"dims->{name}", prefix, name)]


def check(size: str, prefix: str, name: str) -> list[str]:
    """Return C lines that check a C expression against the bounds macros of a member."""
    macro = bounds_macro(prefix, name)
    return bounds_check(size, f"{macro}_MIN", f"{macro}_MAX")


def bounds_macro(prefix: str, name: str) -> str:
    """Return the prefix of the macros of a dimension's bounds."""
    return f"{prefix.upper()}_{name.upper()}"


def bounds_text(extents: Iterable[SymInt]) -> str:
    """Return the text after "in bytes" in the comment of a tensor's macro."""
    return " at the largest sizes" if any(isinstance(n, Extent) for n in extents) else ""


def bounds_macros(program: Program, prefix: str) -> list[str]:
    """Return header lines with the bounds of dimensions and counts."""
    lines = []
    for symbol, name in _unique_members(program):
        what = "Dimension" if symbol.source is None else "Count"
        lines += [
            f"/*! \\brief {what} {comment_text(symbol.name)}: minimum and maximum. */",
            f"#define {bounds_macro(prefix, name)}_MIN {symbol.low}",
            f"#define {bounds_macro(prefix, name)}_MAX {symbol.high}",
        ]
    return [*lines, *([""] if lines else [])]


def structs(program: Program, prefix: str) -> list[str]:
    """Return header lines with the bounds and the structs of sizes and counts."""
    return [
        *bounds_macros(program, prefix),
        *_struct(prefix, "dims", _SIZES, members(program)),
        *_struct(prefix, "counts", _COUNTS, counts(program)),
    ]


_SIZES = [
    " * \\brief Sizes of one run. Tensors have the resulting extents and are contiguous:",
    " * bytes after a smaller tensor in its buffer are neither read nor written.",
]
_COUNTS = [
    " * \\brief Data-dependent dimensions of outputs. The run writes",
    " * it; an output buffer has room for the maximum.",
]


def _struct(prefix: str, name: str, about: list[str], rows: list[DimMember]) -> list[str]:
    if not rows:
        return []
    return [
        "/*!",
        *about,
        " */",
        f"struct {prefix.lower()}_{name} {{",
        *(
            f"  int32_t {member}; /*!< {comment_text(s.name)}, {s.low} to {s.high} */"
            for s, member in rows
        ),
        "};",
        "",
    ]


def declarations(program: Program, prefix: str) -> list[str]:
    """Return header lines with the struct of shapes and the function that computes it."""
    if not program.has_dynamic_dims():
        return []
    tag = prefix.lower()
    rows = [f"  {_array(t)}; /*!< {shape_text(t.type)} */" for t in _ranked(program)]
    return [
        "/*! \\brief Extents of inputs and outputs, except scalars. */",
        f"struct {tag}_shapes {{",
        *rows,
        "};",
        "",
        "/*!",
        " * \\brief Return what the sizes of a run determine, before or after the run: the",
        " * extents and bytes of each tensor, and the bytes of pools.",
        *(
            [" *", " * If counts is NULL, as before a run, the maximum of each is assumed."]
            if program.data_dependent_dims
            else []
        ),
        " * \\return 0, with both structs filled; each may be NULL;",
        " * kTvmErrorFunctionCallInvalidArg if dims is NULL,",
        f" * kTvmError{OUT_OF_RANGE} for a size out of its bounds.",
        " */",
        *wrap(f"int32_t {prefix}_measure", _parameters(program, prefix), ""),
        f"{link_guard.prototype_end(prefix, 'measure')[1:]}",
        "",
    ]


def shape_text(type: TensorType) -> str:
    """Return a tensor's type as readable text: ``float32[batch, 16]``."""
    return comment_text(f"{type.dtype}[{', '.join(map(extent_text, type.shape))}]")


def _parameters(program: Program, prefix: str) -> list[Declaration]:
    tag = prefix.lower()
    results = [Declaration(f"struct {tag}_{name}", name, True) for name in ("shapes", "sizes")]
    return [*(replace(p, const=True) for p in parameters(program, prefix)), *results]


def _ranked(program: Program) -> list[Tensor]:
    """Return inputs and outputs with axes. Members of the two structs may have equal names."""
    return [t for t in tensors(program) if t.type.rank]


def tensors(program: Program) -> list[Tensor]:
    """Return the inputs, then the outputs."""
    return [*input_tensors(program), *output_tensors(program)]


def _array(tensor: Tensor) -> str:
    return f"int32_t {tensor.member}[{tensor.type.rank}]"


def print_file(program: Program, prefix: str) -> dict[str, str]:
    """Return the file with the measure function by name; empty without dynamic dimensions."""
    if not program.has_dynamic_dims():
        return {}
    declared = _parameters(program, prefix)
    rows, count_members = members(program), counts(program)
    lines = [
        *own_includes(prefix, "crt/error_codes"),
        "",
        *wrap(f"int32_t {prefix}_measure", declared, " {"),
        *(f"  int {symbol.c};" for symbol, _ in rows),
        *(
            f"  const int {s.c} ={GAP}counts == NULL ?{GAP}{bounds_macro(prefix, name)}_MAX :"
            f"{GAP}(int)counts->{name};"
            for s, name in count_members
        ),
        *(reject_if("dims == NULL") if rows else []),
        *checks(program, prefix),
        *(line for s, name in count_members for line in check(s.c, prefix, name)),
        *(f"  {symbol.c} = (int)dims->{name};" for symbol, name in rows),
        "  if (shapes != NULL) {",
        *(
            f"    shapes->{t.member}[{axis}] = {extent};"
            for t in _ranked(program)
            for axis, extent in enumerate(t.type.shape)
        ),
        "  }",
        "  if (sizes != NULL) {",
        *(f"    sizes->{name} = {nbytes};" for name, nbytes in _sizes(program, prefix)),
        "  }",
        "  return 0;",
        "}",
        "",
        *link_guard.guard(prefix, "measure"),
    ]
    return {f"{prefix}_measure.c": "\n".join(lines)}


def _sizes(program: Program, prefix: str) -> list[tuple[str, str]]:
    """Return the members of the struct of sizes in bytes with their C expressions."""
    rows = []
    if not pools.io_in_pools(program):
        rows = [(t.member, nbytes_expression(t.type)) for t in tensors(program)]
    for pool in pools.caller_provided(program):
        rows.append((f"{pool.name}_workspace_pool", pools.pool_macro(prefix, pool)))
    return rows or [("unused", "0")]
