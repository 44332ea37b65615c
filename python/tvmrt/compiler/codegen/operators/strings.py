"""Strings of inputs and outputs, and constant strings."""

from __future__ import annotations

from tvmrt.compiler.ir.program import Step

from ..c.initializers import print_array
from ..c.inputs import input_pointer
from ..c.writer import FunctionWriter, c_string
from ..lowering import Lowering, lowers


@lowers("text_in", "text_out")
class StringBoundaryLowering(Lowering):
    def emit(self, step: Step, f: FunctionWriter) -> None:
        x, count = input_pointer(f, 0, "x"), self.node.output.type.size
        f.line(f"memcpy({f.write()}, {x}, {count} * sizeof(int64_t));")


@lowers("texts")
class StringConstantsLowering(Lowering):
    def emit(self, step: Step, f: FunctionWriter) -> None:
        values = self.node.attrs["values"]
        texts = print_array(f, "char *const", "texts", list(map(c_string, values)) or ["NULL"])
        i = f.fresh("i")
        with f.loop(i, len(values)):
            f.line(f"{f.write()}[{i}] = (int64_t)(intptr_t){texts}[{i}];")
        f.line(f"(void){texts};")
