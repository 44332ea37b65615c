"""Execution of graphs in this process for calibration. Needs the runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tvmrt.compiler.codegen import builder, c_source
from tvmrt.compiler.codegen.entries import graph_json as graph_file
from tvmrt.compiler.codegen.options import Options
from tvmrt.compiler.codegen.target import Target
from tvmrt.compiler.export.library import CompiledLibrary
from tvmrt.compiler.ir import Graph
from tvmrt.compiler.planner.plan import plan_program
from tvmrt.compiler.transform.expand_composed import expand_composed

if TYPE_CHECKING:
    from tvmrt.contrib.graph_executor import GraphModule


class GraphRunner:
    """Compiles graphs for this machine and runs them; the last one is kept for further inputs."""

    def __init__(self, machine: Target, cc: str | None = None) -> None:
        self._machine = machine
        self._cc = cc
        self._graph: Graph | None = None
        self._executor: GraphModule | None = None

    def __call__(self, graph: Graph, feeds: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the graph's outputs for these inputs, in order."""
        executor = self._executor
        if executor is None or graph is not self._graph:
            executor = self._executor = self._load(graph)
            self._graph = graph
        for number, array in enumerate(feeds):
            executor.set_input(number, np.ascontiguousarray(array))
        executor.run()
        return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]

    def _load(self, graph: Graph) -> GraphModule:
        from tvmrt.contrib.graph_executor import GraphModule
        from tvmrt.runtime import cpu, load_module

        expand_composed(graph)
        program = builder.build_program(graph, self._machine)
        plan_program(program)
        options = Options("calibration")
        sources = c_source.generate(program, self._machine, options)
        json = graph_file.graph_json(program, sources, options)
        library = CompiledLibrary(program, sources, options, self._machine, json, {}, self._cc)
        with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
            path = Path(folder) / "calibration.so"
            library.export_library(path)
            module = load_module(str(path))
        return GraphModule(module["calibration"](cpu(0)))
