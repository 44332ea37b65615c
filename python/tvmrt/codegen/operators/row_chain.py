"""A chain of layers as one step: the calls that the planner has found, from a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvmrt.ir import Value
from tvmrt.ir.program import CONSTANT, Access, Group, Step, pixel_stride
from tvmrt.planner.row_chains import ChainPlan

from ..c.function import finish_function
from ..c.text import call, plus, times
from ..c.writer import Function, FunctionWriter
from ..lowering import Lowering
from ..target import Target


class RowChainLowering(Lowering):
    """``steps`` as the chain calls them, in memory that ``plan`` has laid out in its scratch."""

    def __init__(
        self, group: Group, target: Target, steps: Sequence[Step], plan: ChainPlan
    ) -> None:
        super().__init__(group, target)
        self.plan = plan
        self.mains = [s.lowering.row_operand(s) for s in steps]
        self.outside = _outside(steps)
        self.steps = [
            replace(s.lowering.row_step(s), in_place=self._shared(k, s))
            for k, s in enumerate(steps)
        ]
        self._whole = steps

    def _shared(self, k: int, step: Step) -> list[tuple[int, int]]:
        """Which operands of a layer may lie where its result is written."""
        x = self.outside[0][1].buffer
        last = k == len(self.mains) - 1
        again = [(i, 0) for i, a in enumerate(step.reads) if last and a.buffer is x]
        return [*again, *([(self.mains[k], 0)] if self.plan.overlaps(k) else [])]

    def scratch_bytes(self) -> int:
        return self.plan.nbytes

    def kernel_blocks(self, step: Step) -> tuple[int, ...]:
        needs = [sum(s.lowering.row_blocks(s)) for s in self._whole]
        return (max(needs),)

    def macs(self) -> int:
        return sum(s.lowering.macs() for s in self._whole)

    def emit(self, step: Step, f: FunctionWriter) -> None:
        functions = [self._adopted(f, s) for s in self.steps]
        calls, last = self.plan.calls, len(functions) - 1
        f.include("board/rows.h")
        f.line("/* {layer, output rows, input rows that are not read again} */")
        f.line(f"static const tvmrt_chain_call calls[{len(calls)}] = {{")
        for text in _rows_of([f"{{{c.layer}, {c.rows}, {c.dropped}}}" for c in calls]):
            f.line(f"    {text}")
        f.line("};")
        f.line(f"tvmrt_chain_at at[{last + 2}] = {{{{0, {self.plan.layers[0].in_rows}, 0}}}};")
        with f.block(f"for (int i = 0; i < {len(calls)}; ++i)"):
            f.line("const tvmrt_chain_call *call = &calls[i];")
            f.line("tvmrt_chain_at *here = &at[call->layer];")
            f.line("uint8_t *input = NULL;")
            f.line("int32_t row_bytes = 0, code = 0;")
            with f.block("switch (call->layer)"):
                for k, function in enumerate(functions):
                    f.line(f"case {k}:" if k < last else "default:")
                    self._print_case(f, step, k, function)
            f.line("if (code != 0) return code;")
            f.line("tvmrt_chain_count(here, call, input, row_bytes);")
        f.line("return 0;")

    def _adopted(self, f: FunctionWriter, inner: Step) -> Function:
        own = FunctionWriter(f"{f.symbol}_{inner.name}", inner, f.weights, False)
        inner.lowering.emit_rows(inner, own)
        function = finish_function(own, "static int32_t")
        f.adopt(function)
        return function

    def _print_case(self, f: FunctionWriter, step: Step, k: int, function: Function) -> None:
        """A layer's call; one that makes a row at a time is called for each."""
        inner, scratch = self.steps[k], f.scratch()
        by_row = not any(p.name == "rows" for p in function.parameters)
        if k:
            at = self.plan.places[k - 1]
            f.line(f"  input = {plus(scratch, str(at))};")
            f.line(f"  row_bytes = {self.plan.layers[k].in_bytes};")
        moved = " + row" if by_row else ""
        passed = [
            self._read(f, step, k, i, parameter, moved)
            if i < len(inner.reads)
            else self._expression(f, step, k, parameter, moved)
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

    def _read(self, f, step: Step, k: int, index: int, parameter, moved: str) -> str:
        """What is passed for an operand: of the layer before, of the chain, or of what the sums
        are added to, from the row of the result on."""
        access = self._whole[k].reads[index]
        if k and index == self.mains[k]:
            const = "const " if parameter.const else ""
            row = f"row * {self.plan.layers[k].in_bytes}" if moved else "0"
            return f"({const}{parameter.buffer.dtype.c} *)(void *){_of(plus('input', row))}"
        number = [each[1] for each in self.outside].index(access)
        if index == self.mains[k]:
            return plus(f.read(number), _times(f"here->first{moved}", access.at.strides[2]))
        stride = access.at.expand(self._whole[k].writes[0].shape).strides[2]
        return plus(f.read(number), _times(f"here->row{moved}", stride))

    def _expression(self, f, step: Step, k: int, parameter, moved: str) -> str:
        """What is passed for another parameter of a layer's function."""
        buffer, plan, last = parameter.buffer, self.plan, len(self.steps) - 1
        if buffer is None:
            member = {"first": "here->first", "count": "here->count", "row": "here->row"}
            return member.get(parameter.name, "call->rows")
        if buffer.kind == CONSTANT:
            return f.passed_constant(buffer)
        if buffer is self.steps[k].scratch:
            return plus(f.scratch(), str(plan.rings[k]))
        if k == last:
            at = step.writes[0].at
            return plus(f.write(0), _times(f"here->row{moved}", pixel_stride(at) * at.shape[3]))
        place = plus(f.scratch(), str(plan.places[k]))
        row = _times(f"here[1].count{moved}", plan.layers[k].out_bytes)
        return f"({buffer.dtype.c} *)(void *){_of(plus(place, row))}"


def main_read(step: Step) -> Access:
    """Where the rows lie that a step of a chain reads."""
    return step.reads[step.lowering.row_operand(step)]


def _outside(steps: Sequence[Step]) -> list[tuple[Value, Access, str]]:
    """Operands of a chain with their demands, each once: its input, and what sums are added to."""
    found: list[tuple[Value, Access, str]] = []
    for k, step in enumerate(steps):
        main = step.lowering.row_operand(step)
        rows = list(zip(step.read_values, step.reads, step.demands))
        wanted = [main, *(i for i in range(len(rows)) if i != main)] if k == 0 else [
            i for i in range(len(rows)) if i != main
        ]  # fmt: skip
        found += [rows[i] for i in wanted if rows[i][1] not in [each[1] for each in found]]
    return found


def _of(term: str) -> str:
    return f"({term})" if " " in term else term


def _times(term: str, factor: int) -> str:
    text = f"({term})" if " " in term and factor != 1 else term
    return "0" if factor == 0 else times(text, factor)


def _rows_of(items: Sequence[str], width: int = 88) -> list[str]:
    """Lines of a table."""
    lines = [""]
    for item in items:
        if len(lines[-1]) + len(item) + 2 > width:
            lines.append("")
        lines[-1] += f"{item}, "
    return [line.rstrip() for line in lines]
