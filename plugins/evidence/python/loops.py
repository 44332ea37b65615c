"""Bounds of the loops of the C code, in the formats of aiT and OTAWA.

The code is built with a counter in each loop's condition, and runs the vectors. A loop that ends
by break counts on in its next execution, so its bound grows. A bound holds for all inputs, if

- the loop counts between two numbers in its text, or
- valgrind's memcheck, with inputs and all memory between operators marked as undefined, finds no
  condition of the loop undefined, and no branch or address of its operator. A branch in a
  function that only returns a value, such as a clamp, may be undefined: the value is marked then.

Other loops depend on data and have no bound. Without valgrind, they are those whose counts differ
by vector.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tvmrt.compiler.sdk.export import CFLAGS, find_compiler, run_compiler, scratch_folder

from .documents import json_text

DERIVED, COUNTED, DATA = "derived", "counted", "depends on data"
BASES = {
    DERIVED: "holds for all inputs without NaN and infinity: no branch depends on them",
    COUNTED: "counted with the recorded vectors: review loops that depend on data",
    DATA: "its iterations, or other branches of its operator, depend on inputs: no bound",
}
SECONDS = 600  # of a run
# Comments and strings, which a scan for loops skips, and loops; `} while` ends a do loop.
_TOKEN = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\b(for|(?:\} )?while) \(", re.S
)
_FUNCTION = re.compile(r"^(?:#define +|(?:[A-Za-z_]\w*[ *]+)+)(\w+)\(", re.M)
_COUNTS_UP = re.compile(r"\w+ (\w+) = (\d+); \1 < (\d+); (?:\+\+\1|\1\+\+|\1 \+= (\d+))")
_WHOLE_FUNCTION = re.compile(r"^([\w *]+?\b\w+\(([^()]+)\) \{)( [^\n]*\}|\n.*?\n\})$", re.M | re.S)
# With these, minima and maxima are instructions instead of branches. Not -ffast-math, which code
# with equal bits on all processors refuses.
_MINIMA = ("-ffinite-math-only", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno")
_FLAGS = ("-O1", *_MINIMA, "-DREPLAY_NO_MAIN", "-include", "loop_counter.h")


@dataclass
class Loop:
    """A loop; ``most``: iterations of one execution; ``total``: of all in one run; None if they
    depend on data. ``ends``: ``most`` by its text, where that has numbers."""

    file: str
    line: int
    function: str
    number: int  # in its function
    is_do: bool
    ends: int | None
    most: int | None = 0
    total: int | None = 0
    basis: str = COUNTED


def find_loops(files: Mapping[str, str]) -> list[Loop]:
    """Count the iterations of the loops of C files and headers, given with ``replay.c`` and its
    vectors by path; return those that run: none if the code fails, which ``tvmrt verify`` reports.

    Raises CompileError without a C compiler.
    """
    loops: list[Loop] = []
    here = Path(__file__).parent
    with scratch_folder() as folder:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text if name == "replay.c" else _with_counters(name, text, loops))
        with (folder / "replay.c").open("a") as file:
            inputs = re.findall(r"\b(in_0_\d+)\[\] = ", files["vectors/vectors.h"])
            marks = " ".join(f"MARK({name}, sizeof {name});" for name in inputs)
            file.write(f'\n#define MARK_INPUTS {marks}\n#include "loop_counts.h"\n')
        flags = (*_FLAGS, f"-I{here}", f"-DREPLAY_LOOPS={len(loops) or 1}")
        program = str(build_replay(folder, folder, None, flags))
        counts, checked = _counts([program]), []
        if counts and shutil.which("valgrind"):
            checked = _counts(["valgrind", "-q", "--error-limit=no", program, "checked"])
    for loop, (most, total, depends), check in zip(loops, counts, checked or counts):
        loop.most, loop.total = most + loop.is_do, total
        if depends or check[2]:
            loop.most, loop.total, loop.basis = None, None, DATA
        elif checked and check[0] == most:
            loop.basis = DERIVED
        if loop.ends is not None:
            loop.most, loop.basis = loop.ends, DERIVED
    return [loop for loop in loops if loop.total != 0]


def _counts(command: Sequence[str]) -> list[list[int]]:
    """Return the rows that the program prints; none if it fails or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                              timeout=SECONDS, check=True)  # fmt: skip
    except subprocess.SubprocessError:
        return []
    return [list(map(int, row.split())) for row in done.stdout.splitlines()]


def build_replay(folder: Path, scratch: Path, cc: str | None, flags: Sequence[str]) -> Path:
    """Return the program ``replay.c`` of a folder, built in another; ``flags``: also sources.

    Raises CompileError.
    """
    sources = [folder / "replay.c", *sorted((folder / "code").glob("*.c"))]
    includes = [f"-I{(folder / part).resolve()}" for part in (".", "code", "code/include")]
    files, program = [str(each.resolve()) for each in sources], scratch / "replay"
    command = [*find_compiler(cc), *CFLAGS, *flags, *includes, *files, "-lm", "-o", str(program)]
    run_compiler(command, scratch)
    return program


def _with_counters(name: str, text: str, loops: list[Loop]) -> str:
    parts, end, text = [], 0, _WHOLE_FUNCTION.sub(_with_marks, text)
    functions = [(m.start(), m[1]) for m in _FUNCTION.finditer(text)]
    for match in _TOKEN.finditer(text):
        if match[1] is None or match.start() < end:
            continue
        begin, close = match.end(), _closing(text, match.end())
        pieces = text[begin:close].split(";") if match[1] == "for" else [text[begin:close]]
        if len(pieces) not in (1, 3):
            continue
        function = next((f for at, f in reversed(functions) if at < begin), "")
        number = 1 + sum(each.file == name and each.function == function for each in loops)
        line = text.count("\n", 0, begin) + 1
        condition = len(pieces) // 2
        goes_on = pieces[condition].strip() or "1"
        ends = _ends(";".join(pieces), text, match.start(), close)
        pieces[condition] = f" replay_loop({len(loops)}, ({goes_on}) != 0)"
        loops.append(Loop(name, line, function, number, match[1].startswith("}"), ends))
        parts += [text[end:begin], ";".join(pieces)]
        end = close
    return "".join([*parts, text[end:]])


def _with_marks(function: re.Match[str]) -> str:
    """Return a function that marks its result if it branches on an undefined value, if the result
    is all that it writes."""
    head, parameters, body = function.groups()
    writes = re.search(r"(?:^|,)(?!\s*const )[^,]*\*", parameters)
    if writes or re.search(r"\b(for|while|do|goto)\b", body):
        return function[0]
    body = re.sub(r"\breturn ([^;]+);", r"return REPLAY_RESULT(reports, \1);", body)
    return f"{head} const unsigned reports = REPLAY_REPORTS(); (void)reports;{body}"


def _closing(text: str, at: int) -> int:
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at - 1


def _ends(head: str, text: str, start: int, close: int) -> int | None:
    """Return the most iterations of a loop that counts up between two numbers; None for others."""
    counts = _COUNTS_UP.fullmatch(head)
    if counts is None:
        return None
    indent = text[text.rfind("\n", 0, start) + 1 : start]
    end = f"\n{indent}}}" if text.startswith(") {", close) else ";"
    body = text[close : max(text.find(end, close), close)]
    name = counts[1]
    if re.search(rf"(\+\+|--|&){name}\b|\b{name} ?(\+\+|--|[^\w\s=!<>]?=[^=]|<<=|>>=)", body):
        return None
    return -(-max(int(counts[3]) - int(counts[2]), 0) // int(counts[4] or 1))


def files(loops: list[Loop]) -> Iterator[tuple[str, str]]:
    """Yield ``wcet.json`` and the annotations."""
    rows = [{k: v for k, v in vars(loop).items() if k not in ("is_do", "ends")} for loop in loops]
    yield "wcet.json", json_text({"bases": BASES, "loops": rows})
    bases = [f"{basis}: {text}" for basis, text in BASES.items()]
    ais = ["# Loop bounds for aiT (AIS2)", *(f"# {each}" for each in bases)]
    ffx = ['<?xml version="1.0" encoding="UTF-8"?>', *(f"<!-- {each} -->" for each in bases)]
    ffx.append("<flowfacts>")
    for loop in loops:
        name = f"{loop.function}.L{loop.number}"
        if loop.most is None:
            ais.append(f"# {name} {DATA}")
            continue
        place = f"{loop.file}:{loop.line}, {loop.basis}"
        ais.append(f'loop "{name}" bound: 0..{loop.most}; # {place}')
        total = "" if loop.total is None else f' totalcount="{loop.total}"'
        ffx.append(
            f"  <!-- {loop.basis} --><function name={quoteattr(loop.function)}>"
            f'<loop source={quoteattr(Path(loop.file).name)} line="{loop.line}" '
            f'maxcount="{loop.most}"{total}/></function>'
        )
    yield "loops.ais", "\n".join([*ais, ""])
    yield "loops.ffx", "\n".join([*ffx, "</flowfacts>", ""])
