"""Dynamic dimensions of a network: their description, and how their run-time sizes are read.

The input shapes determine the sizes of a run. A main function reads them once and passes them on as
integers. In a graph, whose operators see only their own tensors, the first node writes them to a
tensor that the other nodes read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tvmrt.compiler.ir.program import Access, Buffer, Program
from tvmrt.compiler.ir.sizes import (
    INT_MAX,
    Extent,
    Symbol,
    SymInt,
    allocation_extent,
    extent_text,
    linear_form,
    lower_bound,
    symbols_of,
    upper_bound,
)
from tvmrt.compiler.ir.tensor_type import TensorType

from ..c.formatting import LINE, call, counted, print_fields, rows, wrap
from ..c.writer import Parameter, c_string

MAX_LITERAL_CHARACTERS = 80  # characters of a string literal per line, before escaping
NAME = "dims"  # name of the constant in generated C
READER_PARAMETERS = "(const TVMValue *args, int32_t *sizes)"
REPORT_CALL = "refuse_sizes(args, sizes)"


@dataclass(frozen=True)
class DimFunctions:
    """Runtime functions with which generated C reads and checks extents."""

    headers: tuple[str, ...]
    prefix: str  # of the functions' names
    # The functions return error codes. Otherwise sizes are read with inlined comparisons: fast, but
    # more code.
    returns_codes: bool

    def begin(self) -> list[str]:
        """Return the first lines of a function that calls one of these functions."""
        return ["  int32_t code;"] if self.returns_codes else []

    def checked(self, function: str, *arguments: object) -> list[str]:
        """Return lines that call one of these functions and return if it fails."""
        called = call(self.prefix + function, *arguments)
        if self.returns_codes:
            return [f"  code = {called};", "  if (code != 0) return code;"]
        return [f"  if ({called} != 0) return -1;"]


ON_HOSTS = DimFunctions(
    ("#include <tvm/runtime/dims.h>", "#include <tvm/runtime/kernels/op/dims.h>"),
    "tvmrt_",
    returns_codes=False,
)
# operators called by the graph executor of firmware
ON_BOARDS = DimFunctions(
    ("#include <tvm/runtime/crt/graph_dims.h>",), "tvmrt_graph_", returns_codes=True
)


def print_dims(program: Program, prefix: str) -> list[str]:
    """Return C lines with the ``tvmrt_dims`` struct of a network and the function that reads its
    run-time sizes; empty if all dimensions are fixed."""
    if not program.has_dynamic_dims():
        return []
    text = f"{prefix}_dims_text"
    return [
        "/* The same as text, for people and for tools that only read the file. */",
        f"TVM_DLL extern const char {text}[];",
        f"const char {text}[] =",
        *string_lines(json.dumps(describe_dims(program))),
        "",
        *print_dims_struct(program, text),
        *print_reader(program, ON_HOSTS),
    ]


def print_dims_struct(program: Program, text: str) -> list[str]:
    """Return C lines of the constant; ``text`` is the C text of its last member."""
    symbols = program.dims()
    inputs = list(zip(program.input_names, program.input_types))
    outputs = list(zip(program.output_names, program.output_types))
    bounds = [{"name": c_string(s.name), "min": s.low, "max": s.high} for s in symbols]
    struct_fields = {
        "struct_bytes": "sizeof(tvmrt_dims)",
        **counted("dims", "dims_all", symbols),
        **counted("inputs", "dims_inputs", inputs),
        **counted("outputs", "dims_outputs", outputs),
        "text": text,
    }
    return [
        *(rows("static const tvmrt_dim dims_all[]", bounds) if bounds else []),
        *_tensors("input", inputs, _indices(symbols)),
        *_tensors("output", outputs, _indices(symbols)),
        *print_fields(f"static const tvmrt_dims {NAME}", struct_fields),
        "",
    ]


def string_lines(text: str) -> list[str]:
    """Return the lines of a long C string."""
    pieces, at = [], 0
    while at < len(text):
        count = MAX_LITERAL_CHARACTERS
        while len(piece := f"    {c_string(text[at : at + count])}") >= LINE:
            count -= 1
        pieces.append(piece)
        at += count
    return [*pieces[:-1], f"{pieces[-1]};"]


def _tensors(
    kind: str, tensors: Sequence[tuple[str, TensorType]], indices: Mapping[SymInt, int]
) -> list[str]:
    lines, table = [], []
    for i, (name, type) in enumerate(tensors):
        stem = f"dims_{kind}{i}"
        dim = [indices.get(extent, -1) for extent in type.shape] or [-1]
        # each run checks that no extent is negative where bounds do not show it
        low = [max(lower_bound(extent), 0) for extent in type.shape] or [0]
        high = [min(upper_bound(extent), INT_MAX) for extent in type.shape] or [0]
        lines += wrap(f"static const int32_t {stem}_dim[] = ", dim, ";", brackets="{}")
        lines += wrap(f"static const int64_t {stem}_min[] = ", low, ";", brackets="{}")
        lines += wrap(f"static const int64_t {stem}_max[] = ", high, ";", brackets="{}")
        fields = {"name": c_string(name), "rank": type.rank, "dim": f"{stem}_dim"}
        table.append({**fields, "min": f"{stem}_min", "max": f"{stem}_max"})
    if not table:
        return []
    return [*lines, *rows(f"static const tvmrt_dims_tensor dims_{kind}s[]", table)]


def _indices(symbols: Sequence[Symbol]) -> dict[SymInt, int]:
    """Return the index of each dimension by the extent that equals it."""
    return {symbol.extent: i for i, symbol in enumerate(symbols)}


def describe_dims(program: Program) -> dict[str, Mapping]:
    """Describe the dimensions for people and tools: numbers, and expressions as text."""

    def shapes(names: Sequence[str], types: Sequence[TensorType]) -> dict[str, list]:
        return {
            name: [extent_text(n) if isinstance(n, Extent) else n for n in type.shape]
            for name, type in zip(names, types)
        }

    return {
        "dims": {s.name: [s.low, s.high] for s in (*program.dims(), *program.data_dependent_dims)},
        "inputs": shapes(program.input_names, program.input_types),
        "outputs": shapes(program.output_names, program.output_types),
    }


def print_reader(program: Program, calls: DimFunctions) -> list[str]:
    """Return C lines of the function that reads the sizes of a run and checks all other extents of
    the inputs."""
    symbols = program.dims()
    if not symbols:
        return []
    indices = _indices(symbols)
    extents = [
        (f"input{i}->shape[{axis}]", extent, indices.get(extent, -1))
        for i, type in enumerate(program.input_types)
        for axis, extent in enumerate(type.shape)
    ]
    if calls.returns_codes or {dim for *_, dim in extents} < set(range(len(symbols))):
        return _table_reader(program, calls, f"static int32_t read_sizes{READER_PARAMETERS} {{")
    return [
        "/* Find the extent that is out of range and report it. */",
        *_table_reader(program, calls, f"TVMRT_COLD int32_t refuse_sizes{READER_PARAMETERS} {{"),
        *_inlined_reader(program, extents),
    ]


def _table_reader(program: Program, calls: DimFunctions, head: str) -> list[str]:
    """Return the function, beginning with ``head``, that loops over the network's table of
    extents."""
    symbols = program.dims()
    indices = _indices(symbols)
    read, steps = _read_in_steps(program, calls)
    computed = [
        (f"args[{i}]", c_string(name), axis, extent)
        for i, (name, type) in enumerate(zip(program.input_names, program.input_types))
        for axis, extent in enumerate(type.shape)
        if isinstance(extent, Extent) and extent not in indices and (i, axis) not in steps
    ]
    used = symbols_of(*(check[-1] for check in computed))
    return [
        head,
        *calls.begin(),
        *calls.checked("read_dims", f"&{NAME}", "args", "sizes"),
        *read,
        *size_variables(symbols, (i for i, s in enumerate(symbols) if s in used)),
        *(line for each in computed for line in calls.checked("check_extent", *each)),
        "  return 0;",
        "}",
        "",
    ]


def _read_in_steps(program: Program, calls: DimFunctions) -> tuple[list[str], set[tuple[int, int]]]:
    """Return lines that read dimensions from axes such as ``32 * height + 5``, if no axis equals
    the dimension, and those axes as (input, axis)."""
    symbols, lines, axes = program.dims(), [], set()
    every = [
        (i, axis, extent)
        for i, type in enumerate(program.input_types)
        for axis, extent in enumerate(type.shape)
    ]
    indices = _indices(symbols)
    missing = set(symbols) - {symbols[indices[n]] for *_, n in every if n in indices}
    for i, axis, extent in every:
        form = linear_form(extent)
        if form is None or form[0] not in missing:
            continue
        symbol, step, first = form
        missing.remove(symbol)
        axes.add((i, axis))
        name = c_string(program.input_names[i])
        address = f"&sizes[{symbols.index(symbol)}]"
        lines += calls.checked("check_steps", f"args[{i}]", name, axis, step, first, address)
    return lines, axes


def _inlined_reader(program: Program, extents: Sequence[tuple[str, SymInt, int]]) -> list[str]:
    """Return the fast function, with inlined comparisons. ``extents`` has triples of C expression,
    extent and dimension index."""
    symbols = program.dims()
    lines: list[str] = []
    checks: list[str] = []
    compared: list[SymInt] = []
    seen: set[int] = set()
    for at, extent, dim in extents:
        if dim < 0 or dim in seen:
            compared.append(extent)
            checks.append(f"  if ({at} != {extent}) return {REPORT_CALL};")
            continue
        seen.add(dim)
        low, high = symbols[dim].low, symbols[dim].high
        lines.append(f"  if (!tvmrt_is_within({at}, {low}, {high})) return {REPORT_CALL};")
        lines.append(f"  sizes[{dim}] = (int32_t){at};")
    used = symbols_of(*compared)
    ranks = enumerate(type.rank for type in program.input_types)
    return [
        f"static int32_t read_sizes{READER_PARAMETERS} {{",
        *(
            f"  const DLTensor *const input{i} = (const DLTensor *)args[{i}].v_handle;"
            for i in range(len(program.input_types))
        ),
        *(f"  if (input{i}->ndim != {rank}) return {REPORT_CALL};" for i, rank in ranks),
        *lines,
        *size_variables(symbols, (i for i, s in enumerate(symbols) if s in used)),
        *checks,
        "  return 0;",
        "}",
        "",
    ]


def print_size_variables(symbols: Sequence[Symbol]) -> list[str]:
    """Return lines of a function with ``args`` that read each size into a variable of its name."""
    if not symbols:
        return []
    return [
        f"  int32_t sizes[{len(symbols)}];",
        "  if (read_sizes(args, sizes) != 0) return -1;",
        *size_variables(symbols, range(len(symbols))),
    ]


def size_variables(symbols: Sequence[Symbol], indices: Iterable[int]) -> list[str]:
    """Return lines that define variables for some of the sizes."""
    return [f"  const int {symbols[i].c} = sizes[{i}];" for i in indices]


def print_extents(
    outputs: Mapping[int, tuple[str, TensorType]],
    before_the_run: bool = False,
    calls: DimFunctions = ON_HOSTS,
) -> list[str]:
    """Return lines that set the extents of outputs, given by argument index. Before the run, the
    maximum of each data-dependent extent is set, which checks that there is enough memory."""
    lines = []
    for place, (name, type) in outputs.items():
        for axis, extent in enumerate(type.shape):
            if isinstance(extent, Extent):
                now = allocation_extent(extent) if before_the_run else extent
                lines += calls.checked("set_extent", f"args[{place}]", c_string(name), axis, now)
    return lines


def print_data_dependent_dims(counts: Mapping[Symbol, Access], arguments) -> list[str]:
    """Return lines that read data-dependent dimensions after the run."""
    lines = []
    for symbol, access in counts.items():
        address = arguments.expression(Parameter("", access.buffer, access.at.offset))
        lines.append(f"  const int {symbol.c} = *({address});")
    return lines


def output_types(program: Program) -> dict[Buffer, tuple[str, TensorType]]:
    """Return name and type of each output by its buffer."""
    return {
        b: (name, type)
        for b, name, type in zip(program.outputs, program.output_names, program.output_types)
    }


def nbytes_expression(type: TensorType) -> str:
    """Return the C expression for the bytes of a tensor at the sizes of a run."""
    size = type.size
    if not isinstance(size, Extent):
        return str(type.nbytes)
    if type.dtype.is_packed:
        return f"((size_t){size} * {type.dtype.bits} + 7) / 8"
    unit = type.dtype.itemsize
    return f"(size_t){size}" if unit == 1 else f"(size_t){size} * {unit}"
