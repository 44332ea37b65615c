"""ACSL contracts of operators: the regions of their tensors, from the memory plan.

The file declares the operators without bodies, so that Frama-C uses the contracts where the run
function calls them. ``drivers.py`` has the drivers that prove the contracts of the bodies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tvmrt.compiler.sdk.codegen import Sources, identifier
from tvmrt.compiler.sdk.program import ARENA, CONSTANT, Buffer

from .plan import Operand, OperatorPlan


def print_contracts(plans: Sequence[OperatorPlan], sources: Sources, pools: Sequence[str]) -> str:
    """Return a header with the contract of each operator; ``pools``: the C array of each pool."""
    lines = [
        "/* Contracts of the operators: what each may read and write. */",
        "#include <stdint.h>",
    ]
    arrays = {f"extern uint8_t {pool}[];": None for pool in pools if pool}
    for plan in plans:
        for each in plan.operands:
            if each.buffer.kind == CONSTANT:
                symbol = sources.symbol_of(each.buffer)
                arrays[f"extern const {each.buffer.dtype.c} {symbol}[{each.buffer.size}];"] = None
    lines += ["", *arrays]
    for plan in plans:
        lines += ["", *_contract(plan, sources, pools), f"{plan.declaration};"]
    return "\n".join([*lines, ""])


def _contract(plan: OperatorPlan, sources: Sources, pools: Sequence[str]) -> Iterator[str]:
    clauses: list[str] = []
    for each in plan.operands:
        clauses += _requires(each, sources, pools)
    for buffer, other in plan.apart:
        name = f"{identifier(buffer.name)}_keeps_{identifier(other.name)}"
        clauses.append(f"requires {name}: {_apart(buffer, other)};")
    written = [each for each in plan.operands if each.written]
    read = ", ".join(_bytes(each) for each in plan.operands if not each.written) or "\\nothing"
    clauses += [f"assigns {_bytes(each)} \\from {read};" for each in written]
    clauses.append("assigns \\result \\from \\nothing;")
    clauses.append("ensures succeeds: \\result == 0;")
    for each in written:
        if each.complete:
            clauses.append(f"ensures written_{each.name}: \\initialized(&{_bytes(each)});")
    yield "/*@"
    yield from (f"  {clause}" for clause in clauses)
    yield "*/"


def _bytes(operand: Operand) -> str:
    kind = "uint8_t" if operand.written else "const uint8_t"
    return f"(({kind} *){operand.name})[0 .. {operand.nbytes - 1}]"


def _requires(operand: Operand, sources: Sources, pools: Sequence[str]) -> Iterator[str]:
    name, buffer = operand.name, operand.buffer
    valid = "\\valid" if operand.written else "\\valid_read"
    yield f"requires region_{name}: {valid}(&{_bytes(operand)});"
    if operand.read:
        yield f"requires read_{name}: \\initialized(&{_bytes(operand)});"
    if buffer.kind == CONSTANT:
        symbol = sources.symbol_of(buffer)
        yield f"requires place_{name}: {name} == &{symbol}[{operand.offset}];"
    elif buffer.kind == ARENA:
        at = f"&{pools[buffer.pool]}[{operand.address}]"
        yield f"requires place_{name}: (const uint8_t *){name} == {at};"
    else:
        yield f"requires place_{name}: \\offset({name}) == {operand.offset_bytes};"
        yield f"requires size_{name}: \\block_length({name}) == {buffer.nbytes};"


def _apart(buffer: Buffer, other: Buffer) -> str:
    """Return the condition that two regions of a pool do not overlap."""
    first, second = buffer.address or 0, other.address or 0
    return f"{first + buffer.nbytes} <= {second} || {second + other.nbytes} <= {first}"
