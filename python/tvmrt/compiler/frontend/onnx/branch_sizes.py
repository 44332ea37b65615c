"""Sizes that a branch of an If requires; only runs that take the branch are checked.

The branch reads its tensors as if they had these sizes, after a check that ends other runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from tvmrt.compiler.frontend.dims import ValidSizes
from tvmrt.compiler.frontend.size_constraints import solve_conditions
from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.sizes import Extent, Symbol, SymInt, sym_max, sym_min, symbols_of
from tvmrt.compiler.ir.sizes.assumptions import Condition, refused_conditions
from tvmrt.error import TvmrtWarning

from .context import NodeContext
from .outline_subgraph import captured_names

MAX_CONDITIONS = 16


class BranchSizes:
    """The tensors that a branch reads, restricted to sizes at which it is valid.

    ``which``: the branch's name for messages. ``scope``: all names in it. ``guard``: the condition
    under which it runs.
    """

    def __init__(self, ctx: NodeContext, branch: onnx.GraphProto, which: str, guard: Value) -> None:
        self.ctx = ctx
        self.branch = branch
        self.which = which
        self.guard = guard
        self.scope = ctx.scope
        self.requirements: list[tuple[str, str]] = []  # sizes, and the node that needs them
        self._seen = len(refused_conditions())

    def restrict(self) -> bool:
        """Restrict the tensors to the sizes that the last import of the branch required; return
        False if no usable requirement is known."""
        conditions = refused_conditions()[self._seen :]
        self._seen += len(conditions)
        if not conditions or len(self.requirements) == MAX_CONDITIONS:
            return False
        condition = conditions[-1]
        symbols = {symbol.name: symbol for symbol in condition.symbols}
        narrowed = {
            symbols[name]: sizes
            for name, (sizes, _) in solve_conditions([condition]).items()
            if name in symbols and symbols[name].source is None
        }
        if not narrowed:
            return False
        words = " and ".join(f"{symbol.name} {each}" for symbol, each in narrowed.items())
        self.requirements.append((f"sizes at which {words}", condition.node))
        self._require(condition)
        sizes = {symbol.name: self._extent(symbol, each) for symbol, each in narrowed.items()}
        self.scope = {**self.scope, **self._restricted_tensors(sizes)}
        return True

    def warn(self) -> None:
        """Warn about the sizes that a run with this branch needs."""
        for text, node in self.requirements:
            warnings.warn(
                f"node {self.ctx.name} (If): a run that takes its {self.which} branch needs "
                f"{text}, as node {node} requires",
                TvmrtWarning,
                stacklevel=2,
            )

    def _require(self, condition: Condition) -> None:
        ctx, builder = self.ctx, self.ctx.builder
        text, node = self.requirements[-1]
        symbols = sorted(condition.symbols, key=lambda s: s.name)
        outer, builder.guard = builder.guard, (self.guard, True)
        try:
            zero = ctx.emit("extents", [], values=(condition.zero,), shape=(1,))
            sizes = tuple(symbol.extent for symbol in symbols)
            actual = ctx.emit("extents", [], values=sizes, shape=(len(sizes),))
            ctx.emit(
                "require",
                [zero, actual],
                expected=(0,),
                where=f"If '{ctx.name}', {self.which} branch, sizes "
                f"[{', '.join(symbol.name for symbol in symbols)}]",
                text=f"{text}, which node {node} needs",
            )
        finally:
            builder.guard = outer

    def _extent(self, symbol: Symbol, sizes: ValidSizes) -> SymInt:
        """Return the extent of a dimension in runs that take the branch. It is computed in all
        runs, so it is clamped to the bounds in the others."""
        if sizes.same is not None:
            return sizes.same
        if sizes.low == sizes.high:
            return sizes.step * sizes.low + sizes.first
        ctx, builder = self.ctx, self.ctx.builder
        steps = sym_max(symbol.extent - sizes.first, 0) // sizes.step
        within = sym_min(sym_max(steps, sizes.low), sizes.high)
        outer, builder.guard = builder.guard, None
        try:
            number = ctx.integer_tensor(np.asarray(within, object))
            extent = ctx.data_dependent_extent(number, sizes.low, sizes.high, symbol.name)
        finally:
            builder.guard = outer
        return sizes.step * extent + sizes.first

    def _restricted_tensors(self, sizes: Mapping[str, SymInt]) -> dict[str, Value]:
        """Return the tensors that the branch reads, with these sizes."""
        ctx, builder = self.ctx, self.ctx.builder
        result: dict[str, Value] = {}
        outer, builder.guard = builder.guard, (self.guard, True)
        try:
            for name in captured_names(self.branch):
                value = self.scope.get(name)
                if not isinstance(value, Value) or value.data is not None:
                    continue
                elements = ctx.extents.get(value)
                shape = tuple(_at(n, sizes) for n in value.shape)
                if elements is not None:
                    numbers = [_at(n, sizes) for n in elements.reshape(-1).tolist()]
                    array = np.empty(len(numbers), dtype=object)
                    array[:] = numbers
                    result[name] = ctx.integer_tensor(
                        array.reshape(elements.shape), value.dtype.name
                    )
                elif shape != tuple(value.shape):
                    whole = ctx.const(np.asarray(True))
                    copy = ctx.emit("choice", [whole, value, value], shape=shape)
                    result[name] = copy
        finally:
            builder.guard = outer
        return result


def _at(extent: Any, sizes: Mapping[str, SymInt]) -> Any:
    """Substitute sizes in an extent."""
    if not isinstance(extent, Extent) or not any(s.name in sizes for s in symbols_of(extent)):
        return extent
    return extent.at({s.name: sizes.get(s.name, s.extent) for s in symbols_of(extent)})
