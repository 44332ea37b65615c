"""Limits of the compiler, each with its reason; docs/reference/limits.md lists them.

Time and memory of the compiler grow with the size of a network's file, never with a number in it:
code that would grow with an extent, a count or an attribute is checked against a limit first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvmrt.error import UnsupportedError, UnsupportedSizes
from tvmrt.option_syntax import option

from .sizes import is_unbounded, upper_bound

if TYPE_CHECKING:
    from .graph import Graph, Value
    from .program import Program

# Elements of a tensor: generated loops count in C's int.
MAX_ELEMENTS = (1 << 31) - 1

# Bytes of a network's tensors and of a run, if the caller sets no other limit.
MAX_MEMORY = 1 << 32

# Elements of a table that an importer creates, such as the source indices of a resized axis.
MAX_TABLE = 1 << 24

# Elements of the tables of all nodes of a network together.
MAX_TABLES = 1 << 26

# A node is not folded above this size if the result is larger than its inputs: a Tile or Expand
# may enlarge a constant by a factor of thousands, which costs memory and saves only a cheap loop.
MAX_FOLDED_BYTES = 1 << 26

# Bytes of constants that one pass may fold from inputs of less than an eighth of that size.
MAX_GROWN_BYTES = 1 << 30

# Bytes that the nodes folded at import may read and write together, in addition to a multiple of
# the weights' bytes. Four products of numbers count as a byte.
MAX_FOLDING_BYTES = 1 << 31
FOLDINGS_PER_WEIGHT = 16

# Iterations of an unrolled loop; each is a copy of the body in the generated code.
MAX_UNROLLED_ITERATIONS = 4096

# Nodes from unrolled loops, inlined functions and concatenations of many parts, in addition to the
# nodes of a network's file. A node takes 5 to 50 ms, mostly in the C compiler.
MAX_UNROLLED_NODES = 1 << 16
MIN_UNROLLED_NODES = 1 << 10  # the limit for small networks
BYTES_PER_UNROLLED_NODE = 100  # of the network with its weights, for all others

# Repeated parts of a concatenation that are not counted as nodes.
FREE_PARTS = 4
# Parts of open sizes of a concatenation: the position of each depends on the sizes of all.
MAX_OPEN_PARTS = 128

# Taps of a window with dynamic weights that is expanded to one node per tap.
MAX_SEPARATE_TAPS = 64


def max_unrolled_nodes(nbytes: int) -> int:
    """Return the limit for nodes in addition to those of a network's file, by the bytes of the
    network with its weights."""
    nodes = max(nbytes // BYTES_PER_UNROLLED_NODE, MIN_UNROLLED_NODES)
    return min(nodes, MAX_UNROLLED_NODES)


class MemoryBoundError(UnsupportedSizes):
    """Error: a network takes more memory than it may."""


def check_table(count: int, what: str, width: int = 1) -> None:
    """Raise ValueError naming ``what`` if a table of ``count`` rows is too large."""
    upper_bound = MAX_TABLE // width
    if count > upper_bound:
        raise ValueError(f"{what} has {count} elements; the maximum is {upper_bound}")


def check_tensors(graph: Graph, max_memory: int) -> None:
    """Raise UnsupportedError for a tensor, or for constants, that exceed a limit.

    ``max_memory`` is in bytes. Call it before anything of the tensors' size is allocated.
    """
    for node in graph.nodes:
        _check_values(", ".join(node.sources), node.outputs, max_memory)
    for value in graph.inputs:
        _check_values(f"input {value.name}", [value], max_memory)
    weights = constant_bytes(graph)
    if weights > max_memory:
        raise UnsupportedError(f"the network has {weights} bytes of weights; {_advice(max_memory)}")


def constant_bytes(graph: Graph) -> int:
    """Return the bytes of all constants that a graph reads."""
    return sum(value.type.nbytes for value in graph.constants())


def _check_values(where: str, values: Iterable[Value], max_memory: int) -> None:
    for value in values:
        if is_unbounded(value.type.size):
            continue  # each run checks it
        size, nbytes = upper_bound(value.type.size), value.type.nbytes
        if size > MAX_ELEMENTS:
            raise MemoryBoundError(
                f"{where}: a tensor of {size} elements is too large; the maximum is "
                f"{MAX_ELEMENTS}; use a smaller shape"
            )
        if nbytes > max_memory:
            raise MemoryBoundError(
                f"{where}: {value.type} takes {nbytes} bytes; {_advice(max_memory)}"
            )


@dataclass(frozen=True)
class RunBound:
    """Maximum number of bytes that a run may take, and the bytes of the weights among them."""

    max_memory: int
    weights: int

    def check(self, program: Program) -> None:
        """Raise MemoryBoundError if a planned program takes more. Of one without bounds, each run
        checks it."""
        if program.run_plan is not None:
            return
        tensors = io_bytes(program)
        total = self.weights + tensors + program.arena_bytes
        if total > self.max_memory:
            raise MemoryBoundError(
                f"the network takes {total} bytes: {self.weights} of weights, {tensors} of inputs "
                f"and outputs, {program.arena_bytes} of intermediate tensors; "
                f"{_advice(self.max_memory)}"
            )


def run_bound(graph: Graph, max_memory: int | None) -> RunBound:
    """Return the bound of a network's runs; ``max_memory``: the caller's limit, None: the usual."""
    return RunBound(max_memory or MAX_MEMORY, constant_bytes(graph))


def io_bytes(program: Program) -> int:
    """Return the bytes of the inputs and outputs outside of the arena."""
    buffers = {*program.inputs, *program.outputs}
    return sum(b.nbytes for b in buffers if b.kind != "arena")


def _advice(max_memory: int) -> str:
    return f"the limit is {option('max_memory', max_memory)}; use smaller shapes, or raise it"
