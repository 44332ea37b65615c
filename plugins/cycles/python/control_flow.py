"""Control-flow graphs of machine functions, and the blocks that depend on a branch.

A graph has the code that is reached from a function's first instruction by branches and jumps. Code
that two functions share, as in libraries in assembly, is in both graphs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tvmrt.plugins.cycles.disassembly import Disassembly, Instruction

_VENEER = "_veneer"  # of the linker's jumps to far functions, with their names or addresses
# Functions of libgcc that return to another place than that after their call.
_CASES = "__gnu_thumb1_case_"


@dataclass(frozen=True)
class Constants:
    """Aligned words of an image by address."""

    words: Mapping[int, int]

    def between(self, begin: int, end: int) -> Iterable[int]:
        """Return the words with values in a range."""
        return [word for word in self.words.values() if begin <= word < end]

    def distances(self, table: int, begin: int, end: int) -> Iterator[int]:
        """Yield the sums of a table's address and its words, up to the first outside a range."""
        for at in itertools.count(table, 4):
            sum_ = (table + self.words.get(at, 0)) % 2**32
            if not begin <= sum_ < end:
                return
            yield sum_


class UnknownFlowError(ValueError):
    """The possible successors of an instruction, or how often it is executed, are unknown.

    ``function``: name of the machine function, with which the text begins.
    """

    def __init__(self, function: str, problem: str) -> None:
        super().__init__(f"{function} {problem}")
        self.function = function


class NoReturnError(UnknownFlowError):
    """A function never returns."""


@dataclass(frozen=True)
class Edge:
    """Edge of a graph. ``branch``: address of the conditional branch at its start, 0 if none."""

    target: int
    branch: int = 0
    is_taken: bool = False


@dataclass
class Block:
    """Instructions with one entry and one end. ``callee``: address of the called function, -1 for
    one that a pointer names, or None."""

    code: list[Instruction] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    callee: int | None = None
    returns: bool = False

    @property
    def last(self) -> Instruction:
        return self.code[-1]


@dataclass
class Graph:
    """Blocks of a function by address. All of them can reach a return."""

    name: str
    entry: int
    blocks: dict[int, Block]

    def branches(self) -> Iterator[tuple[int, int]]:
        """Yield the block and the address of each conditional branch."""
        for start, block in self.blocks.items():
            if block.last.kind in ("branch", "jump", "pop_pc") and (
                len(block.edges) + block.returns > 1
            ):
                yield start, block.last.address


def build(code: Disassembly, entry: int, words: Constants) -> Graph:
    """Return the graph of the function at an address.

    ``words``: constants of the image, among them tables of jumps.

    Raises
    ------
    UnknownFlowError
        If the targets of a jump are unknown.
    NoReturnError
        If the function does not return.
    """
    name = code.function_at(entry)
    ends = _ends(code, entry, words)
    leaders = {entry, *(edge.target for end in ends.values() for edge in end.edges)}
    blocks = {start: _block(code, start, leaders, ends) for start in sorted(leaders)}
    graph = Graph(name, entry, blocks)
    remove(graph, ())
    return graph


def _ends(code: Disassembly, entry: int, words: Constants) -> dict[int, Block]:
    """Return what follows each reached instruction that may end a block, by address."""
    ends: dict[int, Block] = {}
    seen: set[int] = set()
    waiting = [entry]
    while waiting:
        at = waiting.pop()
        while at not in seen:
            seen.add(at)
            if at not in code.indices:
                raise UnknownFlowError(code.function_at(entry), "has code that ends in data")
            index = code.indices[at]
            instruction = code.instructions[index]
            after = code.instructions[index + 1].address if index + 1 < len(code.indices) else -1
            end = _end(code, instruction, after, words)
            if end is not None:
                ends[at] = end
                waiting += [edge.target for edge in end.edges]
                break
            at = after
    return ends


def _end(
    code: Disassembly,
    instruction: Instruction,
    after: int,
    words: Constants,
) -> Block | None:
    """Return the successors of an instruction, or None if it does not end a block."""
    kind, target, at = instruction.kind, instruction.target, instruction.address
    if kind == "call":
        if target is not None and code.function_at(target).startswith(_CASES):
            raise UnknownFlowError(code.function_at(at), "jumps through a table")
        return Block([], [Edge(after)], -1 if target is None else target)
    if kind not in ("branch", "jump", "pop_pc", "table", "loop"):
        return None
    conditional = kind == "branch" or instruction.is_conditional
    edges = [Edge(after, at)] if conditional else []
    if kind in ("branch", "jump") and target is not None:
        return Block([], [*edges, Edge(target, at if conditional else 0, conditional)])
    if _returns(instruction):
        return Block([], edges, None, True)
    if kind in ("table", "loop") or conditional:
        raise UnknownFlowError(code.function_at(at), "jumps through a table")
    targets = _table_targets(code, instruction, words)
    if not targets:
        raise UnknownFlowError(code.function_at(at), "jumps through a pointer")
    return Block([], [Edge(word) for word in sorted(targets)])


def _table_targets(code: Disassembly, jump: Instruction, words: Constants) -> set[int]:
    """Return the possible targets of a jump through a table, and perhaps others.

    Tables have addresses in the function, or distances from the table, which are added to it.
    """
    name = code.function_at(jump.address)
    begin, end = code.span(name)
    if name.endswith(_VENEER):
        far = {at for at, other in code.functions.items() if f"__{other}{_VENEER}" == name}
        found = [word for at, word in words.words.items() if begin <= at < end]
        return far | {word & ~1 for word in found} & code.functions.keys()
    if jump.text.startswith(("bx", "add")):
        return set()
    index = code.indices[jump.address]
    register = jump.text.split()[-1]
    last = code.instructions[index - 1]
    if last.text.startswith(f"add\t{register},{register},"):
        base = last.text.rpartition(",")[2]
        before = reversed(code.instructions[max(index - 16, 0) : index - 1])
        table = next((each.pointer for each in before if each.result == base), None)
        found = [] if table is None else words.distances(table, begin, end)
    else:
        found = words.between(begin + 2, end)
    return {word & ~1 for word in found} & code.indices.keys()


def _returns(instruction: Instruction) -> bool:
    words = instruction.text.replace(",", " ").split()
    if instruction.kind == "pop_pc":
        return "sp" in instruction.text or words[0].startswith("pop")
    # t0 is the link register of functions that save registers
    return words[0] == "ret" or words[-1] in ("lr", "ra", "t0")


def _block(code: Disassembly, start: int, leaders: set[int], ends: dict[int, Block]) -> Block:
    index = code.indices[start]
    block = Block()
    for instruction in code.instructions[index:]:
        if block.code and instruction.address in leaders:
            block.edges.append(Edge(instruction.address))
            break
        block.code.append(instruction)
        end = ends.get(instruction.address)
        if end is not None:
            block.edges, block.callee, block.returns = [*end.edges], end.callee, end.returns
            break
    return block


def remove(graph: Graph, starts: Iterable[int]) -> None:
    """Remove blocks, and those from which no return is reached: a run that ends does not execute
    them. NoReturnError if the first block is among them."""
    blocks = graph.blocks
    for start in starts:
        blocks[start].edges = []
        blocks[start].returns = False
    before = _predecessors(blocks)
    alive = {start for start, block in blocks.items() if block.returns}
    waiting = [*alive]
    while waiting:
        for start in before[waiting.pop()]:
            if start not in alive:
                alive.add(start)
                waiting.append(start)
    for start in [*blocks]:
        if start not in alive:
            del blocks[start]
    for block in blocks.values():
        block.edges = [edge for edge in block.edges if edge.target in blocks]
    if graph.entry not in blocks:
        raise NoReturnError(graph.name, "does not return")


def _predecessors(blocks: dict[int, Block]) -> dict[int, list[int]]:
    """Return the blocks before each block."""
    predecessors: dict[int, list[int]] = {start: [] for start in blocks}
    for start, block in blocks.items():
        for edge in block.edges:
            predecessors[edge.target].append(start)
    return predecessors


def dependents(graph: Graph) -> dict[int, set[int]]:
    """Return the blocks whose number of executions each block's branch decides, directly."""
    bits = {start: 1 << i for i, start in enumerate([*graph.blocks, -1])}
    everything = (1 << len(bits)) - 1
    after = dict.fromkeys(graph.blocks, everything)  # the blocks on all paths to a return
    after[-1] = bits[-1]
    changed = True
    while changed:
        changed = False
        for start in reversed(graph.blocks):
            common = everything
            for target in _targets(graph.blocks[start]):
                common &= after[target]
            if (common | bits[start]) != after[start]:
                after[start] = common | bits[start]
                changed = True
    found = {}
    for start, block in graph.blocks.items():
        some = 0
        for target in _targets(block):
            some |= after[target]
        some &= ~(after[start] & ~bits[start])
        found[start] = (
            {each for each in graph.blocks if some & bits[each]}
            if len(_targets(block)) > 1
            else set()
        )
    return found


def closure(dependents_of: dict[int, set[int]], start: int) -> set[int]:
    """Return the blocks that depend on a block's branch, directly or through other branches."""
    found: set[int] = set()
    waiting = [start]
    while waiting:
        for each in dependents_of[waiting.pop()] - found:
            found.add(each)
            waiting.append(each)
    return found


def loop_exits(dependents_of: dict[int, set[int]]) -> set[int]:
    """Return the blocks whose branches decide whether they are executed again."""
    edges = {start: [*after] for start, after in dependents_of.items()}
    return {
        start
        for component in components([*edges], edges)
        for start in component
        if len(component) > 1 or start in edges[start]
    }


def _targets(block: Block) -> list[int]:
    return [edge.target for edge in block.edges] + [-1] * block.returns


def components(starts: Sequence[int], edges: dict[int, list[int]]) -> list[list[int]]:
    """Return the strongly connected components of a graph, each after those that it reaches."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in starts:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(edges[root]))]
        while work:
            at, rest = work[-1]
            target = next(rest, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == index[at]:
                    cut = stack.index(at)
                    found.append(stack[cut:])
                    on_stack -= {*stack[cut:]}
                    del stack[cut:]
            elif target not in index:
                index[target] = low[target] = len(index)
                stack.append(target)
                on_stack.add(target)
                work.append((target, iter(edges[target])))
            elif target in on_stack:
                low[at] = min(low[at], index[target])
    return found
