"""The choice of the calibration and of the nodes in int8, by the error that they cause."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from tvmrt.cli.onnxruntime_session import onnxruntime_session
from tvmrt.plugins.quantize.int8_model import CALIBRATIONS, Quantizer
from tvmrt.plugins.quantize.samples import Feed

COST_RUNS = 8  # runs that measure the cost of a node, spread over all

Progress = Callable[[str, int, int], None]
Outputs = list[list[np.ndarray]]  # of each run, each output


class Search:
    """Errors of a network with some nodes in int8, measured in onnxruntime.

    ``right``: the outputs in float32. ``calibration``: the best method, which has ``error`` with
    all nodes in int8 that onnxruntime can quantise.
    """

    def __init__(self, quantizer: Quantizer, feeds: Sequence[Feed], report: Progress) -> None:
        self.quantizer, self.feeds, self._report = quantizer, feeds, report
        self.right = run_onnxruntime(quantizer.prepared, feeds)
        self._accepted = list(quantizer.nodes)
        rows = []
        for number, calibration in enumerate(CALIBRATIONS):
            report("calibrate", number, len(CALIBRATIONS))
            ranges = quantizer.ranges(calibration, feeds)
            rows.append((self._error_of_all(ranges), calibration, ranges))
        self.error, self.calibration, self._ranges = min(rows, key=lambda row: row[0])

    def model(self, names: Sequence[str]) -> onnx.ModelProto:
        """Return the network with these nodes in int8."""
        return self.quantizer.model(self._ranges, names)

    def _error_of_all(self, ranges: Any) -> float:
        try:
            return self._error(ranges, self._accepted)
        except ValueError:
            self._accepted = self._accept(ranges, [], self._accepted)
            return self._error(ranges, self._accepted)

    def _accept(self, ranges: Any, accepted: list[str], names: list[str]) -> list[str]:
        """Return the accepted nodes and those of ``names`` that onnxruntime can quantise, too."""
        try:
            self._error(ranges, accepted + names, len(self.feeds))
            return accepted + names
        except ValueError:
            if len(names) == 1:
                return accepted
        middle = len(names) // 2
        accepted = self._accept(ranges, accepted, names[:middle])
        return self._accept(ranges, accepted, names[middle:])

    def _error(self, ranges: Any, names: Sequence[str], step: int = 1) -> float:
        """Return the error with these nodes in int8, over every ``step``-th run."""
        model = self.quantizer.model(ranges, names)
        if not any(node.op_type == "QuantizeLinear" for node in model.graph.node):
            return 0.0  # operators that only pass on what others quantise
        return output_error(self.right[::step], run_onnxruntime(model, self.feeds[::step]))

    def costs(self) -> dict[str, float]:
        """Return the error that each node causes alone; the cheapest is first."""
        step = max(1, len(self.feeds) // COST_RUNS)
        rows = {}
        for number, name in enumerate(self._accepted):
            self._report("cost of layers", number, len(self._accepted))
            rows[name] = self._error(self._ranges, [name], step)
        return dict(sorted(rows.items(), key=lambda row: row[1]))

    def within(self, max_error: float, names: Sequence[str]) -> int:
        """Return how many of the nodes, from the first on, can be in int8 within an error."""
        if self.error <= max_error:
            return len(names)
        low, high = 0, len(names)  # so many can; so many cannot
        while high - low > 1:
            self._report("maximum error", len(names) - (high - low), len(names))
            middle = (low + high) // 2
            if self._error(self._ranges, names[:middle]) <= max_error:
                low = middle
            else:
                high = middle
        return low


def output_error(right: Outputs, found: Outputs) -> float:
    """Return the error of the worst output over all runs: the root mean square of the difference,
    relative to that of the right output."""
    worst = 0.0
    for exact, actual in zip(zip(*right), zip(*found)):
        expected = np.concatenate([np.ravel(a) for a in exact]).astype(np.float64)
        other = np.concatenate([np.ravel(a) for a in actual]).astype(np.float64)
        difference = float(np.sqrt(np.mean((other - expected) ** 2)))
        size = float(np.sqrt(np.mean(expected**2)))
        worst = max(worst, difference / size if size else difference)
    return worst


def run_onnxruntime(model: onnx.ModelProto, feeds: Sequence[Feed]) -> Outputs:
    """Return the outputs of each run. ValueError if onnxruntime cannot run the network."""
    session = onnxruntime_session(model, 1, exact=True)
    try:
        return [session.run(None, feed) for feed in feeds]
    except Exception as problem:  # its errors share no base class
        raise ValueError(f"onnxruntime cannot run the network: {problem}") from problem


def run_tvmrt(model: onnx.ModelProto, feeds: Sequence[Feed]) -> Outputs:
    """Return the outputs of each run of the compiled network."""
    from tvmrt.network.loading import load

    network = load(model.SerializeToString())
    names = [tensor.name for tensor in network.outputs]
    results = [network(feed) for feed in feeds]
    return [[r[n] for n in names] if isinstance(r, Mapping) else [r] for r in results]
