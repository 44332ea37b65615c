"""The page of the operators of the intermediate representation, made of their contracts."""

from __future__ import annotations

import inspect

from tvmrt.compiler.ir import IR_VERSION, OPS, Op
from tvmrt.compiler.ir.contract import FAMILIES
from tvmrt.compiler.ir.pointwise import PointwiseOp
from tvmrt.compiler.ir.reduction import ArgReduce, ReduceOp
from tvmrt.compiler.ir.traits import SumOrder

HEAD = """# The operators between ONNX and C

This page is made from the contracts in `python/tvmrt/compiler/ir/`.
Every node is checked against its contract when it is created and after each pass. Devices and code
generators receive these operators; `tvmrt compile --explain` shows them for a network. `ir_version`
in the text of a region has their version. It changes when an operator is removed or changes its
meaning, not when one is added. This is version VERSION.

Notation: `name: types[extents]`. `?` after a name: optional; `+`: one or more; `*`: any number;
`constant`: known at compile time.

- Types: names and families, joined by `|`. `E=float` binds `E` to the actual type. A result may
  have the type given by an attribute.
- `sum`: order of a float sum with `--reproducible`. A tree adds the second half of the partial sums
  to the first half until one is left.
- Extents: `H` is the same value everywhere; `4*H` and `C/groups` (exact division) are formulas;
  `1|C`: one of them; `_`: any; `*S`: any number of axes, `*S{1..3}`: one to three, `*K{S}`: as many
  as S; `*`: any axes.
- Attributes: `ints[*S] 1..` is one integer of at least 1 for each axis of S, `int of x` an integer
  in the range of x's type; `axis of x`, `axes of x` and `order of x` count from the front, axes in
  ascending order. Integers, extents and element counts fit in signed 32 bits.
"""


def _text(op: Op) -> str:
    """The docstrings of the operator's family and class."""
    classes = [c for c in type(op).__mro__ if issubclass(c, Op) and c.__name__.startswith("_")]
    texts = [inspect.cleandoc(c.__doc__) for c in (*reversed(classes), type(op)) if c.__doc__]
    return "\n\n".join(texts).replace("``", "`")


def _code(text: str) -> str:
    return f"`{text.replace('|', chr(92) + '|')}`"


def _rows(op: Op) -> list[str]:
    contract = op.contract
    rows = [("operand", _code(o.line)) for o in contract.operands]
    rows += [("attribute", _code(a.line)) for a in contract.attributes.values()]
    for rule in contract.rules:
        words = rule.words.replace("|", "\\|").replace("*", "\\*")
        rows.append(("where", f"`{rule.name}` is {words}" if rule.name else words))
    rows += [("result", _code(r.line)) for r in contract.results]
    if op.sum_order:
        rows.append(("sum", op.sum_order.value))
    return [f"| {kind} | {text} |" for kind, text in rows]


def _section(op: Op) -> str:
    rows = _rows(op)
    table = ["\n".join(["| | |", "|---|---|", *rows])] if rows else []
    return "\n\n".join([f"### {op.name}", _text(op), *table])


def _one_line(op: Op) -> str:
    contract = op.contract
    parts = [contract.operands, contract.attributes.values(), contract.results]
    cells = ["<br>".join(_code(line.line) for line in part) for part in parts]
    return f"| `{op.name}` | {' | '.join(cells)} |"


def _table(title: str, text: str, ops: list[Op]) -> str:
    head = ["| operator | operands | attributes | result |", "|---|---|---|---|"]
    return "\n\n".join([f"## {title}", text, "\n".join([*head, *map(_one_line, ops)])])


def _families() -> str:
    rows = [f"| `{name}` | {', '.join(types)} |" for name, types in FAMILIES.items()]
    return "\n".join(["| family | element types |", "|---|---|", *rows])


def page() -> str:
    """The whole page."""
    ops = list(OPS.values())
    elements = [op for op in ops if isinstance(op, PointwiseOp)]
    folds = [op for op in ops if isinstance(op, (ReduceOp, ArgReduce))]
    others = [op for op in ops if op not in elements and op not in folds]
    parts = [
        HEAD.rstrip().replace("VERSION", str(IR_VERSION)),
        _families(),
        _table("Element by element", "Operands broadcast by numpy's rules, to `*Y`.", elements),
        _table(
            "Folds",
            "`*Y` is `S` without the axes, or with 1 in their places. Sums of floats with "
            f"`--reproducible`: {SumOrder.FOLD.value}.",
            folds,
        ),
        "## Others",
        *map(_section, others),
    ]
    return "\n\n".join(parts) + "\n"
