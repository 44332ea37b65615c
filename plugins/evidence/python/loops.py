"""Bounds of the loops of the C code, in the formats of aiT and OTAWA.

Almost no loop of generated code and kernels depends on data: the code is built with a counter in
each loop's condition, and replays the vectors. A loop with another number of iterations for another
vector has no bound. A loop that ends by break counts on in its next execution, so its bound grows.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tvmrt.compiler.sdk.export import CFLAGS, find_compiler, run_compiler, scratch_folder

from .documents import json_text

BASIS = "counted with the recorded vectors: review loops that depend on data"
# What a scan for loops passes over, and loops; `} while` ends a do loop.
_TOKEN = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\b(for|(?:\} )?while) \(", re.S
)
_FUNCTION = re.compile(r"^(?:#define +|(?:[A-Za-z_]\w*[ *]+)+)(\w+)\(", re.M)
_COUNTER = """\
#ifndef REPLAY_LOOPS_H_
#define REPLAY_LOOPS_H_
extern unsigned long long replay_now[], replay_most[], replay_total[];
void replay_after(int vector);
#define REPLAY_AFTER(vector) replay_after(vector)
static inline int replay_loop(int loop, int goes_on) {
  if (!goes_on) replay_now[loop] = 0;
  if (goes_on && ++replay_now[loop] > replay_most[loop]) replay_most[loop] = replay_now[loop];
  replay_total[loop] += (unsigned)goes_on;
  return goes_on;
}
#endif
"""
_MAIN = """\
#include <stdio.h>
unsigned long long replay_now[@], replay_most[@], replay_total[@];
static unsigned long long before[@], first[@], differs[@];
int replay(void);
void replay_after(int vector) {
  for (int i = 0; i < @; before[i] = replay_total[i], ++i) {
    if (vector == 0) first[i] = replay_total[i];
    differs[i] |= replay_total[i] - before[i] != first[i];
  }
}
int main(void) {
  const int code = replay();
  for (int i = 0; i < @; ++i)
    printf("%llu %llu %llu\\n", replay_most[i], replay_total[i], differs[i]);
  return code == 2;
}
"""


@dataclass
class Loop:
    """A loop; ``most``: iterations of one execution; ``total``: of all in one run; both None if
    they depend on data."""

    file: str
    line: int
    function: str
    number: int  # in its function
    is_do: bool
    most: int | None = 0
    total: int | None = 0


def find_loops(files: Mapping[str, str]) -> list[Loop]:
    """Count the iterations of the loops of C files and headers, given with ``replay.c`` and its
    vectors by path; return those that run: none if the code fails, which ``tvmrt verify`` reports.

    Raises CompileError without a C compiler.
    """
    loops: list[Loop] = []
    with scratch_folder() as folder:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_with_counters(name, text, loops) if name != "replay.c" else text)
        (folder / "counter.h").write_text(_COUNTER)
        (folder / "main.c").write_text(_MAIN.replace("@", str(len(loops) or 1)))
        counts = [list(map(int, row.split())) for row in _run(folder)[-len(loops) or 1 :]]
    vectors = int(re.search(r"REPLAY_VECTORS = (\d+)", files["vectors/vectors.h"])[1])  # type: ignore[index]
    for loop, (most, total, differs) in zip(loops, counts):
        loop.most, loop.total = most + loop.is_do, -(-total // (2 * vectors))
        if differs:
            loop.most = loop.total = None
    return [loop for loop in loops if loop.total != 0]


def _run(folder: Path) -> list[str]:
    counted = ("-include", str(folder / "counter.h"), "-DREPLAY_NO_MAIN", str(folder / "main.c"))
    program = build_replay(folder, folder, None, ("-O1", *counted))
    done = subprocess.run(program, capture_output=True, text=True, errors="replace", check=False)
    return [] if done.returncode else done.stdout.splitlines()


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
    parts, end = [], 0
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
        pieces[condition] = f" replay_loop({len(loops)}, ({goes_on}) != 0)"
        loops.append(Loop(name, line, function, number, match[1].startswith("}")))
        parts += [text[end:begin], ";".join(pieces)]
        end = close
    return "".join([*parts, text[end:]])


def _closing(text: str, at: int) -> int:
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at - 1


def files(loops: list[Loop], cycles: object) -> Iterator[tuple[str, str]]:
    """Yield ``wcet.json`` and the annotations; ``cycles``: an estimate, or why there is none."""
    rows = [{k: v for k, v in vars(loop).items() if k != "is_do"} for loop in loops]
    yield "wcet.json", json_text({"basis": BASIS, "cycles": cycles, "loops": rows})
    lines = [
        f'loop "{loop.function}.L{loop.number}" bound: 0..{loop.most}; # {loop.file}:{loop.line}'
        if loop.most is not None else f"# {loop.function}.L{loop.number} depends on data"
        for loop in loops
    ]  # fmt: skip
    yield "loops.ais", "\n".join([f"# Loop bounds for aiT (AIS2), {BASIS}", *lines, ""])
    lines = [
        f"  <function name={quoteattr(loop.function)}>"
        f'<loop source={quoteattr(Path(loop.file).name)} line="{loop.line}" '
        f'maxcount="{loop.most}" totalcount="{loop.total}"/></function>'
        for loop in loops
        if loop.most is not None
    ]
    head = ['<?xml version="1.0" encoding="UTF-8"?>', f"<!-- {BASIS} -->", "<flowfacts>"]
    yield "loops.ffx", "\n".join([*head, *lines, "</flowfacts>", ""])
