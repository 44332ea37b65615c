"""Names of operators that a region may have at another shape, for the runtime's shape inference."""

from __future__ import annotations

import textwrap

from tvmrt.compiler.ir import OPS, POINTWISE
from tvmrt.compiler.ir.op import Op

HEAD = """\
/* Operators whose operands broadcast to the result, or whose only operand has the result's shape.
 * `docs/generate_reference.py` makes this file from the contracts of the operators. */
#ifndef TVMRT_SRC_RUNTIME_REGIONS_POINTWISE_OPERATORS_H_
#define TVMRT_SRC_RUNTIME_REGIONS_POINTWISE_OPERATORS_H_

/* One text, which needs no relocation when the library is loaded, unlike pointers. The names end
 * with a zero each, and the list with an empty name. */
static const char pointwise_operators[] =
"""
TAIL = "\n#endif /* TVMRT_SRC_RUNTIME_REGIONS_POINTWISE_OPERATORS_H_ */\n"


def _keeps_shape(op: Op) -> bool:
    """Return whether the result has the shape of the only operand."""
    if len(op.contract.operands) != 1 or len(op.contract.results) != 1:
        return False
    shapes = [each.shape.text for each in (*op.contract.operands, *op.contract.results)]
    return shapes == ["*S", "*S"]


def header() -> str:
    """Return the C header."""
    names = [name for name, op in OPS.items() if op.kind == POINTWISE or _keeps_shape(op)]
    words = " ".join(f"{name}\\0" for name in sorted(names))
    lines = textwrap.wrap(words, 92, break_long_words=False, break_on_hyphens=False)
    text = "\n".join(f'    "{line.replace(" ", "")}"' for line in lines)
    return f"{HEAD}{text};\n{TAIL}"
