"""Measured errors of CPU layers in reduced precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tvmrt.compiler.ir import Graph, Node, Value
from tvmrt.compiler.ir.reduced_precision import PRECISION

from .precision import Run, copied_graph, feed_of, relative_error


class LayerErrors:
    """Compute all given layers of a network in float32 and in ``precision`` from the same inputs.

    ``calibration`` are inputs of the network by name, one mapping per sample; ``run`` executes a
    graph.
    """

    def __init__(
        self, calibration: Sequence[Mapping[str, np.ndarray]], run: Run, precision: str
    ) -> None:
        self._calibration, self._run, self._precision = calibration, run, precision

    def __call__(self, graph: Graph, nodes: Sequence[Node]) -> list[float]:
        """Return the maximum error of each node over all samples, relative to the largest magnitude
        in its result. The graph is not changed."""
        errors = [0.0] * len(nodes)
        if not nodes:
            return errors
        copy, full = copied_graph(graph, [node.output for node in nodes])
        copy.outputs = full + [_reduced_copy(copy, value, self._precision) for value in full]
        copy.output_names = [f"v{i}" for i in range(len(copy.outputs))]
        for sample in self._calibration:
            actual = self._run(copy, [feed_of(sample, value) for value in graph.inputs])
            for i, (right, result) in enumerate(zip(actual, actual[len(nodes) :])):
                errors[i] = max(errors[i], relative_error(result, right))
        return errors


def _reduced_copy(graph: Graph, value: Value, precision: str) -> Value:
    """Insert a reduced-precision copy of a value's producer and return its result."""
    node = value.producer
    assert node is not None, "the value is a layer's result"
    attrs = {**node.attrs, PRECISION: precision}
    copied = Node(node.op, node.inputs, attrs, f"{node.name}_reduced", node.sources, node.guard)
    copied.outputs = [Value(f"{value.name}_reduced", value.type, copied)]
    graph.nodes.insert(graph.nodes.index(node) + 1, copied)
    return copied.output
