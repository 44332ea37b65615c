"""Functions that a run reaches, and their branches that go the same way for every input.

Such a branch is called *known*, and the counts of one run are exact for its edges. A function is
*counted* if it is called from code on which only known branches decide, so its number of calls is
known, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Callable

from tvmrt.plugins.cycles import control_flow
from tvmrt.plugins.cycles.control_flow import (
    Block,
    Constants,
    Graph,
    NoReturnError,
    UnknownFlowError,
)
from tvmrt.plugins.cycles.disassembly import Disassembly, Instruction

POINTER = -1  # callee of a call through a pointer
_STORES = ("st", "vst", "push", "vpush")


@dataclass(frozen=True)
class Program:
    """Program and what is known of its runs.

    ``block_cycles``: largest cycles of consecutive instructions; ``taken_branch``: those of a taken
    branch in addition. ``words``: constants of the image.
    ``executed``: largest number of executions of an instruction in the runs; ``always_executed``,
    ``taken``, ``not_taken``: fewest executions, and outcomes of a branch. ``is_same``: whether a
    branch, or a call through a pointer, goes the same way for all inputs, if its own execution does
    not depend on them; the flag says that it decides about a loop. ``most_rounds``: largest number
    of iterations of a loop in a function that has the given blocks, or None;
    ``most_rounds_of_call``: of all loops of a called function, 0 if ``most_rounds`` is to say.
    ``outside``: whether a function belongs to the code around the program.
    """

    code: Disassembly
    block_cycles: Callable[[list[Instruction]], float]
    taken_branch: float
    words: Constants
    executed: Mapping[int, int]
    always_executed: Mapping[int, int]
    taken: Mapping[int, int]
    not_taken: Mapping[int, int]
    is_same: Callable[[int, bool], bool]
    most_rounds: Callable[[str, Graph, set[int]], int | None]
    most_rounds_of_call: Callable[[Block, str], int]
    outside: Callable[[str], bool]


class CallGraph:
    """Graphs of all functions that the one at ``root`` reaches, by address.

    By function: ``known``, addresses of its known branches; ``decided``: blocks on which other
    branches decide. ``counted``: counted functions. ``calls_pointers``: whether a counted function
    calls functions through pointers.

    Raises
    ------
    UnknownFlowError
        If the next instruction is unknown somewhere, or depends on the input through a pointer.
    """

    def __init__(self, program: Program, root: int) -> None:
        self.program = program
        self.root = root
        self.graphs: dict[int, Graph] = {}
        self.known: dict[int, set[int]] = {}
        self.decided: dict[int, set[int]] = {}
        self.counted: set[int] = set()
        self.calls_pointers = False
        self._endings: set[int] = set()  # functions that never return
        self._dependents: dict[int, dict[int, set[int]]] = {}
        self._exits: dict[int, set[int]] = {}
        self._add(root)
        self._add_pointed()
        self._remove_endings()
        for entry, graph in self.graphs.items():
            self.known[entry] = {
                block.last.address
                for start, block in graph.blocks.items()
                if self._may_be_known(graph, start)
            }
            self.decided[entry] = self._decided(graph)
        self._find_counted()

    def instructions(self) -> set[int]:
        """Return the addresses of all instructions of the functions."""
        return {
            instruction.address
            for graph in self.graphs.values()
            for block in graph.blocks.values()
            for instruction in block.code
        }

    def _add(self, entry: int) -> None:
        waiting = [entry]
        while waiting:
            at = waiting.pop()
            if at in self.graphs or at in self._endings:
                continue
            try:
                graph = control_flow.build(self.program.code, at, self.program.words)
            except NoReturnError:
                self._endings.add(at)
                continue
            self.graphs[at] = graph
            callees = (block.callee for block in graph.blocks.values())
            waiting += [each for each in callees if each is not None and each != POINTER]

    def _add_pointed(self) -> None:
        """Add functions that no instruction names, by what the runs executed."""
        program, reached = self.program, self.instructions()
        for at, name in program.code.functions.items():
            if program.executed.get(at) and at not in reached and not program.outside(name):
                self._add(at)
                reached = self.instructions()
        for at, times in program.executed.items():
            name = program.code.function_at(at)
            if times and at not in reached and not program.outside(name):
                raise UnknownFlowError(name, "is called in an unknown way")

    def _remove_endings(self) -> None:
        """Remove calls of functions that never return: a run that ends does not execute them."""
        before = -1
        while before != len(self._endings):
            before = len(self._endings)
            for entry in [*self.graphs]:
                graph = self.graphs[entry]
                calls = [at for at, block in graph.blocks.items() if block.callee in self._endings]
                try:
                    control_flow.remove(graph, calls)
                except NoReturnError:
                    if entry == self.root:
                        raise
                    self._endings.add(entry)
                    del self.graphs[entry]
        for entry, graph in self.graphs.items():
            self._dependents[entry] = control_flow.dependents(graph)
            self._exits[entry] = control_flow.loop_exits(self._dependents[entry])

    def _may_be_known(self, graph: Graph, start: int) -> bool:
        """Return whether a branch can be known. Compilers make branches of selections, which
        memcheck sees as moves: code without stores, calls and loops that a branch decides about."""
        last = graph.blocks[start].last
        decided = control_flow.closure(self._dependents[graph.entry], start)
        exits = self._exits[graph.entry]
        loops = start in exits or bool(exits & decided)
        if last.kind != "branch" or not self.program.is_same(last.address, loops):
            return False
        return loops or any(
            graph.blocks[at].callee is not None
            or any(
                each.kind in ("store", "float_store") or each.text.startswith(_STORES)
                for each in graph.blocks[at].code
            )
            for at in decided
        )

    def _decided(self, graph: Graph) -> set[int]:
        """Remove branches from the known ones until none depends on another; return the blocks that
        depend on branches which are not known."""
        dependents = self._dependents[graph.entry]
        while True:
            known = self.known[graph.entry]
            decided = {
                each
                for start, block in graph.blocks.items()
                if block.last.address not in known
                for each in dependents[start]
            }
            unknown = known & {graph.blocks[start].last.address for start in decided}
            if not unknown:
                return decided
            self.known[graph.entry] = known - unknown

    def _find_counted(self) -> None:
        waiting = [self.root]
        while waiting:
            entry = waiting.pop()
            if entry in self.counted:
                continue
            self.counted.add(entry)
            graph = self.graphs[entry]
            for start, block in graph.blocks.items():
                if block.callee is None or start in self.decided[entry]:
                    continue
                if block.callee != POINTER:
                    waiting.append(block.callee)
                    continue
                if not self.program.is_same(block.last.address, False):
                    raise UnknownFlowError(graph.name, "calls a pointer that depends on the input")
                self.calls_pointers = True
                waiting += [at for at in self.graphs if self.program.always_executed.get(at)]
