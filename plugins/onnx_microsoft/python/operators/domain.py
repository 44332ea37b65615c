"""Registration of ``com.microsoft`` operators by name and contract."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from tvmrt.compiler.sdk.frontend import Importer, NodeContext, onnx_op
from tvmrt.compiler.sdk.graph import Contract
from tvmrt.error import UnsupportedError

MICROSOFT = "com.microsoft"
_CONTRACTS: dict[str, Contract] = {}


def ms_op(*names: str, takes: str, attributes: str = "") -> Callable[[Importer], Importer]:
    """Register the decorated function as importer of operators, with a check of the contract."""
    contract = Contract(takes, attributes)

    def add(function: Importer) -> Importer:
        @wraps(function)
        def importer(ctx: NodeContext):
            _check(ctx, contract)
            return function(ctx)

        _CONTRACTS.update(dict.fromkeys(names, contract))
        onnx_op(*names, domain=MICROSOFT)(importer)
        return function

    return add


def contracts() -> dict[str, Contract]:
    """Return the contract of each operator; the operators' package must be imported before."""
    return _CONTRACTS


def require_attributes(ctx: NodeContext, **values: int | float | str) -> None:
    """Raise UnsupportedError if one of the attributes is set to another value."""
    for name, value in values.items():
        given = ctx.attr(name, value)
        if given != value:
            raise UnsupportedError(f"attribute {name} is {given}; only {value} is supported")


def reject_inputs(ctx: NodeContext, **inputs: int) -> None:
    """Raise UnsupportedError if one of the inputs, given with their indices, is present."""
    for name, index in inputs.items():
        if ctx.input(index) is not None:
            raise UnsupportedError(f"input {index} ({name}) is given, but is not supported")


def _check(ctx: NodeContext, contract: Contract) -> None:
    attributes = {a.name: ctx.attr(a.name) for a in ctx.node.attribute}
    strange = sorted(
        name for name in attributes.keys() - contract.attributes.keys() if name[:2] != "__"
    )
    if strange:
        names = ", ".join(contract.attributes) or "none"
        raise UnsupportedError(f"attribute {strange[0]} is not known; there are {names}")
    types = [None if value is None else value.type for value in ctx.inputs]
    while types and types[-1] is None:
        types.pop()
    values = {name: attributes[name] for name in contract.attributes if name in attributes}
    contract.bind(types, values, [None if value is None else value.data for value in ctx.inputs])
