"""Resolution of a request's options: processor, memory pools, generated C."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from tvmrt import plugin
from tvmrt.compiler import option_rules
from tvmrt.compiler.codegen import pool_options
from tvmrt.compiler.codegen.c.naming import check_module_name
from tvmrt.compiler.codegen.mcu_families import McuFamily
from tvmrt.compiler.codegen.options import Options, Provenance
from tvmrt.compiler.codegen.target import Target, get_target
from tvmrt.compiler.ir.limits import RunBound
from tvmrt.compiler.ir.program import MemoryPool
from tvmrt.compiler.request import Request, rows
from tvmrt.error import warn
from tvmrt.option_syntax import option


def resolve_request(
    requested: Request, family: McuFamily | None, target: Target | None = None
) -> tuple[Request, Target]:
    """Return the request with all options resolved and checked, and its target, or ``target``. A
    plug-in may state another one for ``reproducible`` by the hook ``reproducible NAME``, a
    function."""
    if family is not None:
        if requested.target not in (None, "native", family.target):
            raise ValueError(
                f"{option('board', family.name)} has the processor {family.target}; omit "
                f"{option('target', requested.target)} or omit {option('board')}"
            )
        if requested.levels:
            named = option("board", family.name)
            raise ValueError(f"{named} has a single processor; omit {option('levels')}")
        requested = replace(requested, target=family.target)
    requested, bf16 = requested.with_target(), requested.precision == "bf16"
    machine = target or (
        family.machine()
        if family
        else get_target(cast(str, requested.target), requested.levels, bf16)
    )
    if requested.reproducible:
        own = plugin.find("hooks", f"reproducible {machine.name}")
        machine = own() if own else machine.with_fixed_order()
    request = requested.with_defaults(machine.hosted)
    option_rules.check(request)
    if bf16 and not any(level.bf16 for level in machine.levels or [machine]):
        warn(
            f"target {machine.name} has no bfloat16 multiply instruction: "
            f"{option('precision', 'bf16')} halves the memory of weights but runs at the speed of "
            f"float32; choose {option('precision', 'float32')}, or a processor with AVX512_BF16 or "
            "BFMMLA"
        )
    if request.precision == "int8" and not any(e.digits for e in machine.levels or [machine]):
        warn(
            f"target {machine.name} has no AVX-512 VNNI: {option('precision', 'int8')} has no "
            f"effect; choose {option('precision', 'float32')}, or a processor with AVX-512 VNNI"
        )
    if request.module_name:
        check_module_name("module", request.module_name)
    if request.runtime != "crt":
        return request, machine
    if request.params == "embed":
        request = replace(request, params="flash")  # equivalent in an image
    return request, replace(machine, hosted=False)


def memory_pools(request: Request, family: McuFamily | None) -> list[MemoryPool]:
    """Return the requested pools, checked against the board's memory, or all of the board."""
    if family is None:
        return pool_options.make_pools(request.pools)
    family.check_pools(request.pools or {})
    return pool_options.make_pools(request.pools) if request.pools else family.pools()


def print_options(model: Any, request: Request, provenance: Provenance, bound: RunBound) -> Options:
    """Return the options of the printer: those of the request that it has, the origin, and the
    memory that a run has besides the weights."""
    origin = Path(model).name if isinstance(model, (str, os.PathLike)) else ""
    shared = rows().keys() & {each.name for each in fields(Options)}
    chosen: dict[str, Any] = {name: getattr(request, name) for name in shared}
    added = [
        row.calls(value)
        for _, row, value in request.options()
        if row.calls is not None and value != row.default
    ]
    if len(added) > 1:
        raise ValueError("two options of plug-ins add lines around operator calls; choose one")
    lines = added[0] if added else None
    more = {
        name: partial(_files_of, row.folder_files, value)
        for name, row, value in request.options()
        if row.folder_files is not None and value != row.default
    }
    return Options(
        **chosen, origin=origin, provenance=provenance, call_lines=lines, folder_files=more,
        max_run_bytes=bound.max_memory - bound.weights,
    )  # fmt: skip


def _files_of(function: Any, value: Any, library: Any) -> Any:
    return function(library, value)
