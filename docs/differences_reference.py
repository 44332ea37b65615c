"""The section of the accuracy page that is made of the table of intentional differences."""

from __future__ import annotations

from pathlib import Path

from tvmrt.compiler.differences import TABLE, Difference, Judge

PAGE = Path(__file__).parent / "reference" / "accuracy.md"
START = "<!-- made by docs/generate_reference.py from python/tvmrt/compiler/differences -->"
END = "<!-- end of the table of differences -->"

JUDGES = {
    Judge.ONNXRUNTIME: "onnxruntime",
    Judge.REFERENCE: "the reference evaluator",
    Judge.EXACT: "exact arithmetic",
    Judge.RULE: "this rule",
    Judge.UNDEFINED: "not compared",
}


def _row(row: Difference) -> str:
    operators = ", ".join(f"`{name}`" for name in row.operators)
    agrees = "; ".join(row.agrees) or "nobody"
    cells = [
        f"`{row.name}`: {operators}",
        row.condition,
        f"{row.ours}; {row.why}",
        agrees,
        "; ".join(row.differs),
        JUDGES[row.judge],
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def section() -> str:
    """Return the table in Markdown."""
    head = "| operators | when | tvmrt, and why | agrees | differs | judged by |"
    return "\n".join([START, "", head, "|---|---|---|---|---|---|", *map(_row, TABLE), "", END])


def page() -> str:
    """Return the accuracy page with the section as the table is now."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(START)
    return before + section() + rest.split(END)[1]
