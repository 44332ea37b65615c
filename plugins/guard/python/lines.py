"""C lines of a guarded network: sums of tensors and weights around the calls of operators."""

from __future__ import annotations

from typing import Any

from tvmrt.compiler.codegen.c.formatting import include_guard
from tvmrt.compiler.codegen.c.writer import Parameter
from tvmrt.compiler.codegen.firmware.call_lines import CallLines
from tvmrt.compiler.ir.op import GAP
from tvmrt.compiler.ir.program import Buffer, Program

from .plan import make_plan
from .sums import SUM_C, sum_of

_WEIGHTS, _TENSOR = "NetworkWeightsDamaged", "NetworkTensorDamaged"


class RunGuard(CallLines):
    """Printer for ``guard="run"``: weights are checked after the last operator that reads them."""

    def __init__(self, program: Program, *context: Any) -> None:
        super().__init__(program, *context)
        self.plan = make_plan(program, self.sources)
        self._known: dict[Buffer, int] = {}

    def declarations(self) -> list[str]:
        return [
            "/*",
            " * Runs check the memory of tensors and weights. They return",
            f" * kTvmError{_TENSOR} if a tensor changed between two operators, and",
            f" * kTvmError{_WEIGHTS} if weights changed; the outputs are then invalid.",
            " */",
            "",
        ]

    def includes(self) -> list[str]:
        return [f'#include "{self.prefix}_guard.h"']

    def begin(self) -> list[str]:
        return [self._sum(buffer, slot) for buffer, slot in self.plan.inputs]

    def around(self, index: int) -> tuple[list[str], list[str]]:
        checks = self.plan.steps[index]
        before = [line for each in checks.before for line in self._compare(*each)]
        after = [line for each in checks.after for line in self._compare(*each)]
        for buffer in checks.weights:
            after += self._compare_weights(buffer)
        return before, [*after, *(self._sum(*each) for each in checks.summed)]

    def files(self) -> dict[str, str]:
        name = f"{self.prefix}_guard"
        header = [
            "#include <stddef.h>",
            "#include <stdint.h>",
            "",
            f'#include "{self.prefix}_ops.h"',
            "",
            "/* Continue a sum over size bytes; begin with 0. */",
            f"TVMGEN_LOCAL uint32_t {name}_sum(uint32_t sum, const void *data, size_t size);",
            "",
            *self.variables(),
        ]
        source = [f'#include "{name}.h"', "", *self.definitions(), SUM_C % {"prefix": self.prefix}]
        return {
            f"{name}.h": include_guard(f"{name.upper()}_H_", header),
            f"{name}.c": "\n".join([*source, *self.functions()]),
        }

    def variables(self) -> list[str]:
        """Return declarations of variables that the lines read."""
        if not self.plan.slots:
            return []
        name = f"{self.prefix}_guard_sums"
        return [
            "/* Sums of the tensors that are in use. */",
            f"TVMGEN_LOCAL extern uint32_t {name}[{self.plan.slots}];",
            "",
        ]

    def definitions(self) -> list[str]:
        """Return definitions of the variables."""
        if not self.plan.slots:
            return []
        return [f"uint32_t {self.prefix}_guard_sums[{self.plan.slots}];", ""]

    def functions(self) -> list[str]:
        """Return further functions of the file."""
        return []

    def sum_of_weights(self, buffer: Buffer) -> int:
        """Return the sum that a constant must have."""
        if buffer not in self._known:
            assert buffer.data is not None, buffer  # it is a constant
            self._known[buffer] = sum_of(buffer.data)
        return self._known[buffer]

    def _call(self, buffer: Buffer) -> str:
        address = self.arguments.expression(Parameter("", buffer))
        return f"{self.prefix}_guard_sum(0,{GAP}{address},{GAP}{buffer.nbytes})"

    def _sum(self, buffer: Buffer, slot: int) -> str:
        return f"{self.prefix}_guard_sums[{slot}] ={GAP}{self._call(buffer)};"

    def _compare(self, buffer: Buffer, slot: int) -> list[str]:
        return _refuse(f"{self._call(buffer)}{GAP}!= {self.prefix}_guard_sums[{slot}]", _TENSOR)

    def _compare_weights(self, buffer: Buffer) -> list[str]:
        return _refuse(
            f"{self._call(buffer)}{GAP}!= 0x{self.sum_of_weights(buffer):08x}u", _WEIGHTS
        )


def _refuse(condition: str, error: str) -> list[str]:
    return [f"if ({condition}) {{", f"  return kTvmError{error};", "}"]
