"""Mixed precision: regions, and nodes in them, that compute in reduced precision.

A device that offers the precision chooses nodes in its ``optimize``; they get the attribute
``precision``. The error of each region is measured against the CPU for calibration inputs. If it is
too large, the nodes in reduced precision are bisected until the rest is accurate enough. The
region's inputs and outputs keep their types; the device converts at its boundaries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tvmrt.compiler.devices.device_calls import call_device
from tvmrt.compiler.ir import Graph, Node, Region, Value
from tvmrt.compiler.ir.custom import copy_node
from tvmrt.error import TVMError, UnsupportedError
from tvmrt.option_syntax import option, options

from .extract import extract_region

if TYPE_CHECKING:
    from tvmrt.compiler.devices import Context, Device

PRECISIONS = {"bf16": "bfloat16", "fp16": "float16", "int8": "int8"}
MAX_PROBES = 24  # networks compiled to find the nodes of one region

Run = Callable[[Graph, Sequence[np.ndarray]], "list[np.ndarray]"]


class Reducer:
    """Selection of the precision of every region of one network.

    ``calibration`` are inputs of the network by name, one mapping per sample; ``run`` executes a
    graph. Without ``max_error`` and calibration nothing is measured.
    """

    def __init__(
        self,
        precision: str,
        max_error: float | None,
        calibration: Sequence[Mapping[str, np.ndarray]],
        run: Run,
        context: Context,
    ) -> None:
        if precision not in PRECISIONS:
            choices = ", ".join(PRECISIONS)
            given = option("mixed_precision", precision)
            raise ValueError(f"{given} is not known; choose one of {choices}")
        if max_error is not None and not max_error > 0:
            raise ValueError(f"{option('max_error', max_error)}: it must be a number above 0")
        if max_error is not None and not calibration:
            raise ValueError(options("{max_error} needs inputs of the network; give {calibration}"))
        self.word = precision
        self.precision = PRECISIONS[precision]
        self.max_error = max_error
        self._calibration = calibration
        self._run = run
        self._context = context
        self._values: dict[Value, list[np.ndarray]] = {}
        self._refused: dict[str, float] = {}
        self._failures: dict[str, str] = {}  # first failure of each device
        self._unchosen: dict[str, int] = {}  # regions of each device without a chosen node

    def prepare(self, graph: Graph, values: Sequence[Value]) -> None:
        """Compute these values for every sample. The graph is not changed."""
        names = list(dict.fromkeys(values))
        if not self._calibration or not names:
            return
        copy, outputs = copied_graph(graph, names)
        copy.outputs, copy.output_names = outputs, [f"v{i}" for i in range(len(outputs))]
        for sample in self._calibration:
            feeds = [feed_of(sample, value) for value in graph.inputs]
            for value, array in zip(names, self._run(copy, feeds)):
                self._values.setdefault(value, []).append(array)

    def choose(
        self, device: Device, region: Region, reads: Sequence[Value], writes: Sequence[Value]
    ) -> None:
        """Set the region's options ``precision``, ``full_precision`` and ``error``."""
        if self.precision not in device.precisions:
            return
        region.options["precision"] = self.precision
        try:
            names = self._reduced_nodes(device, region)
        except (TVMError, ValueError, TypeError) as problem:
            named = str(problem).startswith((f"device {device.name}", f"device '{device.name}'"))
            text = str(problem) if named else f"device {device.name}: {problem}"
            self._failures.setdefault(device.name, text)
            raise
        if not names:
            self._unchosen[device.name] = self._unchosen.get(device.name, 0) + 1
            del region.options["precision"]
        elif self._calibration:
            self._measure(device, region, names, reads, writes)

    def finish(self, regions: Sequence[Region]) -> None:
        """Raise UnsupportedError if no region computes in the precision: devices failed to choose
        nodes, none is within the error, or no device offers it."""
        if any("precision" in region.options for region in regions):
            return
        if self._failures:
            reasons = "; ".join(self._failures.values())
            raise UnsupportedError(f"no region computes in {self.word}: {reasons}")
        if self._refused:
            symbol, error = min(self._refused.items(), key=lambda item: item[1])
            raise UnsupportedError(
                f"no region stays within {option('max_error', self.max_error)} in {self.word}; the "
                f"smallest error is {error:.3g}, of {symbol}; raise the limit, or choose another "
                "precision"
            )
        if self._unchosen:
            found = (f"{name} in {count}" for name, count in self._unchosen.items())
            raise UnsupportedError(
                f"no region computes in {self.word}: optimize (in C optimize_graph) chose no "
                f"node, of device {', '.join(found)} region(s); change it, or leave out "
                f"{option('mixed_precision', self.word)}"
            )
        raise UnsupportedError(
            f"no region is on a device that computes in {self.word}; add such a device with "
            f"{option('devices')}"
        )

    def _reduced_nodes(self, device: Device, region: Region) -> list[str]:
        """Return the names of the nodes that the device would compute in the precision."""
        trial = optimize_region(device, _copy_of(region))
        return [_name(n) for n in trial.nodes if n.attrs.get("precision") == self.precision]

    def _measure(self, device: Device, region: Region, names: list[str], reads, writes) -> None:
        feeds = [self._values[v] for v in reads]
        golden = [self._values[v] for v in writes]
        errors: dict[frozenset[str], float] = {}

        def error_of(reduced: frozenset[str]) -> float:
            if reduced not in errors and len(errors) < MAX_PROBES:
                full = frozenset(names) - reduced
                errors[reduced] = self._error(device, region, full, feeds, golden)
            return errors.get(reduced, float("inf"))

        chosen = frozenset(names)
        if self.max_error is not None and error_of(chosen) > self.max_error:
            chosen = self._bisect_nodes(names, error_of)
        if not chosen:
            self._refused[region.symbol] = min(errors.values())
            del region.options["precision"]
            return
        region.options["error"] = error_of(chosen)
        region.options["full_precision"] = frozenset(names) - chosen

    def _bisect_nodes(self, names: Sequence[str], error_of) -> frozenset[str]:
        """Bisect for a large subset of the nodes within the error; it may be empty."""
        if error_of(frozenset(names)) <= self.max_error:
            return frozenset(names)
        if len(names) < 2:
            return frozenset()
        middle = len(names) // 2
        first = self._bisect_nodes(names[:middle], error_of)
        last = self._bisect_nodes(names[middle:], error_of)
        if first and last and error_of(first | last) <= self.max_error:
            return first | last
        return max(first, last, key=len)

    def _error(self, device: Device, region: Region, full: frozenset[str], feeds, golden) -> float:
        """Return the maximum error over all samples, relative to the largest value of a result."""
        trial = _copy_of(region)
        trial.options["full_precision"] = full
        trial = optimize_region(device, trial)
        trial.code = call_device(device, "codegen", [trial], self._context)
        graph = _to_network(trial)
        worst = 0.0
        for sample in range(len(self._calibration)):
            actual = self._run(graph, [arrays[sample] for arrays in feeds])
            for array, expected in zip(actual, (arrays[sample] for arrays in golden)):
                worst = max(worst, relative_error(array, expected))
        return worst


def optimize_region(device: Device, region: Region) -> Region:
    """Return the region after the device's ``optimize``, without nodes in full precision."""
    region = call_device(device, "optimize", region)
    for node in region.nodes:
        if _name(node) in region.options.get("full_precision", ()):
            node.attrs.pop("precision", None)
    return region


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """Return the maximum difference relative to the largest wanted value; inf if not finite."""
    if expected.size == 0:
        return 0.0
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    if not np.isfinite(actual).all():
        return float("inf")
    return float(np.abs(actual - expected).max() / max(np.abs(expected).max(), 1e-12))


def _name(node: Node) -> str:
    return f"{node.op} {', '.join(node.sources)}"


def _copy_of(region: Region) -> Region:
    copy, _, _ = extract_region(region.graph, region.nodes, region.device, region.symbol)
    copy.layout, copy.memory = region.layout, region.memory
    copy.options, copy.settings = dict(region.options), region.settings
    return copy


def copied_graph(graph: Graph, values: Sequence[Value]) -> tuple[Graph, list[Value]]:
    """Return a copy of the graph, including guards, and the wanted values in it."""
    copy = Graph(graph.name)
    copies: dict[Value, Value] = {}
    for number, value in enumerate(graph.inputs):
        copies[value] = Value(f"x{number}", value.type)
        copy.inputs.append(copies[value])
    copy.nodes = [copy_node(node, copies) for node in graph.nodes]
    return copy, [copies[value] for value in values]


def _to_network(region: Region) -> Graph:
    """Return a network that consists only of the region."""
    graph = Graph("region")
    graph.inputs = [Value(f"x{i}", v.type) for i, v in enumerate(region.inputs)]
    node = Node("region", graph.inputs, {"region": region}, region.name, region.onnx_nodes)
    node.outputs = [Value(f"y{i}", v.type, node) for i, v in enumerate(region.outputs)]
    graph.nodes, graph.outputs = [node], list(node.outputs)
    graph.output_names = [v.name for v in node.outputs]
    return graph


def feed_of(sample: Mapping[str, np.ndarray], value: Value) -> np.ndarray:
    if value.name not in sample:
        raise KeyError(f"calibration has no input {value.name}; it has {', '.join(sample)}")
    array = np.asarray(sample[value.name])
    if array.shape != value.shape:
        raise ValueError(
            f"calibration of input {value.name} has shape {list(array.shape)}, "
            f"the network takes {list(value.shape)}"
        )
    return array.astype(value.dtype.numpy)
