"""Loops in one form: Loop, Scan, and loops that an importer makes of a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.sizes import SymInt

from .context import NodeContext
from .sequence_values import OnnxValue

Step = Callable[[list[Value], list[Value]], tuple[list[Value], list[Value]]]


@dataclass
class StructuredLoop:
    """A loop. ``body``: the subgraph of a node, or a function that takes the loop-carried values
    and slices, and returns new loop-carried values and results.

    ``sliced``: the tensors of which an iteration reads a slice, with its axis and whether the last
    slice comes first. ``stacked``: the same of the results, which get a new axis. ``limit`` and
    ``go``: the maximum trip count and the condition before the first iteration, None if absent.
    ``trip_count``: the limit as a number, None if only a run knows it. ``is_numbered``: the body
    reads the iteration number and the condition, and returns the next condition, which decides if
    ``has_condition``. ``names``: of the results.
    """

    ctx: NodeContext
    body: onnx.GraphProto | Step
    carried: list[OnnxValue | None]
    trip_count: SymInt | None
    sliced: Sequence[tuple[Value, int, bool]] = ()
    stacked: Sequence[tuple[int, bool]] = ()
    limit: Value | None = None
    go: Value | None = None
    is_numbered: bool = False
    has_condition: bool = False
    names: Sequence[str] = ()

    @property
    def input_names(self) -> list[str]:
        """Names of the iteration number, the loop-carried values and the slices in the body."""
        if callable(self.body):
            return [f"step{i}" for i in range(1 + len(self.carried) + len(self.sliced))]
        first, *names = (info.name for info in self.body.input)
        return [first, *names[1:]] if self.is_numbered else ["iteration", first, *names]

    def numbers(self, count: int) -> Iterable[int]:
        """Return the iteration numbers if the loop is unrolled. Raises UnsupportedError or
        ValueError if there are too many."""
        if callable(self.body):
            return range(count)
        return self.ctx.importer.functions.budget.iterations(self.ctx.op, count, self.body)

    def iteration(
        self,
        number: Value,
        values: Sequence[OnnxValue | None],
        guard: tuple[Value, bool] | None = None,
        scope: Mapping[str, OnnxValue | None] | None = None,
    ) -> list[OnnxValue | None]:
        """Import an iteration; return the condition, None if there is none, and the results.
        ``values``: the loop-carried values and slices; ``guard`` and ``scope``: as for
        ``import_branch``."""
        ctx, count = self.ctx, len(self.carried)
        if callable(self.body):
            made, results = self.body(list(values[:count]), list(values[count:]))
            return [None, *made, *results]
        leading: list[Value] = []
        if self.is_numbered:
            # torch declares vectors of one element and relies on getting them
            ranks = [len(info.type.tensor_type.shape.dim) for info in self.body.input[:2]]
            pair = (number, ctx.const(True))  # in a running iteration the condition is true
            leading = [ctx.reshape(v, (1,) * rank) for v, rank in zip(pair, ranks)]
        results = ctx.importer.import_branch(
            self.body, scope or ctx.scope, guard, [*leading, *values]
        )
        condition = results.pop(0) if self.is_numbered else None
        return [condition if self.has_condition else None, *results]
