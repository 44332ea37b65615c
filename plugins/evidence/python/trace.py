"""The matrix from nodes of the network to lines of C, weights, checks and bounds."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from io import StringIO
from itertools import groupby
from typing import Any

COLUMNS = (
    "file", "first", "last", "piece", "function", "onnx_nodes", "graph_nodes", "weights", "test",
    "proof", "bound",
)  # fmt: skip
_DEFINITION = re.compile(r"^(?:[a-z]\w*[ *]+)+(\w+)\([^;]*\{$", re.M)


def line_owners(text: str, owners: Mapping[str, str], name: str) -> list[str]:
    """Return what each line of a C file belongs to: a function of ``owners``, by a symbol that it
    mentions, or a named piece of the frame."""
    found: list[str] = []
    for chunk in _chunks(text.split("\n")):
        body = "\n".join(chunk)
        defined = _DEFINITION.search(body)
        mentioned = {owners[word] for word in re.findall(r"\w+", body) if word in owners}
        if defined and owners.get(defined[1]) == defined[1]:
            found += [defined[1]] * len(chunk)
        elif not defined and len(mentioned) == 1 and name.endswith(".c"):
            found += [mentioned.pop()] * len(chunk)
        else:
            piece = f"frame: {defined[1]}()" if defined else "frame: declarations"
            found += _statements(chunk, owners, piece)
    return found[: text.count("\n")]


def _chunks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the lines of each definition, with the comment before it and the empty line after."""
    chunk: list[str] = []
    for number, line in enumerate(lines):
        chunk.append(line)
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if not line and not following.startswith((" ", "}", ")")):
            yield chunk
            chunk = []
    yield chunk


def _statements(chunk: Sequence[str], owners: Mapping[str, str], piece: str) -> Iterator[str]:
    """Yield the owner of each line: a statement that mentions one function belongs to it."""
    owner, indent = piece, -1
    for line in chunk:
        depth = len(line) - len(line.lstrip())
        words = [owners[word] for word in re.findall(r"\w+", line) if word in owners]
        if words and owner == piece:
            owner, indent = words[0], depth
        yield owner
        is_end = line.rstrip().endswith((";", "}", "},")) and depth <= indent
        if owner != piece and (is_end or not line.strip()):
            owner = piece


def trace_rows(
    library: Any, nodes: Mapping[Any, Sequence[str]], proved: bool, bounds: Mapping[Any, str]
) -> list[list[str]]:
    """Return the rows of the matrix. ``nodes``, ``bounds``: by step its nodes of the graph, and how
    its results are compared. ``proved``: whether the code has proofs."""
    sources = library.sources
    offsets = dict(zip(sources.weight_buffers, sources.flash_offsets()))
    owners: dict[str, str] = {}
    columns: dict[str, list[str]] = {}
    for number, (step, function) in enumerate(zip(library.program.steps, sources.functions)):
        symbol = function.symbol
        weights = {
            sources.symbol_of(p.buffer): offsets[p.buffer]
            for p in function.parameters
            if p.buffer in offsets
        }
        for word in (*weights, f"at_{step.name}", f"at_{step.name}_scratch"):
            owners.setdefault(word, symbol)
        columns[symbol] = [
            symbol, "; ".join(step.sources), "; ".join(nodes[step]),
            "; ".join(f"{name} +{offset}" for name, offset in weights.items()),
            f"replay.c, operator {number}",
            f"code/proof/run.sh {symbol.removeprefix(f'{sources.prefix}_')}" if proved else "",
            bounds.get(step, ""),
        ]  # fmt: skip
    owners |= {symbol: symbol for symbol in columns}
    rows = []
    for name, text in sorted(sources.files.items()):
        last = 0
        for owner, lines in groupby(line_owners(text, owners, name)):
            first, last = last + 1, last + len(list(lines))
            piece = "operator" if owner in columns else owner
            rows.append([name, str(first), str(last), piece, *columns.get(owner, [""] * 7)])
    return rows


def files(rows: Sequence[Sequence[str]], title: str) -> Iterator[tuple[str, str]]:
    """Yield ``trace.csv`` and ``trace.html``."""
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *rows])
    yield "trace.csv", text.getvalue()
    body = [
        "<tr>" + "".join(f"<t{kind}>{escape(cell)}</t{kind}>" for cell in row) + "</tr>"
        for kind, row in (("h", COLUMNS), *(("d", row) for row in rows))
    ]
    yield "trace.html", "\n".join([
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape(title)}</title><style>td,th{{border:1px solid #888;text-align:left}}"
        "table{border-collapse:collapse;font:small sans-serif}</style></head><body>",
        f"<h1>{escape(title)}</h1><table>", *body, "</table></body></html>", "",
    ])  # fmt: skip
