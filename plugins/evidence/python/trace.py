"""The matrix from nodes of the network to lines of C, weights, checks and bounds."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from io import StringIO
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
            piece = f"frame: {defined[1]}()" if defined else f"frame: {_piece(body)}"
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


def _piece(body: str) -> str:
    kinds = {
        "includes": "#include", "size checks": "TVMGEN_ASSERT", "offsets": "enum {",
        "structs": "struct", "macros": "#", "tiles": "TVMRT_DEFINE",
    }  # fmt: skip
    return next((kind for kind, start in kinds.items() if re.search(f"^{start}", body, re.M)),
                "comments and declarations")  # fmt: skip


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


def trace_rows(library: Any, graph: Any, proved: bool, exact: Mapping[str, str]) -> list[list[str]]:
    """Return the rows of the matrix; ``exact``: by function, what its tensors are compared by."""
    sources, program = library.sources, library.program
    by_function = {function.symbol: function for function in sources.functions}
    owners = {symbol: symbol for symbol in by_function}
    offsets, at = {}, 0
    users = defaultdict(list)
    for buffer in sources.weight_buffers:
        offsets[buffer], at = at, at + -(-buffer.nbytes // 16) * 16
    for symbol, function in by_function.items():
        for parameter in function.parameters:
            if parameter.buffer in offsets:
                users[sources.symbol_of(parameter.buffer)].append(symbol)
    owners |= {weight: symbols[0] for weight, symbols in users.items()}
    for step, function in zip(program.steps, sources.functions):
        for word in (f"at_{step.name}", f"at_{step.name}_scratch"):
            owners[word] = function.symbol
    rows = []
    for name, text in sorted(sources.files.items()):
        for first, last, owner in _ranges(line_owners(text, owners, name)):
            function = by_function.get(owner)
            columns = [""] * 7
            if function is not None:
                columns = _columns(library, graph, function, offsets, proved, exact)
            piece = owner if function is None else "operator"
            rows.append([name, str(first), str(last), piece, *columns])
    return rows


def _ranges(owners: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    first = 0
    for at in range(1, len(owners) + 1):
        if at == len(owners) or owners[at] != owners[first]:
            yield first + 1, at, owners[first]
            first = at


def _columns(
    library: Any, graph: Any, function: Any, offsets: Mapping[Any, int], proved: bool,
    exact: Mapping[str, str],
) -> list[str]:  # fmt: skip
    step = function.step
    inside = {name for name in step.sources}
    nodes = [node.name for node in graph.nodes if inside & {*node.sources}]
    weights = [
        f"{library.sources.symbol_of(p.buffer)} +{offsets[p.buffer]}"
        for p in function.parameters
        if p.buffer in offsets
    ]
    short = function.symbol.removeprefix(f"{library.sources.prefix}_")
    return [
        function.symbol, "; ".join(step.sources), "; ".join(nodes), "; ".join(weights),
        f"replay.c, operator {library.program.steps.index(step)}",
        f"code/proof/run.sh {short}" if proved else "", exact.get(function.symbol, ""),
    ]  # fmt: skip


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
