"""C lines of a guarded network: sums of tensors and weights around the calls of operators."""

from __future__ import annotations

from typing import Any

from tvmrt.compiler.sdk.codegen import CallLines, Parameter, Sources, call, include_guard, wrap
from tvmrt.compiler.sdk.graph import GAP
from tvmrt.compiler.sdk.program import Buffer, Program

from .constants import DIFFER_C, add_checks, check_of
from .plan import is_integer_layer, make_plan
from .products import EXPECT_PARAMETERS, ProductCheck, checks_of, covered_by_all, print_layers
from .sums import SUM_C, sum_of

_WEIGHTS, _TENSOR = "NetworkWeightsDamaged", "NetworkTensorDamaged"


class RunGuard(CallLines):
    """Printer for ``guard="run"``: weights are checked after the last operator that reads them,
    those of dense layers by their products. Constants that an operator defines are checked before
    its calls."""

    pairs_constants = True

    def __init__(self, program: Program, *context: Any) -> None:
        super().__init__(program, *context)
        self.plan = make_plan(program, self.sources)
        self._known: dict[Buffer, int] = {}
        self._products = self.product_checks(program, self.sources)
        covered = covered_by_all(self._products, self.sources)
        for checks in self.plan.steps.values():
            checks.weights = [b for b in checks.weights if b not in covered]

    @classmethod
    def product_checks(cls, program: Program, sources: Sources) -> dict[int, ProductCheck]:
        """Return the checks of dense layers by index of the step."""
        return checks_of(program, sources)

    @classmethod
    def macros(cls, program: Program, sources: Sources) -> dict[str, str]:
        found = {}
        if any(map(is_integer_layer, sources.functions)):
            found["TVMRT_ANY_WEIGHTS"] = "1"  # layers run before their weights are compared
        if cls.product_checks(program, sources):
            found["TVMRT_MICRO_CHECKSUM"] = f"{sources.prefix}_guard_products"
        return found

    @classmethod
    def extend(cls, sources: Sources) -> list[str]:
        return add_checks(sources)

    def declarations(self) -> list[str]:
        return [
            "/*",
            " * Runs check the memory of tensors, weights and other constants. They return",
            f" * kTvmError{_TENSOR} if a tensor changed between two operators, or the",
            " * state of a run in slices between two calls, and",
            f" * kTvmError{_WEIGHTS} if constants changed; the outputs are then invalid.",
            " */",
            "",
        ]

    def includes(self) -> list[str]:
        return [f'#include "{self.prefix}_guard.h"']

    def begin(self) -> list[str]:
        return [self._sum(buffer, slot) for buffer, slot in self.plan.inputs]

    def around(self, index: int) -> tuple[list[str], list[str]]:
        checks, constants = self.plan.steps[index], check_of(self.sources, index)
        before = _refuse(f"{constants}{GAP}!= 0", _WEIGHTS) if constants else []
        before += [line for each in checks.before for line in self._compare(*each)]
        for buffer in checks.indices:
            before += self._compare_weights(buffer)
        after = [line for each in checks.after for line in self._compare(*each)]
        for buffer in checks.weights:
            after += self._compare_weights(buffer)
        if index in self._products:
            before.append(self._expect(index, self._products[index]))
            after += _refuse(f"{self.prefix}_guard_products{GAP}!= 0", _WEIGHTS)
        return before, [*after, *(self._sum(*each) for each in checks.summed)]

    def step_sum(self, state: str) -> str:
        return f"{self.prefix}_guard_sum(0,{GAP}state, offsetof({state}, sum))"

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
        source.append(DIFFER_C % {"prefix": self.prefix})
        return {
            f"{name}.h": include_guard(f"{name.upper()}_H_", header),
            f"{name}.c": "\n".join([*source, *self.functions()]),
        }

    def variables(self) -> list[str]:
        """Return declarations of variables that the lines read."""
        name = f"{self.prefix}_guard"
        lines = []
        if self.plan.slots:
            lines = [
                "/* Sums of the tensors that are in use. */",
                f"TVMGEN_LOCAL extern uint32_t {name}_sums[{self.plan.slots}];",
                "",
            ]
        if self._products:
            lines += [
                "/* Sums of products of a dense layer minus their expected total: 0 after it. */",
                f"TVMGEN_LOCAL extern uint32_t {name}_products;",
                "",
                "/* Totals of the columns of the weights of dense layers. */",
                *(
                    f"TVMGEN_LOCAL extern const uint32_t {name}_columns_{i}[{len(check.columns)}];"
                    for i, check in enumerate(self._products.values())
                ),
                "",
                "/* Set the variable to minus the total that a layer must have for the input x.",
                " * flip: 0x80 for int8, 0 for uint8; total: for bytes of x equal to flip. */",
                *wrap(f"TVMGEN_LOCAL void {name}_expect", EXPECT_PARAMETERS, ";"),
                "",
            ]
        return lines

    def definitions(self) -> list[str]:
        """Return definitions of the variables."""
        if not self.plan.slots:
            return []
        return [f"uint32_t {self.prefix}_guard_sums[{self.plan.slots}];", ""]

    def functions(self) -> list[str]:
        """Return further functions of the file."""
        checks = [*self._products.values()]
        return [print_layers(self.prefix, checks)] if checks else []

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

    def _expect(self, index: int, check: ProductCheck) -> str:
        first = check.arguments(self.prefix, [*self._products].index(index))
        address = self.arguments.expression(Parameter("", check.x.buffer, check.x.at.offset))
        return f"{call(f'{self.prefix}_guard_expect', *first, address)};"

    def _compare_weights(self, buffer: Buffer) -> list[str]:
        return _refuse(
            f"{self._call(buffer)}{GAP}!= 0x{self.sum_of_weights(buffer):08x}u", _WEIGHTS
        )


def _refuse(condition: str, error: str) -> list[str]:
    return [f"if ({condition}) {{", f"  return kTvmError{error};", "}"]
