"""Whether the instructions of a run depend on its inputs, and the largest number of cycles.

The network runs with several inputs: zeros, the least and the largest values, both in turn, random
ones, and NaN. Its instructions are the same for all of them if each layer executed equally many, in
equally many cycles. This is an observation, not a proof: an operator that branches on a rare value
may pass. ``memcheck`` looks for branches on inputs in the C code, and here the functions of the
compiler's library are listed whose code has branches. If instructions may depend on inputs,
``worst_case`` bounds the cycles by the longest paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tvmrt.cli.archive import ArchiveNetwork
from tvmrt.compiler.sdk.codegen import Target
from tvmrt.error import CompileError
from tvmrt.plugins.cycles import memcheck, worst_case
from tvmrt.plugins.cycles.control_flow import UnknownFlowError
from tvmrt.plugins.cycles.core_timing import Core
from tvmrt.plugins.cycles.estimate import LayerCycles, estimate_layers
from tvmrt.plugins.cycles.loop_limits import COPIES
from tvmrt.plugins.cycles.mcu_parts import Mcu
from tvmrt.plugins.cycles.qemu_run import (
    CountedRun,
    Input,
    board_tools,
    counted_runs,
    library_functions,
)

RANDOM_SETS = 3
_DEPENDING = ("the instructions depend on the input", "the instructions may depend on other inputs")
LARGE = 100.0  # magnitude of floating-point inputs, whose range no file states


@dataclass(frozen=True)
class LayerRange:
    """Fewest and most instructions of a layer over all runs."""

    name: str
    fewest: int
    most: int


@dataclass(frozen=True)
class LibraryCall:
    """Function with branches that a layer calls, and whose code is not the archive's."""

    layer: str
    function: str


@dataclass(frozen=True)
class Timing:
    """Result of all runs.

    ``inputs``: number of inputs that the network accepted. ``layers``: those whose instructions
    differ. ``memcheck``: branches on inputs in the C code; None if unknown, for ``unchecked``.
    ``library``: functions that memcheck does not see. ``worst_cycles``: upper bound of the cycles
    of a run; None if there is none, for ``reason``. ``path_functions``: C and machine functions
    with branches that may depend on the input, whose longest paths are part of the bound.
    """

    inputs: int
    layers: tuple[LayerRange, ...]
    memcheck: memcheck.Found | None
    unchecked: str
    library: tuple[LibraryCall, ...]
    worst_cycles: int | None
    reason: str
    path_functions: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "inputs": self.inputs,
            "same_instructions": not self.layers,
            "layers": [vars(layer) for layer in self.layers],
            "memcheck": None if self.memcheck is None else self.memcheck.as_dict(),
            "unchecked": self.unchecked or None,
            "library": [vars(call) for call in self.library],
            "worst_cycles": self.worst_cycles,
            "reason": self.reason or None,
            "path_functions": [*self.path_functions],
        }


def measure(
    network: ArchiveNetwork,
    target: Target,
    part: Mcu,
    core: Core,
    inputs: Sequence[Input],
    folder: Path,
    kernels_in_ram: bool = False,
) -> Timing:
    """Run a network with ``given`` and with made-up inputs in QEMU, and compare the instructions.

    Inputs that the network rejects, such as indices out of range, are left out.

    Raises
    ------
    CompileError
        If a tool is missing or fails, or the network is too large for the QEMU board.
    ValueError
        If the network fails for the given inputs.
    """
    uncached = replace(part, code_cache=0, data_cache=0, prefetch=False)
    dtypes = {name: row["dtype"] for name, row in network.main["inputs"].items()}
    sets = input_sets(inputs, dtypes)
    runs = list(counted_runs(network, target, uncached, sets, folder, kernels_in_ram))
    layers = tuple(_layer_ranges(network, runs, core, uncached))
    found, unchecked = _check(network, target, inputs, folder)
    table = estimate_layers(network, runs[0], core, uncached)
    called = {name for layer in table for name in layer.functions}
    foreign = {
        name
        for name in library_functions(called, network, target, folder)
        if not COPIES.match(name) and runs[0].code.has_branches(name)
    }
    library = tuple(
        LibraryCall(layer.name, name)
        for layer in table
        for name in sorted(foreign & layer.functions.keys())
    )
    reason = _reason(layers, found, library, runs, core)
    functions: tuple[str, ...] = ()
    worst = max(_worst(network, run, core, uncached) for run in runs)
    if found is not None and reason in _DEPENDING:
        tool = board_tools(target.name).tool
        try:
            paths = worst_case.bound(runs, found, core, uncached, tool)
            worst, functions, reason = max(worst, paths.cycles), paths.functions, ""
        except UnknownFlowError as problem:
            reason = _unknown_flow(problem, table)
    most = None if reason else round(worst)
    return Timing(len(runs), layers, found, unchecked, library, most, reason, functions)


def _check(
    network: ArchiveNetwork, target: Target, inputs: Sequence[Input], folder: Path
) -> tuple[memcheck.Found | None, str]:
    try:
        return memcheck.check(network, target, inputs, folder), ""
    except CompileError as problem:
        return None, str(problem)


def input_sets(inputs: Sequence[Input], dtypes: Mapping[str, str]) -> Iterator[list[Input]]:
    """Yield the inputs of each run, the given ones first. ``dtypes``: element types by name."""
    yield list(inputs)
    rng = np.random.default_rng(1)
    kinds = ["zeros", "least", "largest", "both", *["random"] * RANDOM_SETS]
    has_floats = any(dtypes[each.name].startswith("float") for each in inputs)
    for kind in [*kinds, "nan"] if has_floats else kinds:
        yield [
            Input(each.name, _values(kind, dtypes[each.name], len(each.data), rng).tobytes())
            for each in inputs
        ]


def _values(kind: str, dtype: str, nbytes: int, rng: np.random.Generator) -> np.ndarray:
    element = np.dtype("uint8" if dtype == "bool" else dtype)
    if kind == "nan" and element.kind == "f":
        return np.full(nbytes // element.itemsize, np.nan, element)
    count = nbytes // element.itemsize
    least: Any = -LARGE
    largest: Any = LARGE
    if dtype == "bool":
        least, largest = 0, 1
    elif element.kind in "iu":
        least, largest = np.iinfo(element).min, np.iinfo(element).max
    if kind == "random":
        if element.kind in "iu":
            return rng.integers(least, largest, count, dtype=element, endpoint=True)
        return rng.standard_normal(count).astype(element)
    pairs = {"zeros": (0, 0), "least": (least, least), "largest": (largest, largest)}
    return np.resize(np.array(pairs.get(kind, (least, largest)), element), count)


def _layer_ranges(
    network: ArchiveNetwork, runs: Sequence[CountedRun], core: Core, part: Mcu
) -> Iterator[LayerRange]:
    """Yield the layers that did not execute the same blocks in all runs."""
    tables = [estimate_layers(network, run, core, part) for run in runs]
    if len({tuple(layer.name for layer in table) for table in tables}) > 1:
        counts = [sum(layer.instructions for layer in table) for table in tables]
        yield LayerRange("the calls of operators", min(counts), max(counts))
        return
    for rows in zip(*tables):
        counts = [row.instructions for row in rows]
        # other branches of equal length differ in cycles
        if len(set(counts)) > 1 or len({row.core_cycles for row in rows}) > 1:
            yield LayerRange(rows[0].name, min(counts), max(counts))


def _reason(
    layers: Sequence[LayerRange],
    found: memcheck.Found | None,
    library: Sequence[LibraryCall],
    runs: Sequence[CountedRun],
    core: Core,
) -> str:
    """Return why there is no bound of the cycles, or an empty text."""
    if core.worst_costs is None:
        return f"the cycles of {core.name} depend on earlier instructions"
    if len(runs) < 2:
        return "the network rejects all inputs but the given ones"
    if layers:
        return _DEPENDING[0]
    if (found is not None and found.branches) or library:
        return _DEPENDING[1]
    return ""


def _unknown_flow(problem: UnknownFlowError, table: Sequence[LayerCycles]) -> str:
    """Return why the longest path is unknown, with the operators that call the function."""
    operators = [layer.name for layer in table if problem.function in layer.functions]
    subject = f"operator{'s' * (len(operators) > 1)} {', '.join(operators)}: " * bool(operators)
    return (
        f"{subject}function {problem}; instead of a bound, use the cycles of inputs of your own, "
        "given by --inputs"
    )


def _worst(network: ArchiveNetwork, run: CountedRun, core: Core, part: Mcu) -> float:
    """Return the cycles if each instruction takes its longest time, and no cache keeps a line."""
    worst = worst_case.worst_core(core)
    return sum(layer.cycles for layer in estimate_layers(network, run, worst, part))
