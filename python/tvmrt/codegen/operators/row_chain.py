"""A chain of layers as one step: the calls that the planner has found, from a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvmrt.ir import Value
from tvmrt.ir.program import CONSTANT, Access, Buffer, Group, Step, pixel_stride
from tvmrt.planner.row_chains import OUTSIDE, ChainPlan

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
        self.made = made_by(steps)
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
        calls, images = self.plan.calls, step.writes[0].shape[0]
        f.include("board/chain.h")
        f.line("/* {layer, output rows, input rows that are not read again} */")
        f.line(f"static const tvmrt_chain_call calls[{len(calls)}] = {{")
        for text in _rows_of([f"{{{c.layer}, {c.rows}, {c.dropped}}}" for c in calls]):
            f.line(f"    {text}")
        f.line("};")
        with f.block(f"for (int image = 0; image < {images}; ++image)"):
            if images == 1:
                f.line("(void)image;")
            self._print_calls(f, step, functions)
        f.line("return 0;")

    def _print_calls(self, f: FunctionWriter, step: Step, functions: Sequence[Function]) -> None:
        """All calls for an image."""
        last = len(functions) - 1
        f.line(f"tvmrt_chain_at at[{last + 1}] = {{{{0, 0, 0}}}};")
        with f.block(f"for (int i = 0; i < {len(self.plan.calls)}; ++i)"):
            f.line("const tvmrt_chain_call *call = &calls[i];")
            f.line("tvmrt_chain_at *here = &at[call->layer];")
            f.line("int32_t code = 0;")
            with f.block("switch (call->layer)"):
                for k, function in enumerate(functions):
                    f.line(f"case {k}:" if k < last else "default:")
                    self._print_case(f, step, k, function)
            f.line("if (code != 0) return code;")
            f.line("here->row = (int16_t)(here->row + call->rows);")
            f.line("here->first = (int16_t)(here->first + call->dropped);")

    def _adopted(self, f: FunctionWriter, inner: Step) -> Function:
        own = FunctionWriter(f"{f.symbol}_{inner.name}", inner, f.weights, False)
        inner.lowering.emit_rows(inner, own)
        function = finish_function(own, "static int32_t")
        f.adopt(function)
        return function

    def _print_case(self, f: FunctionWriter, step: Step, k: int, function: Function) -> None:
        """A layer's call; one that makes a row at a time is called for each."""
        inner = self.steps[k]
        by_row = not any(p.name == "rows" for p in function.parameters)
        if k < len(self.steps) - 1:
            place, nbytes = self._place(f, k), self.plan.layers[k].out_bytes
            f.line(f"  {call('tvmrt_chain_make_room', 'here', self._kept(k), place, nbytes)};")
        moved = " + row" if by_row else ""
        passed = [
            self._read(f, k, i, parameter, moved)
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

    def _place(self, f: FunctionWriter, k: int) -> str:
        """Where the rows of a layer's output lie."""
        return plus(f.scratch(), str(self.plan.places[k]))

    def _kept(self, k: int) -> str:
        """The first row of a layer's output that is read again."""
        windows, adding = self.plan.readers(k)
        rows = [*(f"at[{r}].first" for r in windows), *(f"at[{r}].row" for r in adding)]
        text = rows[0]
        for each in rows[1:]:
            text = call("tvmrt_chain_least", text, each)
        return text

    def _read(self, f: FunctionWriter, k: int, index: int, parameter, moved: str) -> str:
        """What is passed for an operand: of a layer, or of the chain."""
        access, sources = self._whole[k].reads[index], self.plan.sources[k]
        main = index == self.mains[k]
        row = f"here->{'first' if main else 'row'}{moved}"
        source = sources.main if main else self.made.get(access.buffer, OUTSIDE)
        if source != OUTSIDE:
            const = "const " if parameter.const else ""
            distance = _times(f"{row} - at[{source}].base", self.plan.layers[source].out_bytes)
            address = _of(plus(self._place(f, source), distance))
            return f"({const}{parameter.buffer.dtype.c} *)(void *){address}"
        number = [each[1] for each in self.outside].index(access)
        at = access.at if main else access.at.expand(self._whole[k].writes[0].shape)
        image = _times("image", at.strides[0]) if at.shape[0] > 1 else "0"
        return plus(plus(f.read(number), image), _times(row, at.strides[2]))

    def _expression(self, f, step: Step, k: int, parameter, moved: str) -> str:
        """What is passed for another parameter of a layer's function."""
        buffer, plan, last = parameter.buffer, self.plan, len(self.steps) - 1
        if buffer is None:
            source = plan.sources[k].main
            there = plan.layers[k].in_rows if source == OUTSIDE else f"at[{source}].row"
            member = {"first": "here->first", "count": f"{there} - here->first", "row": "here->row"}
            return member.get(parameter.name, "call->rows")
        if buffer.kind == CONSTANT:
            return f.passed_constant(buffer)
        if buffer is self.steps[k].scratch:
            return plus(f.scratch(), str(plan.rings[k]))
        if k == last:
            at = step.writes[0].at
            image = _times("image", at.strides[0]) if at.shape[0] > 1 else "0"
            alone = plan.layers[k].out_rows == 1
            row = "0" if alone else _times(f"here->row{moved}", pixel_stride(at) * at.shape[3])
            return plus(plus(f.write(0), image), row)
        row = _times(f"here->row{moved} - here->base", plan.layers[k].out_bytes)
        return f"({buffer.dtype.c} *)(void *){_of(plus(self._place(f, k), row))}"


def main_read(step: Step) -> Access:
    """Where the rows lie that a step of a chain reads."""
    return step.reads[step.lowering.row_operand(step)]


def made_by(steps: Sequence[Step]) -> dict[Buffer, int]:
    """The steps whose results stay in the chain, by where these would lie."""
    return {step.writes[0].buffer: k for k, step in enumerate(steps[:-1])}


def _outside(steps: Sequence[Step]) -> list[tuple[Value, Access, str]]:
    """Operands of a chain with their demands, each once: its input first."""
    found: list[tuple[Value, Access, str]] = []
    inside = made_by(steps)
    for k, step in enumerate(steps):
        rows = list(zip(step.read_values, step.reads, step.demands))
        order = list(range(len(rows)))
        if k == 0:
            main = step.lowering.row_operand(step)
            order = [main, *(i for i in order if i != main)]
        for row in (rows[i] for i in order):
            if row[1].buffer not in inside and row[1] not in [each[1] for each in found]:
                found.append(row)
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
