"""ONNX loops as C loops that call the steps of the body in each iteration."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tvmrt.compiler.ir import Graph
from tvmrt.compiler.ir.loop import Growth
from tvmrt.compiler.ir.program import ALIGN_BYTES, ARENA, CONSTANT, Buffer, Program, Step
from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.sizes import Symbol, SymInt, allocation_extent, symbols_of, upper_bound
from tvmrt.compiler.ir.sizes.extent import INT_MAX, Extent, is_unbounded
from tvmrt.compiler.ir.tensor_type import TensorType

from ..c.formatting import byte_size, plus
from ..c.function import print_function
from ..c.inputs import input_pointer
from ..c.writer import Function, FunctionWriter, Parameter, error_location
from ..entries.aot import checked_call
from ..entries.arguments import guard_text
from ..lowering import Scratch, lowers
from ..lowering_protocols import Nested


@lowers("loop")
class LoopLowering(Nested):
    """Loop. Loop-carried values alternate between the result and a second buffer; scan outputs are
    written to their final place. The body has an arena in the step's scratch memory, or the loop
    allocates it, if iterations find sizes without a bound."""

    program: Program

    def build_subprograms(self, build: Callable[[Graph], Program]) -> None:
        self.program = build(self.node.attrs["body"])
        written = {access.buffer for step in self.program.steps for access in step.writes}
        self.found = {
            symbol: access
            for step in self.program.steps
            for symbol, access in step.data_dependent_dims.items()
            if access.buffer in written
        }
        arena_bytes = self.program.arena_bytes
        self.allocates = not self.found.keys().isdisjoint(symbols_of(arena_bytes))
        carried = self.node.outputs[: self.node.attrs["carried"]]
        # scratch offsets of the second buffers of loop-carried values
        self.second_buffers: list[SymInt] = []
        end = 0 if self.allocates else round_up(arena_bytes, ALIGN_BYTES)
        for value in carried:
            self.second_buffers.append(end)
            end += round_up(_carried_bytes(value.type), ALIGN_BYTES)
        self.condition_offset = end
        self.end = end + ALIGN_BYTES

    def scratch(self, step: Step) -> Scratch:
        return Scratch(self.end, (self.program.thread_scratch_bytes,))

    def emit(self, step: Step, f: FunctionWriter) -> None:
        functions = [self._print_body_function(f, inner) for inner in self.program.steps]
        printer = _Printer(self, step, f, functions)
        printer.print()
        if self.allocates:
            free = f"(void)tvmrt_scratch_free({printer.arena});"
            failed = f"{{ {free} return -1; }}"
            f.lines[:] = [line.replace("return -1;", failed) for line in f.lines]
            f.line(free)

    def _print_body_function(self, f: FunctionWriter, inner: Step) -> Function:
        symbol = f.common.symbols.function(inner.name)
        function = print_function(symbol, inner, f.common, "static int32_t")
        f.embed_function(function)
        return function


def _carried_bytes(type: TensorType) -> SymInt:
    if not is_unbounded(type.size):
        return max(type.nbytes, 1)
    return type.dtype.nbytes(allocation_extent(type.size))


def _as_double(extent: Extent) -> str:
    """Return an extent as a C expression without integer overflow."""
    terms = ((f"{k}.0", *(atom.text(False) for atom in atoms)) for atoms, k in extent.terms)
    return " + ".join(map(" * ".join, terms))


class _Printer:
    """Printer of one loop step."""

    def __init__(
        self, lowering: LoopLowering, step: Step, f: FunctionWriter, functions: list[Function]
    ) -> None:
        self.lowering, self.step, self.f, self.functions = lowering, step, f, functions
        self.node, self.program = lowering.node, lowering.program
        attrs = self.node.attrs
        self.carried, self.sliced = attrs["carried"], attrs["sliced"]
        self.conditional, self.upper_bound = attrs["conditional"], attrs["most"]
        self.backward = attrs["backward"]
        self.number = attrs["round"].c if "round" in attrs else ""
        self.growing_extents: tuple[Growth, ...] = attrs.get("grows", ())
        inside = symbols_of(*(each.after for each in self.growing_extents))
        inside |= symbols_of(self.program.arena_bytes)
        self.counts = {s: access for s, access in lowering.found.items() if s in inside}
        self.passed = {p.name for function in functions for p in function.parameters}
        self.passed |= {name for function in functions for name in function.offset_symbols}
        self.pointers: dict[Buffer, str] = {}  # pointers to the body's inputs and outputs

    def print(self) -> None:
        f = self.f
        self.scratch = self.arena = f.scratch()
        if self.lowering.allocates:
            f.include("parallel.h")
            self.arena = f.fresh("arena")
            f.line(f"uint8_t *{self.arena} = NULL;")
            f.line(f"int64_t {self.arena}_bytes = 0;")
        has_arena = self.program.arena_bytes != 0 and not self.lowering.allocates
        if not (self.conditional or self.carried or has_arena):
            f.line(f"(void){self.scratch};")
        for each in self.growing_extents:
            f.line(f"int {each.symbol.c} = {each.first};")
        self.iteration = f.fresh("done")
        self._print_carried()
        self._print_head()
        with f.block(f"for (; {self.condition}; ++{self.iteration})"):
            self._print_limit()
            if self.number in self.passed or self.number in self._growing:
                f.line(f"const int {self.number} = (int){self.iteration};")
            available: set[Symbol] = set()
            self._print_growth(available)
            self._print_pointers()
            for inner, function in zip(self.program.steps, self.functions):
                self._print_allocation(inner)
                self._print_call(inner, function)
                self._print_counts(inner, available)
            self._print_buffer_swap()
            for each in self.growing_extents:
                f.line(f"{each.symbol.c} = {each.symbol.c}_after;")
        for i in range(self.carried):
            y, nbytes = f.write(i), self._nbytes(i)
            f.line(f"if ({self.current[i]} != {y}) memcpy({y}, {self.current[i]}, {nbytes});")
        last = len(self.step.writes) - 1 - len(self.growing_extents)
        f.line(f"*{f.write(last)} = {self.iteration};")
        for i, each in enumerate(self.growing_extents):
            f.line(f"*{f.write(last + 1 + i)} = {each.symbol.c};")

    def _nbytes(self, index: int, first: bool = False) -> str:
        """Return the bytes of a loop-carried value in this iteration, or before the first."""
        type = self.node.attrs["body"].inputs[1 + index].type
        if first:
            type = self.node.inputs[2 + index].type
        return byte_size(type.size, type.dtype.c)

    @property
    def _growing(self) -> set[str]:
        """Symbols that the extents after an iteration depend on."""
        return {s.c for each in self.growing_extents for s in symbols_of(each.after)}

    def _print_counts(self, inner: Step, available: set[Symbol]) -> None:
        """Print data-dependent dimensions of a body step that later extents depend on."""
        written = {access.buffer for access in inner.writes}
        for symbol, access in self.counts.items():
            if access.buffer in written:
                position = self.expression(
                    Parameter(symbol.c, access.buffer, access.at.offset, True)
                )
                guard = f"{guard_text(inner.guard, self)} ? " if inner.guard is not None else ""
                value = f"{guard}*({position}){' : 0' if guard else ''}"
                self.f.line(f"const int {symbol.c} = {value};")
                self._print_growth(available, {symbol})

    def _print_growth(self, available: set[Symbol], new_symbols: Collection[Symbol] = ()) -> None:
        """Print the extents after this iteration, with checks of the available memory, if they
        depend on available symbols, one of them new; new symbols become available."""
        f = self.f
        available.update(new_symbols)
        for each in self.growing_extents:
            needed = self.counts.keys() & symbols_of(each.after)
            if not needed <= available or (new_symbols and needed.isdisjoint(new_symbols)):
                continue
            f.include("op/nonzero.h")
            where = error_location(self.node, f"axis {each.axis} of what it carries")
            after = f"{each.symbol.c}_after"
            f.line(f"int32_t {after};")
            call = f"tvmrt_count({each.after}, 0, {each.upper_bound}, {where}, &{after})"
            f.line(f"if ({call} != 0) return -1;")

    def _print_carried(self) -> None:
        """Print both buffers of each loop-carried value, and copy its initial value."""
        f = self.f
        self.current, self.next = [], []
        for i in range(self.carried):
            kind = self.node.outputs[i].dtype.c
            x = input_pointer(f, 2 + i, f"first{i}")
            current, following = f.fresh(f"now{i}"), f.fresh(f"next{i}")
            f.line(f"{kind} *{current} = {f.write(i)};")
            position = self._in_scratch(self.lowering.second_buffers[i])
            f.line(f"{kind} *{following} = ({kind} *)(void *)({position});")
            f.line(f"memcpy({current}, {x}, {self._nbytes(i, True)});")
            self.current.append(current)
            self.next.append(following)

    def _print_head(self) -> None:
        f = self.f
        limit, loop_condition = self.node.inputs[:2]
        counted = limit is not None or (loop_condition is None and not self.conditional)
        conditions = []
        if counted:
            limit_text = limit and f"*{input_pointer(f, 0, 'limit')}"
            conditions = [f"{self.iteration} < {limit_text or self.upper_bound}"]
        f.line(f"int64_t {self.iteration} = 0;")
        if self.conditional or loop_condition is not None:
            self.loop_condition = f.fresh("go")
            first = "1" if loop_condition is None else f"*{input_pointer(f, 1, 'first_go')}"
            f.line(f"uint8_t {self.loop_condition} = {first};")
            conditions.append(self.loop_condition)
        self.condition = " && ".join(conditions) or "1"

    def _print_limit(self) -> None:
        """Print the check that scan outputs have room for this iteration."""
        collected = len(self.step.writes) - 1 - self.carried - len(self.growing_extents)
        if not collected or self.node.inputs[0] is None:
            return
        f = self.f
        f.include("op/nonzero.h")
        where, unused = error_location(self.node, "the trip count"), f.fresh("unused")
        f.line(f"int32_t {unused};")
        call = f"tvmrt_count({self.iteration} + 1, 0, {self.upper_bound}, {where}, &{unused})"
        f.line(f"if ({call} != 0) return -1;")

    def _print_pointers(self) -> None:
        """Set the pointers to the body's inputs and outputs in this iteration."""
        f, inputs, outputs = self.f, self.program.inputs, self.program.outputs
        self.pointers[inputs[0]] = f"&{self.iteration}"
        first = 1 + self.carried
        for i, buffer in enumerate(inputs[1:first]):
            self.pointers[buffer] = self.current[i]
        for i, buffer in enumerate(inputs[first:]):
            name = f"slice{i}" if i < self.sliced else f"same{i}"
            x = input_pointer(f, 2 + self.carried + i, name)
            self.pointers[buffer] = self._slice(x, buffer, i) if i < self.sliced else x
        results = list(outputs)
        if self.conditional:
            position = self._in_scratch(self.lowering.condition_offset)
            self.pointers[results.pop(0)] = f"(uint8_t *)({position})"
        for i, buffer in enumerate(results):
            if i < self.carried:
                self.pointers[buffer] = self.next[i]
            else:
                number = self.sliced + i - self.carried
                self.pointers[buffer] = self._slice(f.write(i), buffer, number)

    def _slice(self, pointer: str, buffer: Buffer, number: int) -> str:
        position = self.iteration
        if self.backward[number]:
            position = f"({self.upper_bound} - 1 - {self.iteration})"
        return plus(pointer, position if buffer.size == 1 else f"{position} * {buffer.size}")

    def _in_scratch(self, offset: SymInt, memory: str = "") -> str:
        memory = memory or self.scratch
        return f"{memory} + {offset}" if offset != 0 else memory

    def expression(self, parameter: Parameter) -> str:
        buffer = parameter.buffer
        if buffer is None:
            return parameter.name
        if buffer.kind == CONSTANT:
            text = self.f.passed_constant(buffer)
        elif buffer.kind == ARENA:
            const = "const " if parameter.const else ""
            start = self._in_scratch(buffer.address, self.arena)
            text = f"({const}{buffer.dtype.c} *)(void *)({start})"
        else:
            text = self.pointers[buffer]
        return f"{text} + {parameter.offset}" if parameter.offset != 0 else text

    def _print_allocation(self, inner: Step) -> None:
        """Let the arena that the loop allocates have the memory that a step writes. The addresses
        are in the order in which sizes are found."""
        f, arena = self.f, self.arena
        for buffer in (inner.scratch, *(access.buffer for access in inner.writes)):
            if not self.lowering.allocates or buffer is None or buffer.kind != ARENA:
                continue
            size = allocation_extent(buffer.size)
            if upper_bound(size) > INT_MAX:
                f.include("op/nonzero.h")
                with f.block(f"if ({_as_double(size)} > {INT_MAX})"):
                    where = error_location(self.node, f"a tensor has over {INT_MAX} elements")
                    f.line(f'TVMAPISetLastError("ValueError: " {where});')
                    f.line("return -1;")
            end = buffer.address + round_up(buffer.dtype.nbytes(size), ALIGN_BYTES)
            with f.block(f"if ({arena}_bytes < {end})"):
                f.line(f"const int64_t bytes = {end};")
                f.line("uint8_t *const larger = (uint8_t *)tvmrt_scratch_alloc(bytes);")
                f.line("if (larger == NULL) return -1;")
                f.line(f"if ({arena} != NULL) memcpy(larger, {arena}, (size_t){arena}_bytes);")
                f.line(f"(void)tvmrt_scratch_free({arena});")
                f.line(f"{arena} = larger;")
                f.line(f"{arena}_bytes = bytes;")

    def _print_call(self, inner: Step, function: Function) -> None:
        passed = [self.expression(p) for p in function.parameters]
        guard = f"{guard_text(inner.guard, self)} && " if inner.guard is not None else ""
        for line in checked_call(f"{guard}{function.symbol}", passed, 2):
            self.f.line(line[4:])

    def _print_buffer_swap(self) -> None:
        """Print the swap of the buffers: results become the inputs of the next iteration."""
        f = self.f
        for i, (current, following) in enumerate(zip(self.current, self.next)):
            kind, swapped = self.node.outputs[i].dtype.c, f.fresh("kept")
            f.line(f"{kind} *{swapped} = {current};")
            f.line(f"{current} = {following};")
            f.line(f"{following} = {swapped};")
        if self.conditional:
            f.line(
                f"{self.loop_condition} = *({self._in_scratch(self.lowering.condition_offset)});"
            )
