"""Timing of one layer's candidates on this machine.

All candidates are functions of one library and run in turn, so that other load on the machine
affects them equally; the fastest run of each counts. Each runs a few times in a row, because in
its first run the caches contain the weights and results of the others.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from tvmrt.compiler.codegen import builder, c_source
from tvmrt.compiler.codegen.entries import graph_json as graph_file
from tvmrt.compiler.codegen.options import Options
from tvmrt.compiler.codegen.target import Target
from tvmrt.compiler.export.library import CompiledLibrary
from tvmrt.compiler.ir import DTYPES, Builder, Graph, Node, TensorType, Trait, Value, constant
from tvmrt.compiler.ir.op import get_op, integer_form
from tvmrt.compiler.ir.program import Program
from tvmrt.compiler.ir.reduced_precision import BFLOAT16, PRECISION
from tvmrt.compiler.ir.tuned import Choice, Tuned
from tvmrt.compiler.ir.tuned_layer import BYTES, CellLayer, Layer
from tvmrt.compiler.planner import plan_program
from tvmrt.compiler.symbols import PACKED_SUFFIX

if TYPE_CHECKING:
    from tvmrt.runtime.executor import GraphModule

MIN_ROUNDS = 4
COUNT_BYTES = 8  # size of the node count before the nodes' times
CONSECUTIVE_RUNS = 3  # consecutive runs of a function; the first is not counted
CLOCK = 1e-8  # resolution of the clock in seconds


@dataclass(frozen=True)
class Timing:
    """Time of a choice: its fastest run in seconds, and the median over rounds of its time relative
    to the first choice's in the same round."""

    choice: Choice
    seconds: float
    ratio: float


class _FixedChoices(Tuned):
    """Choices by node name, for graphs that contain one layer several times."""

    def __init__(self, choices: dict[str, Choice]) -> None:
        self._choices = choices

    def choice(self, node: Node, options: Callable[[], Sequence[Choice]]) -> Choice:
        return self._choices.get(node.name, Choice())


def options_of(layer: Layer, target: Target) -> list[Choice]:
    """Return the possible choices for a layer on a target, the estimate's first."""
    steps = _program(layer, [Choice()], target).steps
    step = next(step for step in steps if step.group.root.name == _name(0))
    return step.lowering.options(step)


def measure(
    layer: Layer,
    choices: Sequence[Choice],
    target: Target,
    seconds: float,
    threads: int = 1,
    cc: str | None = None,
) -> list[Timing]:
    """Time choices of a layer.

    Parameters
    ----------
    layer
        Layer to time, with random weights.
    choices
        Some of ``options_of``, with or without a Winograd tile size.
    target
        Target for this machine.
    seconds
        Approximate duration of the measurement, without compilation.
    threads
        Number of runtime threads during the measurement.
    cc
        C compiler.

    Returns
    -------
    One row per choice, in the same order. Raises CompileError, OSError.
    """
    from tvmrt.runtime import get_global_func

    program = _program(layer, choices, target)
    executor, nodes = _load(program, target, cc)
    executor.set_input(0, _random_values(layer.x, _element(layer), 1))
    before = get_global_func("runtime.NumThreads")()
    get_global_func("runtime.config_threadpool")(0, threads)
    try:
        rows = measure_rounds(executor, nodes, seconds)
    finally:
        get_global_func("runtime.config_threadpool")(0, before)
    columns = list(zip(*rows))
    return [
        Timing(choice, _round_seconds(min(column)), median(row[i] / row[0] for row in rows))
        for i, (choice, column) in enumerate(zip(choices, columns))
    ]


def measure_rounds(
    executor: GraphModule, nodes: Sequence[int], seconds: float
) -> list[list[float]]:
    """Return the seconds of each function, in rounds that run all of them."""
    rows: list[list[float]] = []
    run = executor.module["run_individual"]
    end = time.perf_counter() + seconds
    while len(rows) < MIN_ROUNDS or time.perf_counter() < end:
        times = np.frombuffer(run(1, CONSECUTIVE_RUNS, 0), np.float64, offset=COUNT_BYTES)
        fastest = times.reshape(-1, CONSECUTIVE_RUNS)[:, 1:].min(1)
        rows.append([max(float(fastest[node]), CLOCK) for node in nodes])
    return rows


def _round_seconds(seconds: float) -> float:
    """Round to four significant digits."""
    return float(f"{seconds:.4g}")


def _name(number: int) -> str:
    return f"choice_{number}_"


def _program(layer: Layer, choices: Sequence[Choice], target: Target) -> Program:
    """Build a graph with the layer once per choice, all with the same input. Only the first element
    of each result is an output, so that the results share memory."""
    graph = Graph("layer")
    x = Value("x", TensorType(layer.x, DTYPES[_element(layer)]))
    graph.inputs.append(x)
    weights = [constant(data, name) for name, data in _weights(layer).items()]
    b = Builder(graph)
    for number, choice in enumerate(choices):
        y = _emit(b, layer, choice, [x, *weights], _name(number))
        zeros, ones = (0,) * y.type.rank, (1,) * y.type.rank
        first = b.emit("slice", [y], starts=zeros, steps=ones, sizes=ones)
        graph.outputs.append(first)
        graph.output_names.append(f"y{number}")
    forced = _FixedChoices({_name(i): choice for i, choice in enumerate(choices)})
    program = builder.build_program(graph, replace(target, tuned=forced))
    plan_program(program)
    return program


def _element(layer: Layer) -> str:
    """Return the input's element type; bfloat16 layers have float32 inputs."""
    return layer.element if layer.element in BYTES else "float32"


def _random_values(shape: Sequence[int], dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "float32":
        return rng.standard_normal(shape, np.float32)
    return rng.integers(*(-128, 128) if dtype == "int8" else (0, 256), shape, dtype)


def _weights(layer: Layer) -> dict[str, np.ndarray]:
    """Return random constants of a layer; weights are small, so that cells stay in bounds."""
    if isinstance(layer, CellLayer):
        return {"r": _random_values(layer.w, "float32", 0) / np.float32(layer.w[1])}
    channels = layer.out[1]
    if layer.element not in BYTES:
        return {
            "w": _random_values(layer.w, "float32", 0),
            "bias": _random_values((channels,), "float32", 2),
        }
    scale = np.float32(channels / (64.0 * np.prod(layer.w)))
    return {"w": _random_values(layer.w, "int8", 0), "scale": np.full(channels, scale, np.float32)}


def _emit(b: Builder, layer: Layer, choice: Choice, inputs: list[Value | None], name: str) -> Value:
    operator, attrs = layer.operator, layer.attributes()
    if choice.square > 1:
        pads = {name: attrs[name] for name in ("pads_before", "pads_after")}
        return b.emit("conv_winograd", inputs, name, size=choice.square, **pads)
    if layer.element in BYTES:
        low, high = (-128, 127) if layer.element == "int8" else (0, 255)
        attrs.update(x_zero=low + 128, to=layer.element, y_zero=low + 128, low=low, high=high)
        operator = integer_form(get_op(operator), weights=True).name
    absent = len(get_op(operator).contract.operands) - len(inputs)
    y = b.emit_many(operator, [*inputs, *(None,) * absent], name, **attrs)[0]
    if layer.element == BFLOAT16 and y.producer is not None:
        y.producer.attrs[PRECISION] = BFLOAT16
    return y


def _load(program: Program, target: Target, cc: str | None) -> tuple[GraphModule, list[int]]:
    """Load the program; return an executor and the indices of the nodes that are candidates."""
    from tvmrt.runtime import cpu, load_module
    from tvmrt.runtime.executor import GraphModule

    options = Options("tuning")
    sources = c_source.generate(program, target, options)
    text = graph_file.graph_json(program, sources, options)
    library = CompiledLibrary(program, sources, options, target, text, {}, cc)
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        path = Path(folder) / "tuning.so"
        library.export_library(path)
        module = load_module(str(path))
    executor = GraphModule(module["tuning"](cpu(0)))
    names = [node.get("attrs", {}).get("func_name") for node in json.loads(text)["nodes"]]
    measured = [f for f in sources.functions if not f.step.group.root.has(Trait.REARRANGES)]
    return executor, [names.index(f"{function.symbol}{PACKED_SUFFIX}") for function in measured]
