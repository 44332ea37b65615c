"""Upper bound of the cycles of a run over all inputs, by the longest paths of its functions.

A run is cut into pieces, each from the edge of a known branch, or the entry of a function, to the
next known branch or return. The number of pieces from each edge is the same for every input. Each
piece costs at most the longest path that starts there, and the bound is the sum over all pieces.
This is implicit path enumeration with exact counts, whose linear program falls apart into longest
paths.

A function that is called from code that depends on the input counts with its longest path at each
call. A loop without known branches needs a limit of its iterations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tvmrt.plugins.cycles import control_flow
from tvmrt.plugins.cycles.call_graph import POINTER, CallGraph, Program
from tvmrt.plugins.cycles.control_flow import Edge, Graph, UnknownFlowError

_COUNTED = -1  # mode of a function whose number of calls is known


@dataclass(frozen=True)
class Bound:
    """Largest number of cycles of a run. ``functions``: executed ones with branches that may depend
    on the input."""

    cycles: float
    functions: tuple[str, ...]


def bound(program: Program, root: str) -> Bound:
    """Return the bound of one call of the function ``root``.

    Raises
    ------
    UnknownFlowError
        If there is none; the text says why, and names the function.
    """
    entry = next(at for at, name in program.code.functions.items() if name == root)
    calls = CallGraph(program, entry)
    search = _Search(calls)
    total = sum(search.costs())
    names = {
        graph.name
        for at, graph in calls.graphs.items()
        if program.executed.get(at)
        and any(branch not in calls.known[at] for _, branch in graph.branches())
    }
    return Bound(total + _outside_cycles(calls), tuple(sorted(names)))


def _outside_cycles(calls: CallGraph) -> float:
    """Return the cycles of the code around the program, which has no branches on inputs."""
    program, reached = calls.program, calls.instructions()
    return sum(
        times * (program.block_cycles(program.code.block(at, 1)) + program.taken_branch)
        for at, times in program.executed.items()
        if at not in reached
    )


class _Search:
    def __init__(self, calls: CallGraph) -> None:
        self.calls = calls
        self.program = calls.program
        self.endless: set[int] = set()  # first blocks of loops without a limit
        self._paths: dict[tuple[int, int], dict[int, float]] = {}

    def costs(self) -> Iterator[float]:
        """Yield the cycles of all pieces that start at the same edge or entry."""
        for graph, start, cycles, count in [*self._edges(), *self._entries()]:
            if count and math.isinf(cycles):
                raise UnknownFlowError(
                    self._endless_in(graph, start),
                    "has a loop whose count depends on the input and has no known limit",
                )
            if count:
                yield count * cycles

    def _edges(self) -> Iterator[tuple[Graph, int, float, int]]:
        """Yield the edges of known branches: graph, target, longest path from there, and count."""
        found: dict[tuple[int, bool], tuple[float, Graph, int]] = {}
        for entry in self.calls.counted:
            graph = self.calls.graphs[entry]
            for block in graph.blocks.values():
                for edge in block.edges:
                    if edge.branch in self.calls.known[entry]:
                        cycles = self._edge_cycles(edge) + self.paths(graph)[edge.target]
                        # functions may share code
                        before = found.get((edge.branch, edge.is_taken))
                        if before is None or before[0] < cycles:
                            found[edge.branch, edge.is_taken] = cycles, graph, edge.target
        for (branch, is_taken), (cycles, graph, target) in found.items():
            counts = self.program.taken if is_taken else self.program.not_taken
            yield graph, target, cycles, counts.get(branch, 0)

    def _entries(self) -> Iterator[tuple[Graph, int, float, int]]:
        """Yield the counted functions: graph, entry, longest path from there, and calls."""
        sites: dict[int, set[int]] = {}
        for entry in self.calls.counted:
            for start, block in self.calls.graphs[entry].blocks.items():
                if block.callee is not None and start not in self.calls.decided[entry]:
                    sites.setdefault(block.callee, set()).add(block.last.address)
        executed = self.program.always_executed
        for entry in self.calls.counted:
            graph = self.calls.graphs[entry]
            count = sum(executed.get(at, 0) for at in sites.get(entry, ()))
            if self.calls.calls_pointers:
                count = max(count, executed.get(entry, 0))
            count = 1 if entry == self.calls.root else count
            yield graph, entry, self.paths(graph)[entry], count

    def paths(self, graph: Graph, mode: int = _COUNTED) -> dict[int, float]:
        """Return the cycles of the longest path from each block to a known branch or a return.

        ``mode``: ``_COUNTED``, or the largest number of iterations of the loops of a call from code
        that depends on the input, 0 if unknown.
        """
        key = graph.entry, mode
        if key not in self._paths:
            self._paths[key] = {}
            self._paths[key] = self._longest(graph, {*graph.blocks}, None, mode)
        if not self._paths[key]:
            raise UnknownFlowError(graph.name, "calls itself")
        return self._paths[key]

    def _longest(
        self, graph: Graph, members: set[int], first: int | None, mode: int
    ) -> dict[int, float]:
        """Return the longest paths among some blocks. ``first``: block that no path returns to."""
        known = self._known_in(graph, mode)
        free = {
            at: [
                edge
                for edge in graph.blocks[at].edges
                if edge.target in members and edge.target != first and edge.branch not in known
            ]
            for at in members
        }
        adjacent = {at: [edge.target for edge in edges] for at, edges in free.items()}
        found: dict[int, float] = {}
        for component in control_flow.components([*members], adjacent):
            at, inside = component[0], {*component}
            if len(component) == 1 and at not in adjacent[at]:
                ends = max(self._best(free[at], found), self._return_cycles(graph, at))
                found[at] = self._cycles(graph, at, mode) + ends
                continue
            leaving = [e for each in component for e in free[each] if e.target not in inside]
            for header in self._headers(graph, inside, known):
                rounds = self._loop(graph, inside, header, mode)
                found[header] = rounds + self._best(leaving, found)
        return found

    def _known_in(self, graph: Graph, mode: int) -> set[int]:
        return self.calls.known[graph.entry] if mode == _COUNTED else set()

    def _best(self, edges: Iterable[Edge], found: Mapping[int, float]) -> float:
        values = (self._edge_cycles(edge) + found[edge.target] for edge in edges)
        return max(values, default=0.0)

    @staticmethod
    def _headers(graph: Graph, inside: set[int], known: set[int]) -> set[int]:
        """Return the blocks of a loop that are entered from outside."""
        found = {graph.entry} & inside
        for at, block in graph.blocks.items():
            for edge in block.edges:
                if edge.target in inside and (at not in inside or edge.branch in known):
                    found.add(edge.target)
        return found

    def _loop(self, graph: Graph, inside: set[int], header: int, mode: int) -> float:
        """Return the cycles of all iterations of a loop that is entered at a block."""
        name = self.program.code.function_at(header)
        rounds = mode if mode > 0 else self.program.most_rounds(name, graph, inside)
        if rounds is None:
            self.endless.add(header)
            return math.inf
        body = self._longest(graph, inside, header, mode)
        return rounds * (body[header] + self.program.taken_branch)

    def _cycles(self, graph: Graph, at: int, mode: int) -> float:
        """Return the cycles of a block, and of its callee if its calls are not counted."""
        block = graph.blocks[at]
        total = self.program.block_cycles(block.code)
        callee = block.callee
        if callee is None or (mode == _COUNTED and at not in self.calls.decided[graph.entry]):
            return total
        if callee == POINTER:
            raise UnknownFlowError(graph.name, "calls a pointer in code that depends on the input")
        limit = self.program.most_rounds_of_call(block, self.calls.graphs[callee].name)
        return total + self.paths(self.calls.graphs[callee], limit)[callee]

    def _return_cycles(self, graph: Graph, at: int) -> float:
        block = graph.blocks[at]
        is_taken = block.returns and block.last.kind == "branch"
        return self.program.taken_branch if is_taken else 0.0

    def _edge_cycles(self, edge: Edge) -> float:
        return self.program.taken_branch if edge.is_taken else 0.0

    def _endless_in(self, graph: Graph, start: int) -> str:
        """Return the function of a loop without limit that is reached from a block."""
        waiting, seen = [(graph, start, True)], set[tuple[int, int, bool]]()
        while waiting:
            graph, at, counted = waiting.pop()
            if (graph.entry, at, counted) in seen:
                continue
            seen.add((graph.entry, at, counted))
            if at in self.endless:
                return self.program.code.function_at(at)
            block = graph.blocks[at]
            if block.callee in self.calls.graphs and not (
                counted and at not in self.calls.decided[graph.entry]
            ):
                waiting.append((self.calls.graphs[block.callee], block.callee, False))
            known = self.calls.known[graph.entry] if counted else set()
            waiting += [(graph, e.target, counted) for e in block.edges if e.branch not in known]
        return graph.name
