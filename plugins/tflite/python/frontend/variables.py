"""Resource variables, set and read by the network's graphs within a run and across runs."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.model_file import Model
from tvmrt.plugins.tflite.frontend.registry import tflite_op


class Variable:
    """Resource variable of a VAR_HANDLE. ``first`` is the constant set by a CALL_ONCE graph and
    ``now`` the value set in this run. ``state`` is the number of its state if it is read before it
    is set, so that its value persists between runs."""

    def __init__(self, key: tuple[str, str]) -> None:
        self.key = key
        self.first: Value | None = None
        self.now: Value | None = None
        self.state: int | None = None


@tflite_op(CALL_ONCE=1)
def call_once(ctx: OpContext) -> list[Value]:
    outer, ctx.importer.initializing = ctx.importer.initializing, True
    ctx.importer.import_subgraph(ctx.options["init"], [])
    ctx.importer.initializing = outer
    return []


@tflite_op(VAR_HANDLE=1)
def var_handle(ctx: OpContext) -> list:
    key = ctx.options["container"], ctx.options["shared_name"]
    return [ctx.importer.variables.setdefault(key, Variable(key))]


def _variable(ctx: OpContext) -> Variable:
    result = ctx.input(0)
    if not isinstance(result, Variable):
        raise UnsupportedError("a variable without VAR_HANDLE")
    return result


@tflite_op(ASSIGN_VARIABLE=1)
def assign_variable(ctx: OpContext) -> list[Value]:
    variable, value = _variable(ctx), ctx.required(1)
    ctx.importer.check_state()
    if ctx.importer.initializing:
        if not value.is_constant:
            raise UnsupportedError("a variable whose initial value is not constant")
        variable.first = value
        return []
    if ctx.builder.guard is not None:
        before = _current(ctx, variable, value.shape, value.dtype.name)
        value = ctx.importer.in_branch(before, value, ctx.emit)
    if variable.state is None:
        variable.now = value
    else:
        ctx.importer.states.set(variable.state, value)
    return []


def _current(ctx: OpContext, variable: Variable, shape: tuple, dtype: str) -> Value:
    """Return a variable's current value; zeros of the given shape and type if it was never set."""
    ctx.importer.check_state()
    if variable.state is not None:
        return ctx.importer.states.current_value(variable.state)
    if variable.now is not None:
        return variable.now
    first = variable.first
    if first is None:
        first = ctx.const(np.zeros(shape, dtype))
    if not ctx.importer.initializing and variable.key in _assigned_variables(ctx):
        variable.state = ctx.importer.states.add(first)
        return ctx.importer.states.current_value(variable.state)
    return first


@tflite_op(READ_VARIABLE=1)
def read_variable(ctx: OpContext) -> Value:
    tensor = ctx.result()
    return _current(ctx, _variable(ctx), tensor.shape, tensor.dtype)


def _assigned_variables(ctx: OpContext) -> set[tuple[str, str]]:
    """Return the variables that are set by any graph not used by CALL_ONCE."""
    importer = ctx.importer
    if importer.assigned_variables is None:
        importer.assigned_variables = _find_set(importer.model)
    return importer.assigned_variables


def _find_set(model: Model) -> set[tuple[str, str]]:
    first = {op.options["init"] for g in model.subgraphs for op in g.operators
             if op.name == "CALL_ONCE"}  # fmt: skip
    assigned, every = set(), set()
    for number, graph in enumerate(model.subgraphs):
        handles = {}
        for op in graph.operators:
            if op.name == "VAR_HANDLE":
                key = op.options["container"], op.options["shared_name"]
                handles.update(dict.fromkeys(op.outputs, key))
                every.add(key)
            elif op.name == "ASSIGN_VARIABLE" and number not in first and op.inputs:
                assigned.add(handles.get(op.inputs[0]))
    return every if None in assigned else assigned
