"""Row-fused chain of layers as one step, with its calls in a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.program import CONSTANT, Access, Buffer, Group, Step, pixel_stride
from tvmrt.compiler.planner.row_fusion_schedule import OUTSIDE, ChainPlan, LayerCall

from ..c.formatting import call, plus, times
from ..c.function import finish_function
from ..c.initializers import print_static
from ..c.writer import Function, FunctionWriter, Parameter
from ..lowering import Lowering, Scratch
from ..lowering_protocols import RowWise
from ..target import Target
from ..window.boards.board_lowering import BoardLowering, print_weights
from .patch_inference import Patch

TABLE_COLUMNS = 88


class RowFusedLowering(Lowering):
    """Row-wise execution of ``steps`` in scratch memory laid out by the plans: once over whole
    rows, or patch by patch."""

    def __init__(
        self, group: Group, target: Target, steps: Sequence[Step], patches: Sequence[Patch]
    ) -> None:
        super().__init__(group, target)
        self.patches = patches
        self.main_operands = [s.lowering.row_operand(s) for s in steps]
        self.producers = producers_by_buffer(steps)
        self.externals = external_operands(steps)
        self.whole_steps = steps

    def _row_steps(self, patch: Patch) -> list[Step]:
        """Return the steps of a patch with their row functions."""
        aliased = [self._aliased_operands(patch.plan, k, s) for k, s in enumerate(patch.steps)]
        return [  # the chain copies their weights
            replace(s.lowering.row_step(s), in_place=pairs, weights_in_ram=0)
            for s, pairs in zip(patch.steps, aliased)
        ]

    def _aliased_operands(self, plan: ChainPlan, k: int, step: Step) -> list[tuple[int, int]]:
        """Return the operands of a layer that may alias its result."""
        x = self.externals[0][1].buffer
        last = k == len(self.main_operands) - 1
        again = [(i, 0) for i, a in enumerate(step.reads) if last and a.buffer is x]
        return [*again, *([(self.main_operands[k], 0)] if plan.overlaps(k) else [])]

    def scratch(self, step: Step) -> Scratch:
        steps = [inner for patch in self.patches for inner in patch.steps]
        kernel_bytes = max(inner.lowering.row_costs(inner).kernel_bytes for inner in steps)
        copies = (s.weights_in_ram for s in self.whole_steps)
        return Scratch(max(patch.plan.nbytes for patch in self.patches), (kernel_bytes, *copies))

    def weights_read_often(self) -> Iterator[tuple[Step, np.ndarray, int]]:
        """Yield the layers whose kernels read weights again for each few pixels, with these
        weights and how many times they read them."""
        for whole, step in zip(self.whole_steps, self.patches[0].steps):
            is_layer = isinstance(step.lowering, BoardLowering)
            read = step.lowering.weights_read_often(step, by_rows=True) if is_layer else None
            if read is not None:
                yield whole, read[0], read[1] * len(self.patches)

    def macs(self) -> int:
        return sum(s.lowering.macs() for patch in self.patches for s in patch.steps)

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("board/row_fusion.h")
        tables: dict[tuple[LayerCall, ...], str] = {}
        printed: list[_Printer] = []
        copies: dict[str, str] = {}
        for patch in self.patches:
            inner = self._row_steps(patch)
            functions = [self._print_row_function(f, s) for s in inner]
            if patch.plan.calls not in tables:
                tables[patch.plan.calls] = _print_table(f, f.fresh("calls"), patch.plan.calls)
            table = tables[patch.plan.calls]
            printed.append(_Printer(self, step, f, patch, inner, functions, table, copies))
        in_ram = any(layer.weights_in_ram for layer in self.whole_steps)
        for layer, weights, _ in self.weights_read_often() if in_ram else ():
            if layer.weights_in_ram:
                copy = copies[f.constant("weights", weights)] = f.fresh("copy")
                f.line(f"const void *const {copy} = {print_weights(f, layer, weights)};")
        images = step.writes[0].shape[0]
        with f.loop("image", images):
            if images == 1:
                f.line("(void)image;")
            for each in printed:
                each.print_calls()

    def _print_row_function(self, f: FunctionWriter, inner: Step) -> Function:
        writer = FunctionWriter(f.common.symbols.function(inner.name), inner, f.common)
        writer.threads = False
        inner.lowering.emit_rows(inner, writer)
        function = finish_function(writer, "static int32_t")
        f.embed_function(function)
        return function


@dataclass(frozen=True)
class _Printer:
    """Printer of the calls of a patch. ``table``: C lvalue of its table of calls. ``copies``: by
    pointers to weights, those to their copies in RAM."""

    chain: RowFusedLowering
    step: Step
    f: FunctionWriter
    patch: Patch
    steps: Sequence[Step]
    functions: Sequence[Function]
    table: str
    copies: Mapping[str, str]

    @property
    def plan(self) -> ChainPlan:
        return self.patch.plan

    def print_calls(self) -> None:
        """Print all calls for one image."""
        f, last = self.f, len(self.functions) - 1
        first, width = self.patch.begins[last], self.steps[last].writes[0].shape[-1]
        where = f"/* columns {first} to {first + width - 1} of the result */"
        with f.block(where) if len(self.chain.patches) > 1 else nullcontext():
            f.line(f"tvmrt_row_fusion_progress at[{last + 1}] = {{{{0, 0, 0}}}};")
            with f.loop("i", len(self.plan.calls)):
                f.line(f"const tvmrt_row_fusion_call *call = &{self.table}[i];")
                f.line("tvmrt_row_fusion_progress *here = &at[call->layer];")
                f.line("int32_t code = 0;")
                with f.block("switch (call->layer)"):
                    for k in range(last + 1):
                        f.line(f"case {k}:" if k < last else "default:")
                        self._print_case(k)
                f.line("if (code != 0) return code;")
                f.line("here->row = (int16_t)(here->row + call->rows);")
                f.line("here->first = (int16_t)(here->first + call->dropped);")

    def _print_case(self, k: int) -> None:
        """Print the call of a layer, with a loop if its function computes a single row."""
        f, inner, function = self.f, self.steps[k], self.functions[k]
        by_row = not any(p.name == "rows" for p in function.parameters)
        if k < len(self.steps) - 1:
            address, nbytes = self._row_address(k), self.plan.layers[k].out_bytes
            arguments = "here", self._first_row(k), address, nbytes
            f.line(f"  {call('tvmrt_row_fusion_drop_rows', *arguments)};")
        moved = " + row" if by_row else ""
        passed = [
            self._operand_argument(k, i, parameter, moved)
            if i < len(inner.reads)
            else self._other_argument(k, parameter, moved)
            for i, parameter in enumerate(function.parameters)
        ]
        text = f"code = {call(function.symbol, *passed)};"
        if by_row:
            f.line("  for (int row = 0; row < call->rows && code == 0; ++row) {")
            f.line(f"    {text}")
            f.line("  }")
        else:
            f.line(f"  {text}")
        f.line("  break;")

    def _row_address(self, k: int) -> str:
        """Return the address of the rows of a layer's output."""
        return plus(self.f.scratch(), str(self.plan.offsets[k]))

    def _first_row(self, k: int) -> str:
        """Return the first row of a layer's output that is still needed."""
        windows, adding = self.plan.readers(k)
        rows = [*(f"at[{r}].first" for r in windows), *(f"at[{r}].row" for r in adding)]
        text = rows[0]
        for each in rows[1:]:
            text = call("tvmrt_row_fusion_min", text, each)
        return text

    def _operand_argument(self, k: int, index: int, parameter: Parameter, moved: str) -> str:
        """Return the argument for an operand of a layer inside or outside the chain."""
        chain = self.chain
        access, sources = chain.whole_steps[k].reads[index], self.plan.sources[k]
        main = index == chain.main_operands[k]
        row = f"here->{'first' if main else 'row'}{moved}"
        source = sources.main if main else chain.producers.get(access.buffer, OUTSIDE)
        # a kernel with windows locates its columns itself
        by_window = main and self.patch.windowed[k]
        if source != OUTSIDE:
            const = "const " if parameter.const else ""
            distance = _times(f"{row} - at[{source}].base", self.plan.layers[source].out_bytes)
            skipped = 0 if by_window else self.patch.begins[k] - self.patch.begins[source]
            pixel = skipped * self._pixel_bytes(source)
            address = _parenthesized(plus(plus(self._row_address(source), str(pixel)), distance))
            return f"({const}{parameter.buffer.dtype.c} *)(void *){address}"
        number = [each[1] for each in chain.externals].index(access)
        at = access.at if main else access.at.expand(chain.whole_steps[k].writes[0].shape)
        image = _times("image", at.strides[0]) if at.shape[0] > 1 else "0"
        column = 0 if by_window else self.patch.begins[k] * at.strides[3]
        begin = plus(plus(self.f.read(number), image), str(column))
        return plus(begin, _times(row, at.strides[2]))

    def _pixel_bytes(self, k: int) -> int:
        """Return the distance in bytes between pixels of a layer's output."""
        return self.plan.layers[k].out_bytes // self.steps[k].writes[0].shape[3]

    def _other_argument(self, k: int, parameter: Parameter, moved: str) -> str:
        """Return the argument for a parameter of a layer's function other than an operand."""
        buffer, plan, last = parameter.buffer, self.plan, len(self.steps) - 1
        f = self.f
        if buffer is None:
            source = plan.sources[k].main
            there = plan.layers[k].in_rows if source == OUTSIDE else f"at[{source}].row"
            member = {"first": "here->first", "count": f"{there} - here->first", "row": "here->row"}
            return member.get(parameter.name, "call->rows")
        if buffer.kind == CONSTANT:
            name = f.passed_constant(buffer)
            return self.copies.get(name, name)
        if buffer is self.steps[k].scratch:
            return plus(f.scratch(), str(plan.line_buffers[k]))
        if k == last:
            at = self.step.writes[0].at
            image = _times("image", at.strides[0]) if at.shape[0] > 1 else "0"
            if plan.layers[k].out_rows == 1:
                return plus(f.write(0), image)
            pixel = pixel_stride(at)
            column = str(self.patch.begins[k] * pixel)
            row = _times(f"here->row{moved}", pixel * at.shape[3])
            return plus(plus(plus(f.write(0), image), column), row)
        row = _times(f"here->row{moved} - here->base", plan.layers[k].out_bytes)
        return f"({buffer.dtype.c} *)(void *){_parenthesized(plus(self._row_address(k), row))}"


def main_operand(step: Step) -> Access:
    """Return the operand whose rows a step of a chain reads."""
    return step.reads[step.lowering.row_operand(step)]


def producers_by_buffer(steps: Sequence[Step]) -> dict[Buffer, int]:
    """Map the buffers of results inside the chain to their steps."""
    return {step.writes[0].buffer: k for k, step in enumerate(steps[:-1])}


def external_operands(steps: Sequence[Step]) -> list[tuple[Value, Access, str]]:
    """Return the external operands of a chain with their demands, each once, its input first."""
    operands: list[tuple[Value, Access, str]] = []
    inside = producers_by_buffer(steps)
    for k, step in enumerate(steps):
        rows = list(zip(step.read_values, step.reads, step.demands))
        order = list(range(len(rows)))
        if k == 0 and isinstance(step.lowering, RowWise):
            main = step.lowering.row_operand(step)
            order = [main, *(i for i in order if i != main)]
        for row in (rows[i] for i in order):
            if row[1].buffer not in inside and row[1] not in [each[1] for each in operands]:
                operands.append(row)
    return operands


def _print_table(f: FunctionWriter, name: str, calls: Sequence[LayerCall]) -> str:
    """Print a table of calls; return its lvalue in C."""
    f.line("/* {layer, output rows, input rows that later iterations do not read} */")
    rows = _rows_of([f"{{{c.layer}, {c.rows}, {c.dropped}}}" for c in calls])
    value = "\n".join(["{", *(f"    {row}" for row in rows), "}"])
    return print_static(f, "tvmrt_row_fusion_call", name, value, f"[{len(calls)}]")


def _parenthesized(term: str) -> str:
    return f"({term})" if " " in term else term


def _times(term: str, factor: int) -> str:
    text = f"({term})" if " " in term and factor != 1 else term
    return "0" if factor == 0 else times(text, factor)


def _rows_of(items: Sequence[str]) -> list[str]:
    """Return a table wrapped into lines."""
    lines = [""]
    for item in items:
        if len(lines[-1]) + len(item) + 2 > TABLE_COLUMNS:
            lines.append("")
        lines[-1] += f"{item}, "
    return [line.rstrip() for line in lines]
