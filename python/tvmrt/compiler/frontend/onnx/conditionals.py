"""Conditionals. See ``loops`` for loops.

A constant condition selects one branch at compile time; otherwise both are imported with guards.

Files for several purposes have a branch for each, and a branch may be invalid at the shapes of
another: a voice detector for two sampling rates has windows of two lengths. A branch that is valid
at some sizes is compiled for these, and one that is invalid at the given extents is left out. A run
that takes it at other sizes ends with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx

from tvmrt.compiler.frontend.context import OperatorContext
from tvmrt.compiler.frontend.dims import ValidSizes
from tvmrt.compiler.frontend.size_constraints import emit_size_check, solve_conditions
from tvmrt.compiler.frontend.size_propagation import object_array
from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.contract import ContractError
from tvmrt.compiler.ir.sizes import (
    INT_MAX,
    Symbol,
    SymInt,
    is_unbounded,
    lower_bound,
    substitute,
    sym_max,
    sym_min,
    upper_bound,
)
from tvmrt.compiler.ir.sizes.assumptions import Condition, current_assumptions
from tvmrt.error import UnsupportedError, warn

from . import string_tensors
from .context import NodeContext
from .import_state import Checkpoint
from .registry import onnx_op
from .sequence_values import AbsentOptional, Alternatives, DynamicOptional, OnnxValue, TensorList
from .tensors import captured_names


@onnx_op("If")
def if_(ctx: NodeContext) -> list[Value | None]:
    condition = ctx.required(0)
    then_branch, else_branch = ctx.attr("then_branch"), ctx.attr("else_branch")
    if condition.data is not None:
        branch = then_branch if condition.data.reshape(-1)[0] else else_branch
        return ctx.importer.import_branch(branch, ctx.scope)
    # Each branch runs only under its guard; the choice then reads the side that ran.
    condition = ctx.reshape(condition, ())
    outer = ctx.builder.guard
    taken, other = guards(ctx, condition)
    yes, branch_error = import_if_valid(ctx, then_branch, "then", taken)
    if branch_error is not None:
        leave_out(ctx, Alternatives(ctx.name, condition, None, None), True, str(branch_error))
        return list(ctx.importer.import_branch(else_branch, ctx.scope, outer))
    no, branch_error = import_if_valid(ctx, else_branch, "else", other)
    if branch_error is not None:
        leave_out(ctx, Alternatives(ctx.name, condition, None, None), False, str(branch_error))
        return yes
    return [select_any_rank(ctx, condition, a, b, ctx.name) for a, b in zip(yes, no)]


def select_under_guard(
    ctx: NodeContext, condition: Value, compute: Callable[[], Value], otherwise: Value
) -> Value:
    """Return the result of ``compute``, whose nodes run only if a scalar condition holds, else
    ``otherwise``, of the same type."""
    taken, _ = guards(ctx, condition)
    with ctx.builder.guarded((taken, True)):
        result = compute()
    return ctx.emit("where", [condition, result, otherwise])


def import_if_valid(
    ctx: NodeContext, branch: onnx.GraphProto, which: str, guard: Value
) -> tuple[Sequence[Value | None], ValueError | None]:
    """Import a branch under a guard. ``which``: its name in messages. If the branch is invalid at
    all known sizes, return no results and the error.

    Raises any other error of the branch.
    """
    importer, sizes = ctx.importer, BranchSizes(ctx, branch, which, guard)
    start = before = Checkpoint(importer)
    first: ValueError | None = None
    while True:
        try:
            results = importer.import_branch(branch, sizes.scope, (guard, True))
        except ValueError as problem:
            if not is_operand_mismatch(problem):
                raise
            first = first or problem
        else:
            sizes.warn()
            return results, None
        before.undo()
        if not sizes.restrict():
            start.undo()
            return [], first
        before = Checkpoint(importer)


def is_operand_mismatch(problem: BaseException | None) -> bool:
    """Return whether an error or one of its causes is an operand mismatch (``ContractError``)."""
    while problem is not None and not isinstance(problem, ContractError):
        problem = problem.__cause__
    return problem is not None


def leave_out(
    ctx: NodeContext, found: Alternatives, taken: bool, problem: str, text: str = ""
) -> None:
    """Warn that a side is invalid, and end runs that take it with the error ``text``."""
    ctx.importer.problems.is_partial = True
    warn(
        f"node {found.name} ({found.op}): its {found.side(taken)} is invalid at the shapes that "
        f"the network is compiled for, so a run that takes it fails; {problem}"
    )
    text = text or f"the {found.side(taken)} is invalid at the compiled shapes"
    require_side(ctx, found, not taken, text)


def require_side(ctx: NodeContext, found: Alternatives, taken: bool, text: str) -> None:
    """End runs that take the other side with an error."""
    number = ctx.cast(found.condition, "int64")
    ctx.emit(
        "require",
        [number, ctx.reshape(number, (1,))],
        expected=(int(taken),),
        where=f"{found.op} '{found.name}', condition",
        text=f"[{int(taken)}]: {text}",
    )


def guards(ctx: NodeContext, condition: Value) -> tuple[Value, Value]:
    """Return the guards of the two branches, combined with the enclosing guard."""
    outer = ctx.builder.guard
    with ctx.builder.guarded(None):
        no = ctx.emit("logical_not", [condition])
    return combine_guards(ctx, outer, condition), combine_guards(ctx, outer, no)


def combine_guards(
    ctx: OperatorContext, outer: tuple[Value, bool] | None, condition: Value
) -> Value:
    """Combine a condition with the guard of the enclosing branch, if there is one. The result is
    computed in each run, even if the enclosing branch is skipped."""
    if outer is None:
        return condition
    with ctx.builder.guarded(None):
        value = outer[0] if outer[1] else ctx.emit("logical_not", [outer[0]])
        return ctx.emit("logical_and", [value, condition])


def select(
    ctx: NodeContext, condition: Value, a: OnnxValue | None, b: OnnxValue | None
) -> OnnxValue | None:
    """Select ``a`` if a scalar condition holds, else ``b``; None if one of them is None.

    Raises UnsupportedError if the two values cannot be represented by one.
    """
    if a is None or b is None:
        return None
    if isinstance(a, (AbsentOptional, DynamicOptional)) or isinstance(
        b, (AbsentOptional, DynamicOptional)
    ):
        return _select_optional(ctx, condition, a, b)
    if isinstance(a, TensorList) and isinstance(b, TensorList):
        if len(a.values) != len(b.values):
            raise UnsupportedError(
                f"the branches return sequences of {len(a.values)} and {len(b.values)} tensors"
            )
        return TensorList([select(ctx, condition, *pair) for pair in zip(a.values, b.values)])
    if not (isinstance(a, Value) and isinstance(b, Value)):
        raise UnsupportedError(
            "the branches return sequences, one of which is selected at run time"
        )
    if a is b:
        return a
    a, b = (string_tensors.to_handles(ctx.builder, v) for v in (a, b))  # if they are strings
    if a.type == b.type and not a.dtype.is_low_bit:
        return ctx.emit("where", [condition, a, b])
    if a.dtype != b.dtype or a.type.rank != b.type.rank:
        raise UnsupportedError(
            f"the branches return {a.type} and {b.type}; element type and rank must be the same"
        )
    shape = tuple(_selected_extent(ctx, condition, *pair) for pair in zip(a.shape, b.shape))
    return ctx.emit("choice", [condition, a, b], shape=shape)


def select_any_rank(
    ctx: NodeContext, condition: Value, a: OnnxValue | None, b: OnnxValue | None, name: str
) -> OnnxValue | None:
    """Select one of two values by a condition, or keep both as alternatives if their ranks differ.
    ``name``: the node that selects."""
    if a is None or b is None or a is b:
        return a if b is not None else None
    if not (isinstance(a, Value) and isinstance(b, Value)):
        if isinstance(a, Alternatives) or isinstance(b, Alternatives):
            return Alternatives(name, condition, a, b)
        return select(ctx, condition, a, b)
    elements = [_elements(ctx, v) for v in (a, b)]
    shapes = all(k is not None for k in elements)  # shapes, which later nodes read as constants
    if a.type == b.type and shapes and elements[0].tolist() == elements[1].tolist():
        # a new tensor, for each of them is computed in one branch only
        return a if a.data is not None else ctx.integer_tensor(elements[0], a.dtype.name)
    if a.dtype == b.dtype and (a.type.rank != b.type.rank or (shapes and a.dtype.is_int)):
        return Alternatives(name, condition, a, b)
    return select(ctx, condition, a, b)


def _elements(ctx: NodeContext, value: Value) -> np.ndarray | None:
    if value.data is not None:
        return np.asarray(value.data, object) if value.data.size <= 64 else None
    return ctx.extents.get(value)


def _selected_extent(ctx: NodeContext, condition: Value, a: SymInt, b: SymInt) -> SymInt:
    """Return the extent of the selected value."""
    if a == b:
        return a
    numbers = [ctx.integer_tensor(np.asarray(n, object)) for n in (a, b)]
    number = ctx.emit("where", [condition, *numbers])
    high = INT_MAX if is_unbounded(a, b) else max(upper_bound(a), upper_bound(b))
    return ctx.data_dependent_extent(number, min(lower_bound(a), lower_bound(b)), high, "extent")


def _select_optional(ctx: NodeContext, condition: Value, a: OnnxValue, b: OnnxValue) -> OnnxValue:
    """Select one of two optional values."""
    if isinstance(a, AbsentOptional) and isinstance(b, AbsentOptional):
        return a
    there = ctx.emit("where", [condition, presence(ctx, a), presence(ctx, b)])
    values = [v.value if isinstance(v, DynamicOptional) else v for v in (a, b)]
    tensors = [v for v in values if not isinstance(v, AbsentOptional)]
    return DynamicOptional(
        tensors[0] if len(tensors) == 1 else select(ctx, condition, *tensors), there
    )


def presence(ctx: NodeContext, onnx_value: OnnxValue | None) -> Value:
    """Return whether an optional value is present."""
    if isinstance(onnx_value, DynamicOptional):
        return onnx_value.is_present
    return ctx.const(onnx_value is not None and not isinstance(onnx_value, AbsentOptional))


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
        self._seen = len(current_assumptions().refused)

    def restrict(self) -> bool:
        """Restrict the tensors to the sizes that the last import of the branch required; return
        False if no usable requirement is known."""
        conditions = current_assumptions().refused[self._seen :]
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
            warn(
                f"node {self.ctx.name} (If): a run that takes its {self.which} branch needs "
                f"{text}, as node {node} requires"
            )

    def _require(self, condition: Condition) -> None:
        builder, name = self.ctx.builder, self.ctx.name
        text, node = self.requirements[-1]
        where = f"If '{name}', {self.which} branch"
        with builder.guarded((self.guard, True)):
            emit_size_check(builder, name, [condition], where, f"{text}, which node {node} needs")

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
        with builder.guarded(None):
            number = ctx.integer_tensor(np.asarray(within, object))
            extent = ctx.data_dependent_extent(number, sizes.low, sizes.high, symbol.name)
        return sizes.step * extent + sizes.first

    def _restricted_tensors(self, sizes: Mapping[str, SymInt]) -> dict[str, Value]:
        """Return the tensors that the branch reads, with these sizes."""
        ctx, builder = self.ctx, self.ctx.builder
        result: dict[str, Value] = {}
        with builder.guarded((self.guard, True)):
            for name in captured_names(self.branch):
                value = self.scope.get(name)
                if not isinstance(value, Value) or value.data is not None:
                    continue
                elements = ctx.extents.get(value)
                shape = tuple(substitute(n, sizes) for n in value.shape)
                if elements is not None:
                    numbers = [substitute(n, sizes) for n in elements.reshape(-1).tolist()]
                    array = object_array(numbers, elements.shape)
                    result[name] = ctx.integer_tensor(array, value.dtype.name)
                elif shape != tuple(value.shape):
                    result[name] = ctx.with_shape(value, shape)
        return result
