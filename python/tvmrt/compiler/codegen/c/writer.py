"""Writers of C text: literals, weights, and functions with their parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import numpy as np

from tvmrt.compiler.ir import DType, Node, dtype_of
from tvmrt.compiler.ir.low_bit_types import bit_codes, to_memory_format
from tvmrt.compiler.ir.mmap_constants import mmap_array
from tvmrt.compiler.ir.program import CONSTANT, Access, Buffer, Step, channels_last_order
from tvmrt.compiler.ir.sizes import (
    Symbol,
    SymInt,
    collect_printed_symbols,
    data_dependent_symbols,
    extent_text,
    symbols_of,
)

from .formatting import Declaration
from .naming import Symbols


def literal(value: object, dtype: DType) -> str:
    """Return a C literal that reads back as exactly this value."""
    if dtype.is_float:
        return _float_literal(float(value), dtype.bits)
    if dtype.is_half:
        return str(int(np.asarray(value, dtype.numpy).view(np.uint16)))  # bit pattern
    if dtype.is_low_bit:
        is_code = isinstance(value, (int, np.integer))
        return str(int(value if is_code else bit_codes(np.asarray(value))))
    number = int(value)
    if dtype.bits == 64:
        if number == -(1 << 63):
            return "INT64_MIN"
        suffix = "" if abs(number) < 1 << 31 else ("LL" if dtype.is_signed else "ULL")
        return f"{number}{suffix}"
    if number == -(1 << 31):
        return "INT32_MIN"
    return f"{number}u" if number >= 1 << 31 else str(number)


def _float_literal(number: float, bits: int) -> str:
    if np.isnan(number):
        return "NAN"
    if number in (float("inf"), float("-inf")):
        return "INFINITY" if number > 0 else "-INFINITY"
    text = str(np.float32(number)) if bits == 32 else repr(number)
    if "." not in text and "e" not in text:
        text += ".0"
    return text + ("f" if bits == 32 else "")


def comment_text(text: str) -> str:
    """Return a network's name as comment text that cannot end the comment."""
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return clean.replace("*/", "*?").replace("/*", "?*").replace("??", "? ?").rstrip("\\")


def error_location(node: Node, operand: str) -> str:
    """Return a C string that locates a run-time error: operator, node and operand."""
    name = comment_text(node.name)
    short = name if len(name) <= 60 else f"{name[:57]}..."
    return c_string(f"{node.op} '{short}', {operand}")


def c_string(text: str) -> str:
    """Return a C string literal; characters other than printable ASCII are escaped."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("??", "?\\?")
    printable = (c if c.isascii() and c.isprintable() else _octal(c) for c in quoted)
    return '"' + "".join(printable) + '"'


def _octal(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "replace"))


class ConstantPool:
    """Constant arrays of a program; equal arrays are stored once, or with ``merge=False`` only
    equal arrays of one name."""

    def __init__(self, merge: bool = True) -> None:
        self._by_content: dict[tuple, Buffer] = {}
        self._merge = merge

    def add(self, array: np.ndarray, name: str) -> Buffer:
        """Return the buffer of an array's elements in memory order."""
        data = np.ascontiguousarray(array).reshape(-1)
        # hash the content: a key made of the bytes would keep a second copy of the array
        key = (data.dtype.str, data.size, hashlib.sha256(data.view(np.uint8)).digest())
        key = key if self._merge else (*key, name)
        if key not in self._by_content:
            data = mmap_array(data)
            self._by_content[key] = Buffer(name, dtype_of(data), data.size, CONSTANT, data)
        return self._by_content[key]

    def buffers(self) -> list[Buffer]:
        return list(self._by_content.values())


@dataclass
class Parameter:
    """One parameter of a function and its argument: an offset in ``buffer``; without a buffer, the
    size of a dimension; the device of the memory of ``device_of``; or the ``ticket`` with which a
    caller waits for a step that was started."""

    name: str
    buffer: Buffer | None
    offset: SymInt = 0
    const: bool = True
    restrict: bool = True
    device_of: Buffer | None = None
    ticket: Step | None = None

    def declare(self) -> Declaration:
        if self.ticket is not None:
            return Declaration("void", f"*{self.name}", True)
        if self.device_of is not None:
            return Declaration("DLDevice", self.name)
        if self.buffer is None:
            return Declaration("int", self.name)
        return Declaration(self.buffer.dtype.c, self.name, True, self.const, self.restrict)


@dataclass
class Function:
    """Printed function: its parameters in order and its text."""

    symbol: str
    step: Step
    parameters: list[Parameter]
    text: str
    definitions: list[object] = field(default_factory=list)
    includes: set[str] = field(default_factory=set)
    macros: dict[str, str] = field(default_factory=dict)
    target_fields: set[str] = field(default_factory=set)
    statics: list[str] = field(default_factory=list)

    @property
    def offset_symbols(self) -> set[str]:
        """C names that a caller needs for the positions of the arguments."""
        return {symbol.c for symbol in symbols_of(*(p.offset for p in self.parameters))}


@dataclass(frozen=True)
class NetworkContext:
    """Context that a network's functions share: constants, symbols, whether threads may be used,
    and whether it is for a microcontroller (``board``).

    With ``replaceable`` weights, the text depends on their values only where it has to. With
    ``paired_constants``, each constant that an operator defines exists twice, for comparisons.
    """

    weights: ConstantPool
    symbols: Symbols
    threads: bool
    board: bool = False
    replaceable: bool = False
    paired_constants: bool = False


class FunctionWriter:
    """Writer of one function. ``read(i)`` and ``write(i)`` name the pointers of its operands."""

    def __init__(self, symbol: str, step: Step, common: NetworkContext) -> None:
        self.symbol = symbol
        self.step = step
        self.common = common
        self.threads = common.threads
        self.statics: list[str] = []  # static symbols other than the function's
        self.includes: set[str] = set()
        self.macros: dict[str, str] = {}
        self.definitions: list[object] = []
        self.target_fields = {"lanes"}  # fields of Target that the text was optimised for
        self.helpers: list[str] = []
        self.lines: list[str] = []
        self.printed: set[Symbol] = set()  # symbols that the text names
        # set if the body is a task over [begin, end) of this extent; then the maximum of threads
        self.parallel_extent: SymInt | None = None
        self.max_threads = 0  # 0: all
        # lines that the caller runs after all tasks, and names of operands that only they read
        self.lines_after_tasks: list[str] = []
        self.names_after_tasks: list[str] = []
        self._ended: list[list[str]] = []  # lines that end with a return statement
        self._depth = 1
        self._constants: dict[Buffer, Parameter] = {}
        self._names: set[str] = set()
        self._named_reads: set[int] = set()
        self.symbols = sorted(step.symbols(with_offsets=False), key=lambda symbol: symbol.name)
        self._names.update(symbol.c for symbol in self.symbols)
        self._moved: list[tuple[Parameter, SymInt]] = []
        self._devices: dict[Buffer, Parameter] = {}
        self._tickets: list[Parameter] = []
        self._numbers: list[Parameter] = []
        self._counts = {s: self._dim_parameter(s, at) for s, at in step.data_dependent_dims.items()}
        aliased_reads = {r for r, _ in step.in_place}
        aliased_writes = {w for _, w in step.in_place}
        self.reads = self._operands("x", step.reads, True, aliased_reads)
        self.writes = self._operands("y", step.writes, False, aliased_writes)
        self.scratch_parameter: Parameter | None = None
        if step.scratch is not None:
            self.scratch_parameter = Parameter(self.fresh("scratch"), step.scratch, 0, False)

    def _operands(
        self, stem: str, accesses: Sequence[Access], const: bool, aliased: set[int]
    ) -> list[Parameter]:
        names = [f"{stem}{i}" for i in range(len(accesses))] if len(accesses) > 1 else [stem]
        fields = []
        for i, (name, a) in enumerate(zip(names, accesses)):
            # a data-dependent offset is added in the function, which receives the count
            late = bool(data_dependent_symbols(a.at.offset))
            offset = 0 if late else a.at.offset
            parameter = Parameter(self.fresh(name), a.buffer, offset, const, i not in aliased)
            fields.append(parameter)
            if late:
                self._moved.append((parameter, a.at.offset))
        return fields

    def fresh(self, name: str) -> str:
        """Return a parameter or variable name that is unique in the function."""
        stem, count = name.rstrip("0123456789"), 1
        candidate = name
        while candidate in self._names:
            count += 1
            candidate = f"{stem}{count}"
        self._names.add(candidate)
        return candidate

    def read(self, index: int) -> str:
        return self.reads[index].name

    def write(self, index: int = 0) -> str:
        return self.writes[index].name

    def name_read(self, index: int, name: str) -> str:
        """Name an operand's pointer after its role in the literature.

        An operand of two roles keeps the first name.
        """
        if index not in self._named_reads:
            self._named_reads.add(index)
            self.reads[index].name = self.fresh(name)
        return self.reads[index].name

    def name_write(self, index: int, name: str) -> str:
        self.writes[index].name = self.fresh(name)
        return self.writes[index].name

    def scratch(self) -> str:
        """Return the pointer to the step's scratch bytes (uint8_t)."""
        if self.scratch_parameter is None:
            raise ValueError(f"{self.symbol}: scratch() has no arena bytes, but emit() uses them")
        return self.scratch_parameter.name

    def constant(self, name: str, array: np.ndarray) -> str:
        """Add a constant array to the weights and return the pointer to it."""
        buffer = self.common.weights.add(to_memory_format(array), f"{self.step.name}_{name}")
        if buffer not in self._constants:
            self._constants[buffer] = Parameter(self.fresh(name), buffer)
        return self._constants[buffer].name

    def static_symbol(self, ending: str) -> str:
        """Return a symbol for a static object that only this function uses."""
        self.statics.append(self.common.symbols.derived(self.symbol, ending))
        return self.statics[-1]

    def embed_function(self, function: Function) -> None:
        """Print a helper function before this one, with all that it needs. Its constants become
        constants of this function, too."""
        self.helper(function.text + "\n")
        self.statics += [function.symbol, *function.statics]
        self.includes |= function.includes
        self.target_fields |= function.target_fields
        self.macros.update(function.macros)
        for definition in function.definitions:
            self.define(definition)
        for parameter in function.parameters:
            buffer = parameter.buffer
            if buffer is not None and buffer.kind == CONSTANT and buffer not in self._constants:
                self._constants[buffer] = Parameter(self.fresh(parameter.name), buffer)

    @property
    def constants(self) -> list[Buffer]:
        """Constant arrays that the function reads, in parameter order."""
        return list(self._constants)

    def take_constants(self, buffers: Sequence[Buffer]) -> None:
        """Use these constants as parameters: the function's own and those of functions that share
        its signature."""
        own = self._constants
        foreign = (b for b in buffers if b not in own)
        others = {b: Parameter(self.fresh("unused"), b) for b in foreign}
        self.lines[:0] = [f"  (void){parameter.name};" for parameter in others.values()]
        self._constants = {b: own.get(b) or others[b] for b in buffers}

    def passed_constant(self, buffer: Buffer) -> str:
        """Return the pointer to a constant of an adopted function."""
        return self._constants[buffer].name

    def include(self, *headers: str) -> None:
        """Include kernel headers, named relative to ``kernels/``; empty names are ignored."""
        self.includes.update(filter(None, headers))

    def macro(self, name: str, value: str) -> None:
        """Define a macro before the file's kernel headers; a program has one value of each."""
        self.macros[name] = value

    def define(self, definition: object) -> None:
        """Add text at file scope before the function, or an object that prints it; equal
        definitions are printed once per file."""
        if definition not in self.definitions:
            self.definitions.append(definition)

    def helper(self, text: str) -> None:
        """Print a static function or type, used by this function only, before it."""
        self.helpers.append(text)

    def line(self, text: str = "") -> None:
        for part in text.split("\n"):
            self.lines.append(("  " * self._depth + part) if part else "")

    def result(self, code: str) -> None:
        """Return a code, a C expression of type int32_t; outside of blocks, no line may follow."""
        self.line(f"return {code};")
        if self._depth == 1:
            self._ended.append(self.lines)

    def close(self) -> None:
        """End the body, and the lines after its tasks, with ``return 0`` unless they return."""
        for lines in filter(None, (self.lines, self.lines_after_tasks)):
            if not any(lines is ended for ended in self._ended):
                lines.append("  return 0;")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Print ``head {`` ... ``}`` with the lines between indented."""
        self.line(f"{head} {{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")

    def loop(self, name: str, last: object, first: object = 0) -> AbstractContextManager[None]:
        """Return a block that loops over ``name`` from ``first`` to ``last``, exclusive."""
        return self.block(f"for (int {name} = {first}; {name} < {last}; ++{name})")

    @contextmanager
    def after_tasks(self, names: Iterable[str]) -> Iterator[None]:
        """Print lines that the caller alone runs after the parallel tasks; the operands in
        ``names`` are used only there."""
        self.names_after_tasks.extend(names)
        task, self.lines = self.lines, self.lines_after_tasks
        with collect_printed_symbols():  # collected apart: the tasks do not name these
            yield
        self.lines = task

    def parameters(self) -> list[Parameter]:
        scratch = [self.scratch_parameter] if self.scratch_parameter else []
        sizes = [Parameter(symbol.c, None) for symbol in self.symbols if symbol.source is None]
        operands = [*self.reads, *self.writes, *self._constants.values()]
        return [
            *operands,
            *scratch,
            *self._counts.values(),
            *sizes,
            *self._devices.values(),
            *self._tickets,
            *self._numbers,
        ]

    def ticket(self) -> str:
        """Return a pointer to where the function stores the ticket that its caller waits with."""
        self._tickets = [Parameter(self.fresh("ticket"), None, ticket=self.step)]
        return self._tickets[0].name

    def int_parameter(self, name: str) -> str:
        """Add an int parameter whose argument the compiler generates."""
        self._numbers.append(Parameter(self.fresh(name), None))
        return self._numbers[-1].name

    def device_of(self, parameter: Parameter) -> str:
        """Return the DLDevice parameter with the device of an operand's memory."""
        name = self.fresh(f"{parameter.name}_device")
        added = Parameter(name, None, device_of=parameter.buffer)
        return self._devices.setdefault(parameter.buffer, added).name

    def _dim_parameter(self, symbol: Symbol, access: Access) -> Parameter:
        # not restrict: the pointer may alias a result that is computed in place
        name = self.fresh(f"{symbol.c}_found")
        return Parameter(name, access.buffer, access.at.offset, restrict=False)

    def dim_lines(self) -> list[str]:
        """Return the first lines of the body: data-dependent dimensions, and a mention of symbols
        that the other lines do not name."""
        counts = [f"  const int {s.c} = *{p.name};" for s, p in self._counts.items()]
        moves = [f"  {p.name} += {offset};" for p, offset in self._moved]
        named = self.printed | symbols_of(*(offset for _, offset in self._moved))
        unused = [f"  (void){s.c};" for s in self.symbols if s not in named]
        return [*counts, *moves, *unused]

    def bound_lines(self) -> list[str]:
        """Return lines with bounds of symbols, from which kernels decide whether threads pay."""
        if not self.threads or not self.includes:
            return []
        symbols = [s for s in self.symbols if s.source is None]
        if symbols:
            self.include("parallel.h")
        self.printed.update(symbols)
        return [f"  TVMRT_ASSUME_BOUNDS({s.c}, {s.low}, {s.high});" for s in symbols]

    @property
    def storage(self) -> str:
        """Storage class of a struct of the step's extents: static if no extent is symbolic."""
        return "const" if self.symbols else "static const"


def access_note(access: Access) -> str:
    """Return text like ``float32[1, 8, 6, 6]``, plus the axis order if it is not row-major."""
    order = access.at.order()
    shape = ", ".join(map(extent_text, access.shape))
    text = f"{access.dtype}[{shape}]"
    if order == tuple(range(len(order))):
        return text
    if order == channels_last_order(len(order)) and len(order) > 2:
        return f"{text}, channels last"
    return f"{text}, in memory by axes {', '.join(map(str, order))}"
