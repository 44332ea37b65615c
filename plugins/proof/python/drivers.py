"""Drivers that Frama-C starts at: one for each operator, and one for a run of the network.

An operator's tensors are separate arrays of exactly their sizes, so that each access outside of a
tensor is an error, although all tensors are parts of one workspace on the board.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tvmrt.compiler.sdk.codegen import (
    Sources,
    firmware_header_name,
    identifier,
    input_tensors,
    output_tensors,
)
from tvmrt.compiler.sdk.program import CONSTANT, Buffer, Program

from .plan import Operand, OperatorPlan

_FILL = "Frama_C_make_unknown((char *){0}, sizeof({0}));"


def entry(plan: OperatorPlan) -> str:
    """Return the function of the driver of an operator."""
    return f"proof_{plan.symbol}"


def print_operator_drivers(
    plans: Sequence[OperatorPlan], sources: Sources, files: Sequence[str]
) -> str:
    """Return a C file with a function for each operator, which includes these C files."""
    lines = [
        "/* Calls of each operator with any values in tensors of exactly their sizes. */",
        *(f'#include "../{name}"' for name in files),
        '#include "kernels.h"',
    ]
    for plan in plans:
        lines += ["", f"void {entry(plan)}(void) {{"]
        lines += [f"  {line}" for line in _operator_body(plan, sources)]
        lines.append("}")
    return "\n".join([*lines, ""])


def _operator_body(plan: OperatorPlan, sources: Sources) -> Iterator[str]:
    arguments: dict[Buffer, str] = {}
    for group in _objects(plan):
        yield from _define(group, arguments)
    passed = []
    for each in plan.operands:
        array = arguments.get(each.buffer) or sources.symbol_of(each.buffer)
        start = f"({each.buffer.dtype.c} *)" if each.buffer in arguments else ""
        passed.append(f"{start}{array}" + (f" + {each.offset}" if each.offset else ""))
    yield f"const int32_t code = {plan.symbol}({', '.join(passed)});"
    yield "/*@ check succeeds: code == 0; */"
    for each in plan.operands:
        if each.written and each.complete:
            array = arguments[each.buffer]
            last = each.buffer.nbytes - 1
            name = f"written_{each.name}"
            yield f"/*@ check {name}: \\initialized(((uint8_t *)({array})) + (0 .. {last})); */"


def _objects(plan: OperatorPlan) -> list[list[Operand]]:
    """Return the tensors of an operator, those with common memory together."""
    groups: list[list[Operand]] = []
    for each in plan.operands:
        if each.buffer.kind == CONSTANT:
            continue
        group = next(
            (g for g in groups if any(each.buffer.shares_memory(o.buffer) for o in g)), None
        )
        if group is None:
            groups.append([each])
        else:
            group.append(each)
    return groups


def _define(group: Sequence[Operand], arguments: dict[Buffer, str]) -> Iterator[str]:
    """Yield the definition of the array of some tensors, and record their addresses."""
    begin = min(each.buffer.address or 0 for each in group)
    end = max((each.buffer.address or 0) + each.buffer.nbytes for each in group)
    name = f"memory_{group[0].name}"
    element = group[0].buffer.dtype
    whole = len({each.buffer for each in group}) == 1
    size = int(group[0].buffer.size) if whole else end - begin
    yield f"{element.c if whole else 'uint8_t'} {name}[{size}];"
    for buffer in dict.fromkeys(each.buffer for each in group):
        at = (buffer.address or 0) - begin
        arguments[buffer] = name if not at else f"({name} + {at})"
        if any(each.buffer is buffer and each.read for each in group):
            yield f"Frama_C_make_unknown((char *){arguments[buffer]}, {buffer.nbytes});"


def print_run_driver(program: Program, sources: Sources, pools: Sequence[str]) -> str:
    """Return a C file with ``main()``: it runs the network with any inputs, and calls the run
    function with NULL for each of its pointers."""
    prefix = sources.prefix
    ins = [t.member for t in input_tensors(program)]
    outs = [t.member for t in output_tensors(program)]
    lines = [
        "/* A run of the network with any inputs; operators are used as their contracts say. */",
        '#include "contracts.h"',
        "#include <stddef.h>",
        "#include <tvm/runtime/crt/error_codes.h>",
        f'#include "../{firmware_header_name(prefix)}"',
        "#include <__fc_builtin.h>",
        "",
        "int main(void) {",
    ]
    body = [
        *(_array("in", name, buffer) for name, buffer in zip(ins, program.inputs)),
        *(_array("out", name, buffer) for name, buffer in zip(outs, program.outputs)),
        f"struct {prefix}_inputs inputs = {{{_members('in', ins)}}};",
        f"struct {prefix}_outputs outputs = {{{_members('out', outs)}}};",
        "int32_t code;",
        *(_FILL.format(f"in_{name}") for name in ins),
        *_forget(program, pools),
        *_refused_calls(prefix, ins, outs),
        f"code = {prefix}_run(&inputs, &outputs);",
        "/* Frama-C knows no addresses, so either result of the check of alignment is possible. */",
        "/*@ check succeeds: code == 0 || code == kTvmErrorFunctionCallInvalidArg; */",
    ]
    for name, buffer in zip(outs, program.outputs):
        region = f"((uint8_t *)out_{name}) + (0 .. {buffer.nbytes - 1})"
        body.append(f"/*@ check written_{name}: code != 0 || \\initialized({region}); */")
    return "\n".join([*lines, *(f"  {line}" for line in body), "  return 0;", "}", ""])


def _array(kind: str, name: str, buffer: Buffer) -> str:
    return f"{buffer.dtype.c} {kind}_{name}[{buffer.size}];"


def _members(kind: str, names: Sequence[str]) -> str:
    return ", ".join(f".{name} = {kind}_{name}" for name in names)


def _forget(program: Program, pools: Sequence[str]) -> Iterator[str]:
    """Yield lines after which the memory of each pool has no values."""
    for pool, name in zip(program.pools, pools):
        if pool.used_bytes and name:
            kind = f"struct {identifier(name)}_bytes"
            yield f"{kind} {{ uint8_t bytes[{pool.used_bytes}]; }} none_{name};"
            yield f"*({kind} *){name} = none_{name};"


def _refused_calls(prefix: str, ins: Sequence[str], outs: Sequence[str]) -> Iterator[str]:
    check = "/*@ check refused: code != 0; */"
    yield from (f"code = {prefix}_run(NULL, &outputs);", check)
    yield from (f"code = {prefix}_run(&inputs, NULL);", check)
    for kind, names in (("in", ins), ("out", outs)):
        for name in names:
            member = f"{kind}puts.{name}"
            yield from (f"{member} = NULL;", f"code = {prefix}_run(&inputs, &outputs);", check)
            yield f"{member} = {kind}_{name};"


__all__ = ["entry", "print_operator_drivers", "print_run_driver"]
