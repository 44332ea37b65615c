"""Measure what the tests next to the code notice: ``python tests/mutation/mutants.py``.

One small wrong change at a time is made in a file of a package: another comparison, constant,
operator, minimum or order. The tests nearest to the file then have a minute: those with its name
first, then the others of the package. A table has the mutants that they noticed, by package; those
that survive are printed as a difference, to be judged: a wrong one needs a test, an equivalent one
none. The same seed draws the same mutants of the same sources.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "selection"))

from packages import PACKAGES, tests_of  # noqa: E402

SWAPS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+",
    "*": "+", "//": "*", "/": "*", "%": "+", "and": "or", "or": "and", "&&": "||", "||": "&&",
    "min": "max", "max": "min", "any": "all", "all": "any", "ceil_div": "round_up",
    "True": "False", "False": "True", "<<": ">>", ">>": "<<",
}  # fmt: skip
TOKEN = re.compile(
    r"\*\*|//=?|<<|>>|<=|>=|==|!=|&&|\|\||(?<![\w.])\d+(?![\w.])|\b[a-z_]\w*\b|[-<>+*/%]"
)
COMMENT = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Mutant:
    """One change: the text from ``begin`` to ``end`` of a file is replaced by ``new``."""

    path: Path
    begin: int
    end: int
    new: str

    def difference(self, text: str) -> str:
        """Return the change as a difference of lines."""
        name = self.path.relative_to(ROOT).as_posix()
        lines = [each.splitlines(keepends=True) for each in (text, self.applied(text))]
        return "".join(difflib.unified_diff(*lines, name, name, n=1))

    def applied(self, text: str) -> str:
        """Return the text with the change."""
        return text[: self.begin] + self.new + text[self.end :]


def other(token: str, draw: random.Random) -> str | None:
    """Return a token to replace another one, or None."""
    if token.isdigit():
        return str(int(token) + draw.choice((1, -1) if int(token) else (1,)))
    return SWAPS.get(token)


def python_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where functions compute: no strings, annotations, imports, defaults."""
    lines = [0]
    for line in text.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    encoded = text.encode()

    def at(line: int, column: int) -> int:
        return len(encoded[: lines[line - 1] + column].decode())

    functions = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef))
    for statement in (each for function in functions for each in function.body):
        for node in ast.walk(statement):
            if isinstance(node, (ast.Compare, ast.BinOp, ast.BoolOp)):
                parts = _operands(node)
                for left, right in zip(parts, parts[1:]):
                    yield (
                        at(left.end_lineno, left.end_col_offset),
                        at(right.lineno, right.col_offset),
                    )
            elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int)):
                yield at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                func = node.func
                yield at(func.lineno, func.col_offset), at(func.end_lineno, func.end_col_offset)


def _operands(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    return list(node.values) if isinstance(node, ast.BoolOp) else [node.left, node.right]


def c_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where C code is, between comments, texts and directives, inside of functions."""
    begin = text.find("{")
    for skipped in COMMENT.finditer(text):
        if begin < skipped.start():
            yield max(begin, 0), skipped.start()
        begin = max(begin, skipped.end())
    yield max(begin, 0), len(text)


def mutants_of(path: Path, draw: random.Random) -> list[Mutant]:
    """Return the possible changes of a file."""
    text = path.read_text(encoding="utf-8")
    spans = python_spans(text) if path.suffix == ".py" else c_spans(text)
    found = {}
    for begin, end in spans:
        for match in TOKEN.finditer(text, begin, end):
            new = other(match.group(), draw)
            if new is not None and not _is_syntax(text, match, path.suffix):
                found[match.span()] = Mutant(path, *match.span(), new)
    return list(found.values())


def _is_syntax(text: str, match: re.Match[str], suffix: str) -> bool:
    """Return whether a token of C is a pointer, an arrow, a step or a sign."""
    if suffix == ".py":
        return False
    before, after = text[match.start() - 1], text[match.end() : match.end() + 1]
    spaced = before == " " and after == " "
    return not (match.group().isdigit() or match.group() in ("min", "max") or spaced)


def is_noticed(tests: Sequence[str], seconds: float) -> bool:
    """Run tests until one fails or the time is over; return whether one failed."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n0"]
    command += ["-m", "not slow and not extended", *tests]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode not in (0, 5)


def run(names: Sequence[str], count: int, seed: int, seconds: float) -> None:
    """Try ``count`` mutants of each package; print a table, and the survivors."""
    rows = []
    for name in names:
        package, draw = PACKAGES[name], random.Random(f"{seed} {name}")
        files = sorted({p for pattern in package.sources for p in ROOT.glob(pattern)})
        pool = [mutant for path in files for mutant in mutants_of(path, draw)]
        killed, begun = 0, time.perf_counter()
        for mutant in draw.sample(pool, min(count, len(pool))):
            text = mutant.path.read_text(encoding="utf-8")
            try:
                mutant.path.write_text(mutant.applied(text), encoding="utf-8")
                noticed = is_noticed(tests_of(package, mutant.path), seconds)
            finally:
                mutant.path.write_text(text, encoding="utf-8")
            killed += noticed
            if not noticed:
                print(f"survived:\n{mutant.difference(text)}", flush=True)
        rows.append((name, killed, min(count, len(pool)), time.perf_counter() - begun))
    print(f"{'package':12} {'noticed':>8} {'of':>5} {'share':>6} {'seconds':>8}")
    for name, killed, tried, spent in rows:
        print(f"{name:12} {killed:8} {tried:5} {killed / max(tried, 1):6.0%} {spent:8.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=", ".join(PACKAGES))
    parser.add_argument("--count", type=int, default=20, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60, help="for the tests of a mutant")
    options = parser.parse_args()
    unknown = sorted({*options.packages} - {*PACKAGES})
    if unknown:
        parser.error(f"no package {unknown[0]}; choose from {', '.join(PACKAGES)}")
    changed = subprocess.run(
        ["git", "status", "--porcelain", "python", "include", "src_runtime", "src_backend"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    if changed:
        parser.error("there are changes that are not committed; commit or stash them first")
    import tvmrt

    if not Path(tvmrt.__file__).is_relative_to(ROOT):
        parser.error(
            f"the tests would use {Path(tvmrt.__file__).parent} instead of these sources; run "
            "'pip install --no-build-isolation -e .' in an environment, and this with its Python"
        )
    run(options.packages or list(PACKAGES), options.count, options.seed, options.seconds)


if __name__ == "__main__":
    main()
