"""Checks of dense layers by checksums of their products, which need not read the weights again.

A layer computes sums[n] = bias[n] + sum over k of (x[k] - zero) * w[n][k]. The total of all sums
follows from x and from the totals of the columns of w, modulo 2 ** 32. A changed bit of a weight or
bias, or of a sum while it is computed, changes the total unless it changes no sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tvmrt.compiler.sdk.codegen import BoardLowering, MicroLayerI8, Sources, comma_separated
from tvmrt.compiler.sdk.program import Access, Buffer, Program, Step

LEAST_CHANNELS = 16  # of a layer: below, sums of its weights take fewer instructions
_MASK = 0xFFFFFFFF
_CHECKED = {"weights", "bias", "shift"}  # parameters of an operator that its sums depend on


@dataclass(frozen=True)
class ProductCheck:
    """Check of a layer whose input is ``x``; ``covered`` are its weights."""

    x: Access
    layer: MicroLayerI8
    covered: frozenset[Buffer]

    @property
    def is_signed(self) -> bool:
        return self.layer.layer.x_signed

    def arguments(self, prefix: str, index: int) -> list[str]:
        """Return the first arguments of the C function ``guard_expect`` for the check with this
        index: in code, because changed ones might lead out of the memory of a tensor."""
        flip = "0x80" if self.is_signed else "0"
        columns = f"{prefix}_guard_columns_{index}"
        return [columns, str(len(self.columns)), flip, f"0x{self.total:08x}u"]

    @cached_property
    def columns(self) -> np.ndarray:
        """Totals of the columns of the weights, modulo 2 ** 32 [element of the input]."""
        return self.layer.weights.sum(axis=0) & _MASK

    @cached_property
    def total(self) -> int:
        """Total of all sums if each byte of the input is 0 as uint8, or -128 as int8."""
        bias = self.layer.folded_bias(1).astype(np.int64).sum()
        least = -128 if self.is_signed else 0
        return int(bias + least * self.columns.sum()) & _MASK


def checks_of(program: Program, sources: Sources) -> dict[int, ProductCheck]:
    """Return the checks by index of the step."""
    products = {}
    for i, (step, function) in enumerate(zip(program.steps, sources.functions)):
        layer = _dense_layer(step)
        if layer is None:
            continue
        covered = {p.buffer for p in function.parameters if p.name in _CHECKED and p.buffer}
        x = step.reads[step.read_values.index(step.lowering.node.inputs[0])]
        products[i] = ProductCheck(x, layer, frozenset(covered))
    return products


def covered_by_all(checks: Mapping[int, ProductCheck], sources: Sources) -> set[Buffer]:
    """Return the constants that every step with them covers."""
    covered = {buffer for check in checks.values() for buffer in check.covered}
    for i, function in enumerate(sources.functions):
        own = checks[i].covered if i in checks else frozenset()
        covered -= {p.buffer for p in function.parameters} - own
    return covered


def _dense_layer(step: Step) -> MicroLayerI8 | None:
    """Return the layer of one pixel that a kernel with checksums computes, or None."""
    if not isinstance(step.lowering, BoardLowering):
        return None
    layer = step.lowering.board_layer(step)
    if not isinstance(layer, MicroLayerI8) or layer.shape.depthwise or layer.groups:
        return None
    one_pixel = layer.shape.pointwise and layer.shape.pixels == 1
    return layer if one_pixel and layer.shape.out_c >= LEAST_CHANNELS else None


EXPECT_PARAMETERS = (
    "const uint32_t *columns", "int32_t n", "uint32_t flip", "uint32_t total", "const void *x",
)  # fmt: skip

_PRODUCTS = """\
uint32_t %(prefix)s_guard_products;

/* Totals of the columns of the weights of dense layers. */
%(columns)s

void %(prefix)s_guard_expect(%(parameters)s) {
  const uint8_t *b = (const uint8_t *)x;
  const uint32_t *c = columns;
#if GUARD_HELIUM
  const uint32x4_t flips = vdupq_n_u32(flip);
  for (; n >= 16; n -= 16, b += 16, c += 16) {
    total = vmladavaq_u32(total, veorq_u32(vldrbq_u32(b), flips), vldrwq_u32(c));
    total = vmladavaq_u32(total, veorq_u32(vldrbq_u32(b + 4), flips), vldrwq_u32(c + 4));
    total = vmladavaq_u32(total, veorq_u32(vldrbq_u32(b + 8), flips), vldrwq_u32(c + 8));
    total = vmladavaq_u32(total, veorq_u32(vldrbq_u32(b + 12), flips), vldrwq_u32(c + 12));
  }
#else
  for (; n >= 4; n -= 4, b += 4, c += 4) {
    total += (b[0] ^ flip) * c[0] + (b[1] ^ flip) * c[1];
    total += (b[2] ^ flip) * c[2] + (b[3] ^ flip) * c[3];
  }
#endif
  for (; n > 0; --n) total += (*b++ ^ flip) * *c++;
  %(prefix)s_guard_products = 0u - total;
}
"""


def print_layers(prefix: str, checks: Sequence[ProductCheck]) -> str:
    """Return the C text of the variable, the tables and the function of these checks."""
    tables = []
    for i, check in enumerate(checks):
        values = comma_separated([f"{column}u" for column in check.columns.tolist()])
        tables.append(
            f"const uint32_t {prefix}_guard_columns_{i}[{len(check.columns)}] = {{{values}}};"
        )
    parameters = comma_separated(EXPECT_PARAMETERS)
    values = {"prefix": prefix, "columns": "\n".join(tables), "parameters": parameters}
    return _PRODUCTS % values
