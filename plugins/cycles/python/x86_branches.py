"""Branches of a program for x86 by source line, and those that memcheck reports."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tvmrt.plugins.cycles import control_flow
from tvmrt.plugins.cycles.branch_facts import LINE, Line
from tvmrt.plugins.cycles.control_flow import Constants, UnknownFlowError
from tvmrt.plugins.cycles.disassembly import Disassembly, Instruction

_FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_CODE = re.compile(r"^\s*([0-9a-f]+):\s+(?:(?:notrack|bnd|rep|repz|lock|cs|ds) )*(\S+)\s*(.*)$")
_TARGET = re.compile(r"^([0-9a-f]+) <")


@dataclass(frozen=True)
class SteadyLines:
    """Lines of C whose branches go the same way for all inputs. ``loops``: as far as they decide
    about loops; ``all``: all branches of the line; ``straight``: lines without branches; there,
    compilers make loops only to copy constantly many bytes."""

    loops: frozenset[Line]
    all: frozenset[Line]
    straight: frozenset[Line]

    def has(self, line: Line, decides_about_loop: bool) -> bool:
        return line in self.all or (
            decides_about_loop and (line in self.loops or line in self.straight)
        )


def steady_lines(text: str, functions: Collection[str], reported: Iterable[int]) -> SteadyLines:
    """Return the lines whose branches memcheck has seen and not reported.

    ``text``: output of ``objdump -dl --no-show-raw-insn``; ``functions``: names of those to look
    at; ``reported``: addresses of the reported instructions.
    """
    code, lines = _read(text, functions)
    branches = {each.address for each in code.instructions if each.kind == "branch"}
    loops, unclear = _deciding_about_loops(code)
    reports = {*reported} & lines.keys()
    reported_lines = {lines[at] for at in reports}
    reported_loops = {lines[at] for at in reports if at in loops or at in unclear}
    seen = {lines[at] for at in branches & lines.keys()}
    seen_loops = {lines[at] for at in loops & lines.keys()}
    return SteadyLines(
        frozenset(seen_loops - reported_loops),
        frozenset(seen - reported_lines),
        frozenset({*lines.values()} - seen - reported_lines),
    )


def _read(text: str, functions: Collection[str]) -> tuple[Disassembly, dict[int, Line]]:
    code, lines = Disassembly(), {}
    line: Line | None = None
    is_wanted = False
    for row in text.splitlines():
        function = _FUNCTION.match(row)
        if function:
            is_wanted, line = function[2] in functions, None
            if is_wanted:
                code.functions[int(function[1], 16)] = function[2]
        elif is_wanted:
            at = LINE.match(row)
            match = None if at else _CODE.match(row)
            if at:
                line = at[1], int(at[2])
            elif match:
                instruction = _instruction(int(match[1], 16), match[2], match[3])
                code.indices[instruction.address] = len(code.instructions)
                code.instructions.append(instruction)
                if line:
                    lines[instruction.address] = line
    return code, lines


def _instruction(address: int, name: str, rest: str) -> Instruction:
    target = _TARGET.match(rest)
    kind = "alu"
    if name.startswith("call"):
        kind = "call"
    elif name.startswith("ret"):
        kind, name = "jump", "ret"
    elif name.startswith("jmp"):
        kind = "jump" if target else "table"
    elif name.startswith(("j", "loop")):
        kind = "branch"
    return Instruction(
        address, kind, text=f"{name}\t{rest}", target=int(target[1], 16) if target else None
    )


def _deciding_about_loops(code: Disassembly) -> tuple[set[int], set[int]]:
    """Return the branches that decide whether a loop goes on or is executed, and the addresses of
    functions whose flow is unknown."""
    loops: set[int] = set()
    unclear: set[int] = set()
    for entry, name in code.functions.items():
        try:
            graph = control_flow.build(code, entry, Constants({}))
        except UnknownFlowError:
            begin, end = code.span(name)
            unclear.update(at for at in code.indices if begin <= at < end)
            continue
        decided = control_flow.dependents(graph)
        exits = control_flow.loop_exits(decided)
        for start, block in graph.blocks.items():
            if block.last.kind == "branch" and (
                start in exits or exits & control_flow.closure(decided, start)
            ):
                loops.add(block.last.address)
    return loops, unclear
