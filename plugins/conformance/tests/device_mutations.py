"""Mutants of the reference device, made by a program: one mistake each, chosen by a seed.

A mutation is a place in the source and a replacement. Kinds are equally likely, and so are the
places of a kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
SOURCE = FOLDER / "reference_device.c"
MARK = "/* Mutants "


@dataclass(frozen=True)
class Mutant:
    """A mistake: its kind, what it changes in which line, and the whole source."""

    kind: str
    line: int
    change: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} in line {self.line}: {self.change}"


Edit = tuple[int, int, str]  # from, to, and the new text


def _replacements(pattern: str, *news: str) -> Callable[[str], Iterator[Edit]]:
    """Return edits that replace a match by each text, in which \\1 is the first group."""

    def edits(text: str) -> Iterator[Edit]:
        for match in re.finditer(pattern, text):
            for new in news:
                yield match.start(), match.end(), match.expand(new)

    return edits


def _constants(text: str) -> Iterator[Edit]:
    for match in re.finditer(r"(?<![\w.\"\[])\d+(?![\w.\"])", text):
        value = int(match[0])
        for new in {value + 1, value - 1, value // 2} - {value}:
            yield match.start(), match.end(), str(new)


def _orders(text: str) -> Iterator[Edit]:
    """Exchange two statements that follow each other in one block, or two indices."""
    statement = r"^( +)([^\s{}/#][^;{}]*;)\n\1([^\s{}/#][^;{}]*;)\n"
    for match in re.finditer(statement, text, re.MULTILINE):
        yield match.start(), match.end(), f"{match[1]}{match[3]}\n{match[1]}{match[2]}\n"
    for match in re.finditer(r"\[([0-3])\]", text):
        for new in {"0", "1", "2", "3"} - {match[1]}:
            yield match.start(), match.end(), f"[{new}]"
    for a, b in (("row", "column"), ("h", "w"), ("first", "second"), ("a", "b"), ("i", "o")):
        for old, new in ((a, b), (b, a)):
            yield from _replacements(rf"(?<![\w>.])\b{old}\b(?=\b[^(\w])(?! =)", new)(text)


def _without(calls: str) -> Callable[[str], Iterator[Edit]]:
    """Return edits that leave out a statement with one of these calls."""
    return _replacements(rf"(?m)^( +)(?:\(void\))?(?:{calls})\([^;]*;", r"\1;")


def _stale(text: str) -> Iterator[Edit]:
    """Keep the first value of a variable, or the effect of the first assignment."""
    for match in re.finditer(r"(?m)^( +)const ([\w ]+?\*? ?)(\w+) = ([^;{}]+);", text):
        kind, name, value = match[2].strip(), match[3], match[4]
        new = (
            f"{match[1]}static {kind} {name}; static int has_{name};"
            f" if (!has_{name}) {name} = {value}; has_{name} = 1;"
        )
        yield match.start(), match.end(), new
    for match in re.finditer(r"(?m)^( +)((?:out|g|region)->[\w\[\]]+ = [^;]+;)", text):
        new = f"{match[1]}static int done; if (!done) {match[2]} done = 1;"
        yield match.start(), match.end(), f"{{ {new} }}"


def _cached(text: str) -> Iterator[Edit]:
    """Keep packed weights of a node by the symbol of its region, or by their size."""
    call = "pack(region, n, &g->nodes[i])"
    start = text.index(call)
    for key in ("strcmp(keys[k], region->symbol) == 0 && sizes[k] == size", "sizes[k] == size"):
        yield (
            start, start + len(call),
            "({ static packed kept[512]; static int64_t sizes[512]; static char keys[512][96];"
            " static int used; int k; const int64_t size = 1000 * region->tensors[n->inputs[1]]"
            f".num_bytes + i; for (k = 0; k < used && !({key}); ++k) {{}}"
            " if (k == used && k < 511) { (void)pack(region, n, &kept[k]); sizes[k] = size;"
            ' snprintf(keys[k], 96, "%s", region->symbol); ++used; }'
            " g->owns_weights = 0; g->nodes[i] = kept[k]; 0; })",
        )  # fmt: skip


KINDS: dict[str, Callable[[str], Iterator[Edit]]] = {
    "constant": _constants,
    "operator": lambda text: (
        edit
        for old, news in (
            (r" \+ ", (" - ",)), (r" - ", (" + ",)), (r" \* ", (" + ",)), (r" / ", (" * ",)),
            (r" % ", (" / ",)), (r" < ", (" <= ", " > ")), (r" >= ", (" > ",)),
            (r" == ", (" != ",)), (r" != ", (" == ",)), (r" && ", (" || ",)),
            (r" \|\| ", (" && ",)),
            (r" > ", (" >= ", " < ")), (r" \+= ", (" = ", " -= ")),
        )
        for edit in _replacements(old, *news)(text)
    ),
    "rounding": lambda text: (
        edit
        for old, news in (
            (r"nearbyintf\(", ("roundf(", "floorf(", "truncf(", "ceilf(", "0.5f + truncf(")),
            (r"\(uint8_t\)\(value", ("(uint8_t)(1 + value", "(uint8_t)(value & ~1")),
        )
        for edit in _replacements(old, *news)(text)
    ),
    "width": lambda text: (
        edit
        for old, news in (
            (r"\bint64_t (?=[\w]+ =|\*)", ("int16_t ", "int8_t ")),
            (r"\(uint8_t\)", ("(int8_t)0 + (uint8_t)(int8_t)", "127 & (uint8_t)")),
            (r"\bdouble (sum|first|second|value|weight|largest|zero) =",
             (r"_Float16 \1 =", r"short \1 =", r"signed char \1 =")),
            (r"\(float\)sum", ("(float)(short)sum", "(float)(int)(sum) / 1",
                               "(float)fmax(-4194304, fmin(4194303, sum))")),
            (r"\(float\)of_channel\(scale", ("(float)(_Float16)of_channel(scale",)),
            (r"\(size_t\)\(", ("(size_t)(uint8_t)(",)),
            (r"sizeof\(\*out->(\w+)\)", (r"sizeof(*out->\1) / 2",)),
        )
        for edit in _replacements(old, *news)(text)
    ),
    "order": _orders,
    "condition": lambda text: (
        edit
        for edit in _replacements(r"\bif \(([^;{}]*?)\) (?=[\w{(*])", "if (1) ", "if (0) ")(text)
    ),
    "missing free": _without("free|unpack|pthread_\\w+_destroy"),
    "missing wait": _without("pthread_(?:mutex|cond)_\\w+|while \\(g->is_busy\\) \\w+"),
    "missing statement": _replacements(
        r"(?m)^( +)(?!return|const|int|static|void|float|double|pthread|free|\(void\))"
        r"[^\s{}/#][^;{}=]* [-+|]?= [^;{}]*;", r"\1;"
    ),
    "stale": _stale,
    "cache": _cached,
    "not exact": lambda text: (
        edit
        for old, news in (
            (r"(?<==)( number\()", (r" (_Float16)\1",)),
            (r"(\w+) \* a_scale|\) \* a_scale", (r") * (float)(_Float16)a_scale",)),
            (r"\(float\)sum \* scale", (
                "(float)(floor(sum * scale * 16384 + 0.5) / 16384) * (1 - 0x1p-13f)",
                "(float)sum * (scale * (1 + 0x1p-12f))", "(float)((int)sum / 2 * 2) * scale")),
            (r"p->scale\[o\]", ("p->scale[0]", "p->scale[o / LANES * LANES]", "p->scale[o & 127]")),
            (r"p->bias\[o\]",
             ("p->bias[0]", "p->bias[o & 63]", "0", "(float)(_Float16)p->bias[o]")),
        )
        for edit in _replacements(old, *news)(text)
    ),
}  # fmt: skip


def mutants(seed: int) -> Iterator[Mutant]:
    """Yield different mutants without end, or until there are none."""
    rng = np.random.default_rng(seed)
    source = SOURCE.read_text(encoding="utf-8")
    first = source.index("\n", source.index(MARK))
    last = source.index(MARK, first)
    part = source[first:last]
    places = {kind: list(dict.fromkeys(edits(part))) for kind, edits in KINDS.items()}
    for found in places.values():
        rng.shuffle(found)
    while any(places.values()):
        kind = list(places)[int(rng.integers(len(places)))]
        if not places[kind]:
            del places[kind]
            continue
        begin, end, new = places[kind].pop()
        begin, end = int(begin), int(end)
        line = source[: first + begin].count("\n") + 1
        text = source[: first + begin] + new + source[first + end :]
        change = f"{' '.join(part[begin:end].split())} -> {' '.join(new.split())}"
        yield Mutant(kind, line, change[:100], text)
