"""Check comments, docstrings, texts, pages and identifiers for a list of words.

Prints file, line, the word and what to write instead. Code in pages and names between backquotes
are left out.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("include", "python", "plugins", "src_backend", "src_runtime", "docs", "examples", "tests")
LEFT_OUT = {"build", "__pycache__", ".venv", "data"}
WORD_LISTS = {"words.py", "test_words.py"}  # this list and its test
SUFFIXES = (".c", ".h", ".md", ".py")

# What to write instead of words that are unclear or that the field does not use.
WORDS = {
    r"told|tells": "report, say, name",
    r"behind": "after, past the end of",
    r"anew": "again",
    r"whoever": "the caller, the owner",
    r"(?<!one )(?<!some )(?<!none )(?<!all )(?<!each )(?<!last )(?<!first )of which": "whose, with",
    r"by which": "with, for, from",
    r"held against": "compared with",
    r"by squares|(?<!least )(?<!of )squares of": "Winograd, Winograd tile",
    r"foretold": "known before the loop",
    r"stowed": "memory-mapped",
    r"beside": "next to, in addition to",
    r"(?<![Tt]here )is no(?= )(?! (?:longer|more|less|larger|smaller|better|worse)\b)": "is not a",
}
# Words of identifiers, and names of classes that do not name their subject.
IDENTIFIERS = {
    "told": "reported, or a noun of the value",
    "tells": "reports",
    "foretold": "trip_count",
    "anew": "again",
    "behind": "after, following",
    "beside": "next_to, alongside",
    "stowed": "mapped",
    "whoever": "caller, owner",
    "somebody": "caller, owner",
    "nobody": "no_caller, unowned",
    "rooms": "packages, modules",
    "house": "package",
}
CLASSES = set("Row Several Perhaps Nothing Unknowable Declined Asked Left Misfit Remark".split())
STARTS = {r"The same": "what it is", r"(?:That|Those) of": "what it is"}
_RULES = [(re.compile(rf"\b(?:{word})\b"), instead) for word, instead in WORDS.items()]
_STARTS = [(re.compile(rf"^\W*(?:{word})\b"), instead) for word, instead in STARTS.items()]
_NAMES = re.compile(r"``[^`]*``|`[^`\n]*`|\{[^{}]*\}")
_PARAMETERS = re.compile(r"^ *[a-z_0-9]+(?:, [a-z_0-9]+)*$", re.MULTILINE)  # of a numpydoc list
_C = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _of_c(text: str) -> Iterator[tuple[int, str, bool]]:
    for found in _C.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, found[0], False


@lru_cache(maxsize=1)
def _tokens(text: str) -> list[tuple[int, int, str]]:
    """Return (line, type, text) of each name and comment of Python code."""
    return [
        (token.start[0], token.type, token.string)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type in (tokenize.NAME, tokenize.COMMENT)
    ]


_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _of_python(text: str) -> Iterator[tuple[int, str, bool]]:
    for line, kind, comment in _tokens(text):
        if kind == tokenize.COMMENT:
            yield line, comment, False
    heads = set()
    for node in ast.walk(ast.parse(text)):  # parents come before their children
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and " " in node.value:
                yield node.lineno, node.value, id(node) in heads
        elif isinstance(node, _WITH_DOCSTRING) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr):
                heads.add(id(first.value))


def _of_page(text: str) -> Iterator[tuple[int, str, bool]]:
    yield 1, _FENCE.sub(_blank, text), False


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def _identifiers(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, identifier) of code."""
    if path.suffix == ".py":
        for line, kind, name in _tokens(text):
            if kind == tokenize.NAME:
                yield line, name
    elif path.suffix in (".c", ".h"):
        for found in re.finditer(r"\b[A-Za-z_]\w*\b", _C.sub(_blank, text)):
            yield text.count("\n", 0, found.start()) + 1, found[0]


def _named(path: Path, text: str) -> Iterator[str]:
    """Yield one line for each identifier with a word of the list, and each class of the list."""
    seen: set[str] = set()
    for line, name in _identifiers(path, text):
        if name in seen:
            continue
        seen.add(name)
        for word in {part.lower() for part in _WORD.findall(name)} & set(IDENTIFIERS):
            yield f"{path.relative_to(ROOT)}:{line}: name {name}; write: {IDENTIFIERS[word]}"
    for found in re.finditer(r"^class (\w+)", text, re.MULTILINE):
        if path.suffix == ".py" and found[1] in CLASSES:
            line = text.count("\n", 0, found.start()) + 1
            yield f"{path.relative_to(ROOT)}:{line}: class {found[1]}; write: a noun of its subject"


READERS = {".c": _of_c, ".h": _of_c, ".py": _of_python, ".md": _of_page}


def findings(path: Path, text: str) -> Iterator[str]:
    """Yield one line for each word of the list in a file."""
    yield from _named(path, text)
    for first, part, is_head in READERS[path.suffix](text):
        prose = _NAMES.sub(_blank, part)
        if is_head:
            prose = _PARAMETERS.sub(_blank, prose)
        for rule, instead in _RULES + (_STARTS if is_head else []):
            for found in rule.finditer(prose):
                line = first + prose.count("\n", 0, found.start())
                word = " ".join(found[0].split())
                yield f"{path.relative_to(ROOT)}:{line}: '{word}'; write: {instead}"


def files() -> list[Path]:
    """Return the files that are checked: the product without its tests, and all pages."""
    found = [path for part in PARTS for path in (ROOT / part).rglob("*") if path.is_file()]
    found += ROOT.glob("*.md")
    return sorted(
        path
        for path in found
        if path.suffix in SUFFIXES
        and path.name not in WORD_LISTS
        and not LEFT_OUT & {*path.relative_to(ROOT).parts}
    )


def main() -> int:
    """Print all findings; return 1 if there are any."""
    lines = [line for path in files() for line in findings(path, path.read_text(encoding="utf-8"))]
    print("\n".join(lines))
    print(f"words: {len(lines)} findings", file=sys.stderr)
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
