"""A chain of layers as one step: the calls that the planner has found, from a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvmrt.ir.program import CONSTANT, Group, Step, pixel_stride
from tvmrt.planner.row_chains import ChainPlan

from ..c.function import finish_function
from ..c.text import call, plus
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
        self.steps = [
            replace(s.lowering.row_step(s), in_place=[(0, 0)] if plan.overlaps(k) else [])
            for k, s in enumerate(steps)
        ]
        self._whole = steps

    def scratch_bytes(self) -> int:
        return self.plan.nbytes

    def kernel_blocks(self, step: Step) -> tuple[int, ...]:
        needs = [sum(s.lowering.row_blocks(s)) for s in self._whole]
        return (max(needs),)

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        whole = step.reads[0].covers_buffer() and step.writes[0].covers_buffer()
        return [(0, 0)] if whole and self.plan.in_place else []

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
            self._expression(f, step, inner, k, parameter, moved)
            for parameter in function.parameters
        ]
        text = f"code = {call(function.symbol, *passed)};"
        if by_row:
            f.line("  for (int row = 0; row < call->rows && code == 0; ++row) {")
            f.line(f"    {text}")
            f.line("  }")
        else:
            f.line(f"  {text}")
        f.line("  break;")

    def _expression(self, f, step: Step, inner: Step, k: int, parameter, moved: str) -> str:
        """What is passed for a parameter of a layer's function."""
        buffer, plan, last = parameter.buffer, self.plan, len(self.steps) - 1
        if buffer is None:
            member = {"first": "here->first", "count": "here->count", "row": "here->row"}
            return member.get(parameter.name, "call->rows")
        if buffer.kind == CONSTANT:
            return f.passed_constant(buffer)
        if buffer is inner.scratch:
            return plus(f.scratch(), str(plan.rings[k]))
        const = "const " if parameter.const else ""
        if buffer is inner.reads[0].buffer:
            if k == 0:
                stride = step.reads[0].at.strides[2]
                return f"{f.read(0)} + (here->first{moved}) * {stride}"
            row = f"{moved[3:]} * {plan.layers[k].in_bytes}" if moved else ""
            text = plus("input", row) if row else "input"
            return f"({const}{buffer.dtype.c} *)(void *)({text})"
        if k == last:
            at = step.writes[0].at
            return f"{f.write(0)} + (here->row{moved}) * {pixel_stride(at) * at.shape[3]}"
        place = plus(f.scratch(), str(plan.places[k]))
        row = f"(here[1].count{moved}) * {plan.layers[k].out_bytes}"
        return f"({const}{buffer.dtype.c} *)(void *)({plus(place, row)})"


def _rows_of(items: Sequence[str], width: int = 88) -> list[str]:
    """Lines of a table."""
    lines = [""]
    for item in items:
        if len(lines[-1]) + len(item) + 2 > width:
            lines.append("")
        lines[-1] += f"{item}, "
    return [line.rstrip() for line in lines]
