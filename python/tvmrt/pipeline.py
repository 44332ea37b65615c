"""The compiler from end to end: an ONNX network to a library that can be exported.

``frontend -> ir -> transform -> partition -> codegen (program) -> planner -> codegen (C) ->
export``; each stage is a function of its own, this file only calls them in order.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tvmrt.codegen import builder, c_source, graph_entries
from tvmrt.codegen.target import Target, get_target
from tvmrt.error import UnsupportedError
from tvmrt.export.dump import Dump
from tvmrt.export.library import CompiledLibrary
from tvmrt.frontend.onnx import import_model
from tvmrt.ir.program import Program
from tvmrt.planner import plan_program
from tvmrt.transform import optimize

EXECUTORS = ("graph", "aot")
PARAMS = ("embed", "file", "flash")

Progress = Callable[[str, int, int], None]


def compile(
    model: Any,
    executor: str = "graph",
    interface_api: str = "packed",
    unpacked_api: bool = False,
    runtime: str = "host",
    target: str = "native",
    devices: Sequence[str] = (),
    shapes: Mapping[str, Sequence[int]] | None = None,
    params: str = "embed",
    pools: Mapping[str, int] | None = None,
    module_name: str = "default",
    dump_dir: str | os.PathLike | None = None,
    explain: bool = False,
    require_device: Sequence[str] = (),
    progress: Progress | None = None,
    cc: str | None = None,
) -> CompiledLibrary:
    """Compile an ONNX network.

    Parameters
    ----------
    model
        Path of an ``.onnx`` file, or an ``onnx.ModelProto``.
    executor
        ``graph``: operators as packed functions and a graph JSON; ``aot``: one main function.
    target
        ``native`` (this processor), ``host`` (any of its architecture) or a firmware target.
    shapes
        Extents of inputs with symbolic dimensions, by input name.
    params
        ``embed``: weights in the library; ``file``: weights as further inputs, loaded from
        the params that the library gives out; ``flash``: weights as C arrays.
    module_name
        The network's name in symbols (``tvmgen_<name>_...``) and in the factory.
    dump_dir
        A folder that receives the graph after every step.
    progress
        Called with (stage, steps done, steps in all).
    cc
        The C compiler's command; found by itself when None.

    Returns
    -------
    A CompiledLibrary; nothing has been compiled by the C compiler yet, that is done on export.

    Raises
    ------
    OSError, ValueError, KeyError, TypeError for a bad file or argument; UnsupportedError for a
    network that the compiler cannot do. Every text is one sentence.
    """
    _check(executor, interface_api, unpacked_api, runtime, params, module_name)
    _check_placement(devices, require_device, pools or {})
    machine = get_target(target)
    clock = _Clock(progress)
    dump = Dump(dump_dir)
    with clock.stage("import"):
        graph = import_model(model, shapes)
    dump.graph("import", graph)
    with clock.stage("transform"):
        optimize(graph, machine, dump.graph)
    with clock.stage("lower"):
        program = builder.build_program(graph, machine)
    with clock.stage("plan"):
        plan_program(program)
    dump.program("plan", program)
    origin = Path(model).name if isinstance(model, (str, os.PathLike)) else ""
    options = c_source.Options(module_name, executor, params, origin)
    with clock.stage("generate"):
        sources = c_source.generate(program, machine, options)
        json = graph_entries.graph_json(program, sources, options) if executor == "graph" else None
    return CompiledLibrary(program, sources, options, machine, json, clock.seconds, cc)


def _check(executor, interface_api, unpacked_api, runtime, params, module_name) -> None:
    for value, what, known in (
        (executor, "executor", EXECUTORS),
        (params, "params", PARAMS),
        (runtime, "runtime", ("host", "crt")),
        (interface_api, "interface-api", ("packed", "c")),
    ):
        if value not in known:
            raise ValueError(f"{what} {value} is not known; choose {' or '.join(known)}")
    if runtime == "host" and (interface_api != "packed" or unpacked_api):
        raise ValueError(
            "the host runtime calls networks by packed functions only; "
            "choose runtime crt for interface-api c or unpacked-api"
        )
    if runtime == "crt" and interface_api == "c" and not unpacked_api:
        raise ValueError("interface-api c passes raw pointers; it needs unpacked-api")
    if runtime == "crt":
        raise UnsupportedError("code for the crt runtime cannot be generated; choose runtime host")
    if module_name and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", module_name):
        raise ValueError(f"module name {module_name!r} is no C identifier; choose another")


def _check_placement(devices, require_device, pools) -> None:
    for device in [*devices, *(rule.partition(":")[0] for rule in require_device)]:
        if device != "cpu":
            raise ValueError(f"device {device} is not known; the only one is cpu")
    if pools:
        names = ", ".join(pools)
        raise UnsupportedError(f"memory pools ({names}) cannot be planned; there is one arena")


class _Clock:
    """Seconds by stage, and the caller's progress."""

    STAGES = 5

    def __init__(self, progress: Progress | None) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress

    def stage(self, name: str) -> _Stage:
        if self._progress is not None:
            self._progress(name, len(self.seconds), self.STAGES)
        return _Stage(self, name)


class _Stage:
    def __init__(self, clock: _Clock, name: str) -> None:
        self.clock, self.name = clock, name

    def __enter__(self) -> None:
        self.begin = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.clock.seconds[self.name] = time.perf_counter() - self.begin


__all__ = ["Program", "Target", "compile"]
