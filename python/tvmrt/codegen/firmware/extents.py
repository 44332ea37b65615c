"""The sizes of a run of a firmware network whose dimensions are not all fixed.

The caller passes a struct of sizes beside the structs of pointers. Run compares them with their
bounds and passes them on as plain numbers; tensors lie without gaps at the extents that follow.
What these are is told by a function in a file of its own: who does not call it does not link it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvmrt.ir.extent import Extent, Symbol, Whole, shown
from tvmrt.ir.graph import TensorType
from tvmrt.ir.program import Program

from .. import pools
from ..c.naming import member
from ..c.text import Declaration, refusal, wrap
from ..c.writer import comment_text
from . import seal
from .names import Tensor, input_tensors, output_tensors, own_include

OUT_OF_RANGE = "NetworkDimensionOutOfRange"


def members(program: Program) -> list[tuple[Symbol, str]]:
    """The dimensions with their members in the struct of sizes; macros tell them apart, too."""
    found: list[tuple[Symbol, str]] = []
    taken: set[str] = set()
    for symbol in program.dims():
        stem = text = member(symbol.name)
        count = 1
        while text.lower() in taken:
            count += 1
            text = f"{stem}_{count}"
        taken.add(text.lower())
        found.append((symbol, text))
    return found


def parameter(program: Program, prefix: str) -> list[Declaration]:
    """The parameter of sizes, in a list; none where all dimensions are fixed."""
    if not program.dims():
        return []
    return [Declaration(f"struct {prefix.lower()}_dims", "dims", pointer=True, const=True)]


def variables(program: Program) -> list[Declaration]:
    """The sizes as main's parameters."""
    return [Declaration("int", symbol.c) for symbol in program.dims()]


def values(program: Program, struct: str) -> list[str]:
    """The sizes as expressions, by the C text of the struct up to its members."""
    return [f"(int){struct}{name}" for _, name in members(program)]


def unused(program: Program, sources) -> list[str]:
    """Those of the variables that no operator is passed."""
    passed = {p.name for fn in sources.functions for p in fn.parameters if p.buffer is None}
    return [symbol.c for symbol in program.dims() if symbol.c not in passed]


def checks(program: Program, prefix: str) -> list[str]:
    """Lines of C that refuse sizes beyond their bounds."""
    lines = []
    for _, name in members(program):
        macro = _macro(prefix, name)
        lines += refusal(f"dims->{name} < {macro}_MIN || dims->{name} > {macro}_MAX", OUT_OF_RANGE)
    return lines


def _macro(prefix: str, name: str) -> str:
    return f"{prefix.upper()}_{name.upper()}"


def bounds_text(extents: Iterable[Whole]) -> str:
    """What follows "in bytes" of a tensor's macro."""
    return " at the largest sizes" if any(isinstance(n, Extent) for n in extents) else ""


def struct(program: Program, prefix: str) -> list[str]:
    """Lines of the header: the bounds as macros, and the struct of sizes."""
    rows = members(program)
    if not rows:
        return []
    lines = []
    for symbol, name in rows:
        lines += [
            f"/*! \\brief Dimension {comment_text(symbol.name)}: least and largest size. */",
            f"#define {_macro(prefix, name)}_MIN {symbol.low}",
            f"#define {_macro(prefix, name)}_MAX {symbol.high}",
        ]
    return [
        *lines,
        "",
        "/*!",
        " * \\brief The sizes of a run. Tensors have the extents that follow, without gaps:",
        " * what is behind a smaller one in its buffer is neither read nor written.",
        " */",
        f"struct {prefix.lower()}_dims {{",
        *(
            f"  int32_t {name}; /*!< {comment_text(symbol.name)}, {symbol.low} to {symbol.high} */"
            for symbol, name in rows
        ),
        "};",
        "",
    ]


def declarations(program: Program, prefix: str) -> list[str]:
    """Lines of the header: the extents that follow from sizes, and who tells them."""
    if not program.dims():
        return []
    tag = prefix.lower()
    rows = [f"  {_array(t)}; /*!< {shape_text(t.type)} */" for t in _ranked(program)]
    return [
        "/*! \\brief The extents of inputs and outputs; those without axes are not in it. */",
        f"struct {tag}_shapes {{",
        *rows,
        "};",
        "",
        "/*!",
        " * \\brief Tell what follows from the sizes of a run, before it or after it: the",
        " * extents of each tensor, the bytes that it takes, the bytes of pools.",
        " * \\return 0, and both structs are filled, of which each may be NULL;",
        " * kTvmErrorFunctionCallInvalidArg for no dims,",
        f" * kTvmError{OUT_OF_RANGE} for a size beyond its bounds.",
        " */",
        *wrap(f"int32_t {prefix}_measure", _parameters(program, prefix), ""),
        f"{seal.linked(prefix, 'measure')[1:]}",
        "",
    ]


def shape_text(type: TensorType) -> str:
    """A tensor's type for people: ``float32[batch, 16]``."""
    return comment_text(f"{type.dtype}[{', '.join(map(shown, type.shape))}]")


def _parameters(program: Program, prefix: str) -> list[Declaration]:
    tag = prefix.lower()
    results = [Declaration(f"struct {tag}_{name}", name, True) for name in ("shapes", "sizes")]
    return [*parameter(program, prefix), *results]


def _ranked(program: Program) -> list[Tensor]:
    """Inputs and outputs with axes; members of the two structs may have one name."""
    return [t for t in tensors(program) if t.type.rank]


def tensors(program: Program) -> list[Tensor]:
    """Inputs, then outputs."""
    return [*input_tensors(program), *output_tensors(program)]


def _array(tensor: Tensor) -> str:
    return f"int32_t {tensor.member}[{tensor.type.rank}]"


def print_file(program: Program, prefix: str, number: str) -> dict[str, str]:
    """The file of what follows from sizes, by its name; none where all dimensions are fixed."""
    if not program.dims():
        return {}
    declared = _parameters(program, prefix)
    rows = members(program)
    lines = [
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "#include <tvm/runtime/crt/error_codes.h>",
        "",
        *own_include(prefix),
        "",
        *wrap(f"int32_t {prefix}_measure", declared, " {"),
        *(f"  int {symbol.c};" for symbol, _ in rows),
        *refusal("dims == NULL"),
        *checks(program, prefix),
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
        *seal.definition(f"{prefix}_measure", number, declared),
    ]
    return {f"{prefix}_measure.c": "\n".join(lines)}


def _sizes(program: Program, prefix: str) -> list[tuple[str, str]]:
    """The members of the struct of bytes, and what they are."""
    rows = []
    if not pools.io_in_pools(program):
        rows = [(t.member, _bytes_text(t.type)) for t in tensors(program)]
    for pool in pools.lent(program):
        rows.append((f"{pool.name}_workspace_pool", pools.pool_macro(prefix, pool)))
    return rows or [("unused", "0")]


def _bytes_text(type: TensorType) -> str:
    size = type.size
    if not isinstance(size, Extent):
        return str(type.nbytes)
    unit = type.dtype.itemsize
    return f"(size_t){size}" if unit == 1 else f"(size_t){size} * {unit}"
