"""Adding nodes to a graph, with type inference and constant folding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import inf
from typing import Any

import numpy as np

from . import op as ops
from .contract import FAMILIES, Contract, ContractError
from .graph import Graph, Node, Value, constant
from .limits import (
    FOLDINGS_PER_WEIGHT,
    MAX_FOLDED_BYTES,
    MAX_FOLDING_BYTES,
    MAX_GROWN_BYTES,
)
from .quantized import link_integer_sources
from .sizes import symbols_of
from .tensor_type import TensorType
from .traits import Trait


class FoldingBudget:
    """The bytes that folded nodes may read and write together."""

    def __init__(self, nbytes: float = MAX_FOLDING_BYTES) -> None:
        self._left = nbytes

    def add_weights(self, nbytes: int) -> None:
        """Allow more for weights of a network."""
        self._left += FOLDINGS_PER_WEIGHT * nbytes

    def spend(self, cost: int) -> bool:
        """Return whether a node of this cost, in bytes, may be folded; it then counts."""
        if cost > self._left:
            return False
        self._left -= cost
        return True


class Builder:
    """Adds nodes at the end of a graph, or before a given node.

    Nodes whose inputs are all constant become constants at once, within ``budget`` (default: any).
    """

    def __init__(
        self, graph: Graph, sources: tuple[str, ...] = (), budget: FoldingBudget | None = None
    ) -> None:
        self.graph = graph
        self.budget = budget or FoldingBudget(inf)
        self.sources = sources
        self.guard: tuple[Value, bool] | None = None
        self._grown = 0  # bytes of folded constants that are much larger than their inputs

    @contextmanager
    def guarded(self, guard: tuple[Value, bool] | None) -> Iterator[None]:
        """Add nodes that run only if the condition has this value; None: in each run. Afterwards
        guard and sources are as before."""
        outer, self.guard = (self.guard, self.sources), guard
        try:
            yield
        finally:
            self.guard, self.sources = outer

    def const(self, array: Any, name: str = "const") -> Value:
        """Return a constant from an array or number."""
        return constant(np.asarray(array), name)

    def emit(
        self,
        op: str,
        inputs: Sequence[Value | None],
        name: str | None = None,
        **attrs: Any,
    ) -> Value:
        """Add a node with one output and return that output."""
        (value,) = self.emit_many(op, inputs, name, **attrs)
        return value

    def emit_many(
        self,
        op: str,
        inputs: Sequence[Value | None],
        name: str | None = None,
        **attrs: Any,
    ) -> list[Value]:
        """Add a node and return all its outputs."""
        rule = ops.get_op(op)
        name = name or (self.sources[0] if self.sources else op)
        try:
            types = result_types(op, inputs, attrs)
        except ContractError as problem:
            # where the network's node is known, the importer names it
            node = op if self.sources else f'{op} "{name}"'
            raise ContractError(f"{node}: {problem}") from problem
        folded = self._fold(rule, inputs, attrs, types)
        if folded is not None:
            values = [
                constant(a, f"{name}_{i}", type.source)
                for i, (a, type) in enumerate(zip(folded, types))
            ]
            link_integer_sources(op, inputs, attrs, values)
            return values
        node = Node(op, inputs, attrs, name, self.sources, self.guard)
        node.outputs = [Value(name, t, node) for t in types]
        self.graph.nodes.append(node)
        return node.outputs

    def _fold(self, rule, inputs, attrs, types) -> list[np.ndarray] | None:
        if any(v is not None and v.data is None for v in inputs):
            return None
        if symbols_of(attrs, *(t.shape for t in types)):
            return None  # the number of elements is known only at run time
        input_bytes = sum(v.type.nbytes for v in inputs if v is not None)
        output_bytes = sum(t.nbytes for t in types)
        if output_bytes > max(MAX_FOLDED_BYTES, input_bytes):
            return None
        if output_bytes > 8 * input_bytes:
            if self._grown + output_bytes > MAX_GROWN_BYTES:
                return None
            self._grown += output_bytes
        cost = input_bytes + output_bytes
        if rule.weights is not None:  # each result is a sum of as many products as an output reads
            w = inputs[rule.weights.operand]
            products = types[0].size * w.type.size // max(w.shape[rule.weights.output_axis], 1)
            # a convolution stores the inputs of all products at a time
            cost += 8 * products if rule.has(Trait.CONVOLUTION) else products // 4
        if not self.budget.spend(cost):
            return None
        with np.errstate(all="ignore"):
            arrays = rule.evaluate([None if v is None else v.data for v in inputs], attrs)
        if arrays is None:
            return None
        return [np.asarray(a, dtype=t.dtype.numpy).reshape(t.shape) for a, t in zip(arrays, types)]


def result_types(
    op: str, inputs: Sequence[Value | None], attrs: dict[str, Any], open: bool = False
) -> list[TensorType] | None:
    """Return the types of a node's outputs after checking the operator's contract."""
    types = [None if v is None else v.type for v in inputs]
    data = [None if v is None else v.data for v in inputs]
    rule = ops.get_op(op)
    results = rule.infer(types, attrs, data, open)
    return results and propagate_sources(rule.contract, types, results)


_UNCOMPUTED = frozenset(FAMILIES["half"])


@lru_cache(maxsize=512)
def moved_operands(contract: Contract) -> tuple[int, ...]:
    """Return the indices of the operands whose elements the first result has.

    An operator that returns the type that it takes can only move elements if it takes types that
    no operator computes in, such as half precision, or if its first operand is a condition. A
    repeated operand stands for all operands from its index on.
    """
    types = [o.elements for o in contract.operands]
    selects = bool(types) and types[0].allowed == {"bool"}
    letters = {e.letter for e in types if e.allowed and (selects or _UNCOMPUTED <= e.allowed)}
    letter = contract.results[0].elements.letter if contract.results else None
    if letter is None or letter not in letters:
        return ()
    return tuple(i for i, o in enumerate(contract.operands) if o.elements.letter == letter)


def propagate_sources(
    contract: Contract, operands: Sequence[TensorType | None], results: list[TensorType]
) -> list[TensorType]:
    """Return the result types of an operator that moves elements with their type in the file."""
    if not any(type is not None and type.source is not None for type in operands):
        return results
    moved = moved_operands(contract)
    if not moved:
        return results
    last = len(operands) if contract.operands[moved[-1]].repeated else moved[-1] + 1
    types = [operands[i] for i in (*moved[:-1], *range(moved[-1], last)) if i < len(operands)]
    sources = [type.source for type in types if type is not None]
    found = next((source for source in sources if source is not None), None)
    if found is None or (found.labels is not None and any(s != found for s in sources)):
        return results  # indices into different lists
    return [results[0].with_source(found), *results[1:]]
