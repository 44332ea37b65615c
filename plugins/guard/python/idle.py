"""C of a network whose weights are checked by a function that the program calls between runs."""

from __future__ import annotations

from typing import Any

from tvmrt.compiler.sdk.codegen import Sources
from tvmrt.compiler.sdk.program import CONSTANT, Buffer, Program

from .lines import RunGuard
from .products import ProductCheck
from .sums import BLOCK

_FUNCTION = """\

enum { REGIONS = %(count)d };
/* Constants in the order of their checks, twice. */
static const struct {
  const void *data;
  uint32_t size;
  uint32_t sum;
} regions[2][REGIONS] = TVMRT_TWICE({
%(rows)s
});

uint32_t %(prefix)s_guard_next;
static uint32_t partial; /* sum of the region that contains the next byte */

int32_t %(prefix)s_guard_idle(size_t max_bytes) {
  uint32_t begin = 0;
  int region = 0;
  if (%(prefix)s_guard_differ(regions, sizeof(regions[0])) != 0) %(prefix)s_guard_next = UINT32_MAX;
  if (%(prefix)s_guard_next == UINT32_MAX) return kTvmErrorNetworkWeightsDamaged;
  if (max_bytes < %(block)d) max_bytes = %(block)d;
  while (region < REGIONS && begin + regions[0][region].size <= %(prefix)s_guard_next) {
    begin += regions[0][region++].size;
  }
  for (; region < REGIONS && max_bytes >= %(block)d; ++region) {
    const uint32_t done = %(prefix)s_guard_next - begin, left = regions[0][region].size - done;
    const uint32_t most = (uint32_t)(max_bytes / %(block)d * %(block)d);
    const uint32_t count = left < most ? left : most;
    const uint8_t *data = (const uint8_t *)regions[0][region].data + done;
    partial = %(prefix)s_guard_sum(partial, data, count);
    %(prefix)s_guard_next += count;
    if (count < left) return 0;
    if (partial != regions[0][region].sum) {
      partial = 0;
      %(prefix)s_guard_next = UINT32_MAX;
      return kTvmErrorNetworkWeightsDamaged;
    }
    partial = 0;
    begin += regions[0][region].size;
    max_bytes -= count;
  }
  if (region == REGIONS) %(prefix)s_guard_next = 0;
  return 0;
}
"""


class IdleGuard(RunGuard):
    """Printer for ``guard="idle"``: runs check tensors, and weights that are copied to RAM."""

    def __init__(self, program: Program, *context: Any) -> None:
        super().__init__(program, *context)
        self._in_flash: list[Buffer] = []
        for checks in self.plan.steps.values():
            self._in_flash += [b for b in checks.weights if b.kind == CONSTANT and b.nbytes]
            checks.weights = [b for b in checks.weights if b.kind != CONSTANT]

    @classmethod
    def product_checks(cls, program: Program, sources: Sources) -> dict[int, ProductCheck]:
        """Return the checks of dense layers whose weights are copied to RAM."""
        return {
            i: check
            for i, check in super().product_checks(program, sources).items()
            if all(buffer.kind != CONSTANT for buffer in check.covered)
        }

    def declarations(self) -> list[str]:
        total = sum(b.nbytes for b in self._in_flash)
        upper = self.prefix.upper()
        own = [
            "/*! \\brief Bytes of weights that the next function checks in turn. */",
            f"#define {upper}_GUARD_BYTES {total}",
            "",
            "/*!",
            " * \\brief Check up to max_bytes of weights in flash, at least 32, between two runs.",
            " *",
            " * Each call goes on where the last one ended, then begins again. A constant",
            " * is compared when its last byte has been read.",
            " * \\return 0, or kTvmErrorNetworkWeightsDamaged, which all later runs return, too.",
            " */",
            f"int32_t {self.prefix}_guard_idle(size_t max_bytes);",
            "",
        ]
        return [*super().declarations(), *(own if total else [])]

    def begin(self) -> list[str]:
        refuse = [
            f"if ({self.prefix}_guard_next == UINT32_MAX)",
            "  return kTvmErrorNetworkWeightsDamaged;",
        ]
        return [*(refuse if self._in_flash else []), *super().begin()]

    def variables(self) -> list[str]:
        own = [
            "/* Bytes of weights checked so far, or UINT32_MAX if some are damaged. */",
            f"TVMGEN_LOCAL extern uint32_t {self.prefix}_guard_next;",
            "",
        ]
        return [*super().variables(), *(own if self._in_flash else [])]

    def definitions(self) -> list[str]:
        own = [
            "#include <tvm/runtime/crt/error_codes.h>",
            "#include <tvm/runtime/kernels/scalar/pairs.h>",
            "",
            f"#define {self.prefix.upper()}_OWN_SOURCE",
            f'#include "{self.prefix.lower()}.h"',
            "",
        ]
        return [*(own if self._in_flash else []), *super().definitions()]

    def functions(self) -> list[str]:
        if not self._in_flash:
            return super().functions()
        rows = [
            f"    {{{self.sources.symbol_of(b)}, {b.nbytes}u, 0x{self.sum_of_weights(b):08x}u}},"
            for b in self._in_flash
        ]
        values = {"rows": "\n".join(rows), "prefix": self.prefix, "block": BLOCK}
        return [*super().functions(), _FUNCTION % {**values, "count": len(rows)}]
