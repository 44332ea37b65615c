"""Measure the largest errors of the operators' float functions, in units in the last place.

Every function of tests/python/support/ulps.py is compiled as part of a network and compared with
the C library in double: float32 over every 257th bit pattern (2^24 of them) and all neighbours of
powers of two, or with ``--exhaustive`` over all 2^32, which takes hours; float16 and bfloat16 over
all of theirs. Functions of two numbers get a second operand for each first one. ``--update`` writes
errors and limits of float32 into docs/reference/accuracy.md; the exit code is 1 where a limit is
passed.

    python tests/bench/measure_ulps.py [--stride N | --exhaustive] [--update] [TARGET ...]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "support"))
import ulps

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "accuracy.md"
BEGIN, END = "<!-- made by tests/bench/measure_ulps.py -->\n", "<!-- up to here -->\n"
STRIDE = 257  # odd, so that the low bits vary


def number(value: float) -> str:
    """Format a number in its shortest form."""
    return f"{value:.4g}"


def place(function: ulps.Function, worst: ulps.Worst) -> str:
    two = "z" in function.onnx
    return f"{worst.x:.9g}, {worst.z:.9g}" if two else f"{worst.x:.9g}"


def table(found: dict[str, dict[str, ulps.Worst]]) -> str:
    """Return the lines of the whole table."""
    lines = [
        "| function | float32 | at | limit | float16 | bfloat16 | limits |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in ulps.FUNCTIONS:
        single, half, brain = (found[kind][each.name] for kind in ulps.ONNX_TYPES)
        limits = (number(ulps.limit_of(each, kind)) for kind in ("float16", "bfloat16"))
        unit = {"y": "", "fabs(x)": " of x"}.get(each.of, " of x or 0.5")
        tiny = f", below {each.tiny:.2g} perhaps 0" if each.tiny else ""
        at = place(each, single) if single.units else ""
        lines.append(
            f"| {each.name} | {number(single.units)} | {at} | {each.limit:g}{unit}{tiny} "
            f"| {number(half.units)} | {number(brain.units)} | {', '.join(limits)} |"
        )
    return "\n".join(lines) + "\n"


def write(text: str) -> None:
    """Write errors and limits of float32 into the page, functions with equal ones in a row."""
    rows = defaultdict(list)
    for line in text.splitlines()[2:]:
        _, name, error, _, limit, *_ = line.split("|")
        rows[error, limit].append(name.strip())
    lines = ["| functions | float32 | limit |", "|---|---|---|"]
    lines += [f"| {'; '.join(names)} |{error}|{limit}|" for (error, limit), names in rows.items()]
    text = "\n".join(lines) + "\n"
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    PAGE.write_text(before + BEGIN + "\n" + text + "\n" + END + rest.split(END)[1], "utf-8")


def worst_of(targets: list[str], stride: int) -> dict[str, dict[str, ulps.Worst]]:
    """Return the largest error over the targets, by type and function."""
    found: dict[str, dict[str, ulps.Worst]] = {}
    for kind in ulps.ONNX_TYPES:
        for target in targets:
            with tempfile.TemporaryDirectory() as folder:
                each = ulps.measure(kind, target, stride, Path(folder))
            best = found.setdefault(kind, each)
            for name, worst in each.items():
                if worst.units > best[name].units:
                    best[name] = worst
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("targets", nargs="*", default=["native", "host"], metavar="TARGET")
    parser.add_argument("--stride", type=int, default=STRIDE)
    parser.add_argument("--exhaustive", action="store_true")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    found = worst_of(options.targets, 1 if options.exhaustive else options.stride)
    text = table(found)
    print(text)
    if options.update:
        write(text)
    passed = [
        f"{each.name} in {kind}: {found[kind][each.name].units}, limit {ulps.limit_of(each, kind)}"
        for each in ulps.FUNCTIONS
        for kind in found
        if found[kind][each.name].units > ulps.limit_of(each, kind)
    ]
    print("\n".join(passed), file=sys.stderr)
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main())
