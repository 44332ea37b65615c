"""Tracing in firmware networks: cycles of operators and digests of tensors.

It is generated only on request. Records and their dump are described in ``tvm/runtime/trace.h``;
``traced_tensors`` and ``network_hash`` let readers of dumps interpret the numbers in them.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from tvmrt.compiler.ir.program import CONSTANT, Access, Program, dense_access
from tvmrt.compiler.ir.strided import Strided
from tvmrt.error import UnsupportedError

from ..c.formatting import GAP, LINE, braces, include_guard, wrap
from ..c.writer import Parameter, comment_text
from ..kernel_features import RUNTIME
from . import call_lines
from .tensor_names import own_include

MAX_AXES = 8  # as in kernels/trace.h
INPUT_NUMBER = 0xFFFF
TARGET_BYTES = 20
_ADD_PARAMETERS = ("int32_t row", "uint32_t cycles", "const void *data")
MAX_INDENT = 4  # maximum indentation of operator calls
_KINDS = {0: "SIGNED", 1: "UNSIGNED", 2: "FLOAT", 4: "BFLOAT"}  # by DLPack type code


@dataclass(frozen=True)
class TracedTensor:
    """Row of the generated table: one result of an operator, or one input."""

    op: int
    result: int
    name: str
    access: Access | None  # None if only cycles are recorded


def traced_tensors(program: Program, record: bool) -> list[TracedTensor]:
    """Return the rows in the order of records: inputs, then the results of each operator."""
    steps = list(enumerate(program.steps))
    if not record:
        return [TracedTensor(i, 0, step.name, None) for i, step in steps]
    rows = [
        TracedTensor(
            INPUT_NUMBER, i, buffer.name, dense_access(buffer.name, buffer.dtype, type.shape)
        )
        for i, (buffer, type) in enumerate(zip(program.inputs, program.input_types))
    ]
    for i, step in steps:
        rows += [TracedTensor(i, j, step.name, access) for j, access in enumerate(step.writes)]
    return rows


def network_hash(program: Program, sources) -> int:
    """Return a hash that is equal for equal operators with equal weights."""
    parts = []
    for step in program.steps:
        results = ", ".join(f"{a.dtype}{list(a.shape)}{list(a.at.strides)}" for a in step.writes)
        parts.append(f"{step.name} {step.group.root.op}: {results}\n")
    digest = zlib.crc32("".join(parts).encode())
    for buffer in dict.fromkeys(p.buffer for f in sources.functions for p in f.parameters):
        if buffer is not None and buffer.kind == CONSTANT:
            digest = zlib.crc32(buffer.data.tobytes(), digest)
    return digest


class Tracer:
    """Printer of C lines that record a run, inside the lines that an option of a plug-in adds."""

    def __init__(self, program: Program, prefix: str, sources, options, arguments) -> None:
        self.program, self.prefix = program, prefix
        self.options, self.arguments = options, arguments
        self.added = call_lines.make(program, prefix, sources, options, arguments)
        rows = traced_tensors(program, options.record) if options.traced else []
        self._row = {(row.op, row.result): i for i, row in enumerate(rows)}

    def includes(self) -> list[str]:
        """Return the headers that the lines need."""
        own = [f'#include "{self.prefix}_trace.h"'] if self.options.traced else []
        return [*own, *self.added.includes()]

    def locals(self) -> list[str]:
        """Return declarations at the top of a function that calls operators."""
        return ["  uint32_t begin, cycles;"] if self.options.profile else []

    def begin(self) -> list[str]:
        """Return the lines at the start of a run."""
        if not self.options.traced:
            return self.added.begin()
        lines = [*self.added.begin(), f"{self.prefix}_trace_begin();"]
        if self.options.record:
            for i, buffer in enumerate(self.program.inputs):
                pointer = self.arguments.expression(Parameter("", buffer))
                lines += self._add(INPUT_NUMBER, i, pointer, "0")
        return lines

    def call_wrapper(self, index: int) -> tuple[list[str], list[str]]:
        """Return the lines before and after an operator's call."""
        first, last = self.added.around(index)
        before, after = self._traced(index)
        return [*first, *before], [*after, *last]

    def _traced(self, index: int) -> tuple[list[str], list[str]]:
        if not self.options.traced:
            return [], []
        before, after, cycles = [], [], "0"
        if self.options.profile:
            before = ["begin = tvmrt_platform_cycles();"]
            after = ["cycles = tvmrt_platform_cycles() - begin;"]
            cycles = "cycles"
        if not self.options.record:
            return before, [*after, *self._add(index, 0, "NULL", cycles)]
        for result, access in enumerate(self.program.steps[index].writes):
            pointer = self.arguments.expression(Parameter("", access.buffer, access.at.offset))
            after += self._add(index, result, pointer, cycles)
        return before, after

    def _add(self, op: int, result: int, pointer: str, cycles: str) -> list[str]:
        passed = [str(self._row[op, result]), cycles, pointer]
        return wrap(f"{self.prefix}_trace_add", passed, ";", columns=LINE - 2 * MAX_INDENT)


def declarations(program: Program, prefix: str, options) -> list[str]:
    """Return header lines of the network with the trace's ring buffer."""
    upper, name = prefix.upper(), f"{prefix.lower()}_trace"
    # as requested, or the records of one run
    count = options.trace_records or max(len(traced_tensors(program, options.record)), 1)
    return [
        "/*! \\brief Capacity of the ring buffer, in records. */",
        f"#define {upper}_TRACE_RECORDS {count}",
        "",
        "/*!",
        " * \\brief Trace of the latest runs; see tvm/runtime/trace.h.",
        " *",
        " * Its bytes are a dump for `tvmrt replay`. Overwrite header.magic to clear it.",
        " */",
        f"struct {name} {{",
        "  tvmrt_trace_header header;",
        f"  tvmrt_trace_record records[{upper}_TRACE_RECORDS];",
        "};",
        f"extern struct {name} {prefix}_trace;",
        "",
    ]


def print_files(program: Program, prefix: str, sources, options, target) -> dict[str, str]:
    """Return the files that tracing adds, by name."""
    return {
        f"{prefix}_trace.h": _private_header(prefix, options),
        f"{prefix}_trace.c": _trace_file(program, prefix, sources, options, target),
    }


def _private_header(prefix: str, options) -> str:
    """Return the text of the private header, with the functions that main calls."""
    platform = ["#include <tvm/runtime/platform.h>"] if options.profile else []
    lines = [
        "#include <stdint.h>",
        *platform,
        "",
        f'#include "{prefix}_ops.h"',
        "",
        "/* A run begins. */",
        f"TVMGEN_LOCAL void {prefix}_trace_begin(void);",
        "/* Record the tensor in this row of the table, whose elements are at data. */",
        *wrap(f"TVMGEN_LOCAL void {prefix}_trace_add", _ADD_PARAMETERS, ";"),
    ]
    return include_guard(f"{prefix.upper()}_TRACE_H_", lines)


def _trace_file(program: Program, prefix: str, sources, options, target) -> str:
    """Return the text of the file: the table of tensors, the ring buffer and both functions."""
    lines = [
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        f"#define {RUNTIME.macro_if_absent} 1",
        "#include <tvm/runtime/kernels/trace.h>",
        "",
        *own_include(prefix),
        f'#include "{prefix}_trace.h"',
        "",
        *_table(traced_tensors(program, options.record)),
        *_initial_header(program, prefix, sources, options, target),
        f"struct {prefix.lower()}_trace {prefix}_trace TVMGEN_NOINIT;",
        "",
        f"void {prefix}_trace_begin(void) {{",
        f"  tvmrt_trace_prepare(&{prefix}_trace.header, &fresh);",
        "}",
        "",
        *wrap(f"void {prefix}_trace_add", _ADD_PARAMETERS, " {"),
        f"  struct {prefix.lower()}_trace *ring = &{prefix}_trace;",
        "  tvmrt_trace_record *record = tvmrt_trace_take(&ring->header, ring->records);",
        "  record->op = tensors[row].op;",
        "  record->result = tensors[row].result;",
        "  record->cycles = cycles;",
        *(
            ["  tvmrt_trace_digest(record, &tensors[row], data);"]
            if options.record
            else ["  record->hash = record->min = record->max = 0;", "  (void)data;"]
        ),
        "}",
        "",
    ]
    return "\n".join(lines)


def _table(rows: list[TracedTensor]) -> list[str]:
    names: dict[tuple, str] = {}
    axes_lines, lines = [], []
    for row in rows:
        kind, size, axes = "UNSIGNED", 1, ()
        if row.access is not None:
            axes = merged_axes(row.access.at)
            if len(axes) > MAX_AXES:
                raise UnsupportedError(
                    f"{row.name} writes a tensor with gaps along more than {MAX_AXES} axes, which "
                    "cannot be recorded; compile without record"
                )
            kind, size = _KINDS.get(row.access.dtype.code, "UNSIGNED"), row.access.dtype.itemsize
        if axes not in names:
            names[axes] = f"axes{len(names)}" if axes else "NULL"
            if axes:
                numbers = ", ".join(f"{extent}, {stride}" for extent, stride in axes)
                axes_lines.append(f"static const int32_t {names[axes]}[] = {{{numbers}}};")
        members = [row.op, row.result, f"TVMRT_TRACE_{kind}", size, len(axes), names[axes]]
        lines.append(f"  {braces(members)},{GAP}/* {comment_text(row.name)} */")
    lines = lines or ["  {0, 0, TVMRT_TRACE_UNSIGNED, 1, 0, NULL},"]
    about = "/* Extent and stride of each axis, innermost first. */"
    return [
        *([about, *axes_lines, ""] if axes_lines else []),
        "/* Traced tensors: the operator's index, or 65535 for inputs; see trace.h. */",
        "static const tvmrt_traced_tensor tensors[] = {",
        *lines,
        "};",
        "",
    ]


def merged_axes(at: Strided) -> tuple[tuple[int, int], ...]:
    """Return extent and stride of each axis, innermost first, with contiguous axes merged."""
    if not at.size:
        return ((0, 1),)
    merged: list[tuple[int, int]] = []
    for axis in reversed(at.order()):
        extent, stride = at.shape[axis], at.strides[axis]
        if extent == 1:
            continue
        if merged and merged[-1][0] * merged[-1][1] == stride:
            merged[-1] = (merged[-1][0] * extent, merged[-1][1])
        else:
            merged.append((extent, stride))
    return tuple(merged)


def _initial_header(program: Program, prefix: str, sources, options, target) -> list[str]:
    what = ["TVMRT_TRACE_CYCLES"] * options.profile + ["TVMRT_TRACE_VALUES"] * options.record
    return [
        "/* The empty ring buffer. */",
        "static const tvmrt_trace_header fresh = {",
        f"    TVMRT_TRACE_MAGIC, TVMRT_TRACE_VERSION, {' | '.join(what)},",
        f'    {network_hash(program, sources):#010x}u, "{target.name[: TARGET_BYTES - 1]}",',
        f"    {prefix.upper()}_TRACE_RECORDS, 0, 0,",
        "};",
        "",
    ]
