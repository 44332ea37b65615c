"""Post-training quantisation: the calibration with the smallest error, the cost of each layer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tvmrt.plugins.quantize.int8_model import Quantizer
from tvmrt.plugins.quantize.samples import Feed, split_samples
from tvmrt.plugins.quantize.search import Outputs, Progress, Search, output_error, run_tvmrt


@dataclass(frozen=True)
class Layer:
    """A node of an operator that can be quantised. ``cost``: error of the outputs if this node
    alone is in int8; None if onnxruntime cannot quantise it. ``precision``: int8, or float32 if
    int8 is impossible or exceeds the maximum error."""

    name: str
    operator: str
    cost: float | None
    precision: str


@dataclass(frozen=True)
class Quantization:
    """A quantised network and what it costs.

    An error is the root mean square of the difference to the float32 network over all samples,
    relative to the root mean square of its output; of several outputs the largest.
    ``calibration``: the method of onnxruntime that chose the ranges. ``error``: of the outputs,
    with tvmrt. ``accuracy_float32``: share of samples whose largest output is the label; None
    without labels. ``accuracy``: the same for the quantised network. ``layers``: every node that
    can be quantised, the most expensive first.
    """

    model: onnx.ModelProto
    samples: int
    calibration: str
    error: float
    accuracy_float32: float | None
    accuracy: float | None
    layers: tuple[Layer, ...]


def quantize(
    model: str | os.PathLike[str] | onnx.ModelProto,
    data: str | os.PathLike[str] | Mapping[str, Any],
    output: str | os.PathLike[str] | None = None,
    *,
    labels: Any = None,
    max_error: float | None = None,
    progress: Progress | None = None,
) -> Quantization:
    """Quantise a float32 ONNX network to int8 activations and weights.

    Parameters
    ----------
    model
        An ``.onnx`` file or a model.
    data
        Example inputs, as an ``.npz`` file or arrays by the names of the inputs; the first
        dimension counts samples. A few hundred of those that the network will see are enough.
    output
        Where to write the ``.onnx`` file; it is replaced only when the network is complete.
    labels
        The right class of each sample, to measure the accuracy. The first output must be scores.
    max_error
        Largest error of the outputs; the most expensive layers stay in float32 until it holds.
    progress
        Called with a stage, the number of steps done, and their total.

    Returns
    -------
    Quantization
        The network, its error and the cost of each layer.

    Raises
    ------
    ValueError
        Samples do not fit the network, it has nothing to quantise, or no layer can be in int8
        within ``max_error``.
    OSError
        A file cannot be read or written.

    Notes
    -----
    onnxruntime calibrates and quantises. Costs of layers are measured in it, the error of the
    result in tvmrt. Call it from one thread at a time: it drops what the quantiser prints.
    """
    network = model if isinstance(model, onnx.ModelProto) else _read_model(Path(model))
    arrays = data if isinstance(data, Mapping) else _read_samples(Path(data))
    if max_error is not None and not 0 < max_error < float("inf"):
        raise ValueError(f"max_error={max_error}: it must be a number above 0")
    feeds = split_samples(network, arrays)
    answers = _check_labels(labels, feeds)
    search = Search(Quantizer(network), feeds, progress or (lambda stage, done, total: None))
    costs = search.costs()
    names, result, found, error = _choose(search, costs, max_error)
    if output is not None:
        _write_model(result, Path(output))
    return Quantization(
        result, len(feeds), search.calibration, error, _accuracy(search.right, answers),
        _accuracy(found, answers), _layers(search, costs, names),
    )  # fmt: skip


def _layers(search: Search, costs: Mapping[str, float], int8: set[str]) -> tuple[Layer, ...]:
    kinds = sorted(search.quantizer.nodes.items(), key=lambda row: -costs.get(row[0], np.inf))
    return tuple(
        Layer(name, kind, costs.get(name), "int8" if name in int8 else "float32")
        for name, kind in kinds
    )


def _choose(
    search: Search, costs: Mapping[str, float], max_error: float | None
) -> tuple[set[str], onnx.ModelProto, Outputs, float]:
    """Return the nodes in int8, the network, and its outputs and its error in tvmrt. ``costs`` has
    the cheapest node first."""
    order = list(costs)
    count = len(order) if max_error is None else search.within(max_error, order)
    while True:
        result = search.model(order[:count])
        found = run_tvmrt(result, search.feeds)
        if not any(costs[name] for name in order[:count]) and search.error:
            raise ValueError(_nothing_cheap_enough(search, costs, max_error))
        error = output_error(search.right, found)
        if max_error is None or error <= max_error:
            return set(order[:count]), result, found, error
        count -= 1  # results in tvmrt are rounded otherwise than in onnxruntime


def _nothing_cheap_enough(
    search: Search, costs: Mapping[str, float], max_error: float | None
) -> str:
    name = next((name for name, cost in costs.items() if cost), "")
    if max_error is None or not name:
        return "onnxruntime cannot quantise any layer of the network"
    return (
        f"no layer can be in int8 with an error of at most {max_error:g}: the cheapest, {name}, "
        f"causes {costs[name]:.2g}, all layers {search.error:.2g}; allow a larger error"
    )


def _check_labels(labels: Any, feeds: Sequence[Feed]) -> np.ndarray | None:
    if labels is None:
        return None
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(
            f"labels are {array.dtype} of {array.ndim} dimensions; give one integer per sample"
        )
    if len(array) % len(feeds):
        raise ValueError(f"there are {len(array)} labels for {len(feeds)} runs of the network")
    return array


def _accuracy(outputs: Outputs, labels: np.ndarray | None) -> float | None:
    if labels is None:
        return None
    classes = np.concatenate([np.atleast_1d(row[0].argmax(-1)).ravel() for row in outputs])
    if len(classes) != len(labels):
        raise ValueError(
            f"the network has {len(classes)} answers for {len(labels)} labels; its first output "
            "must have one row of scores for each sample"
        )
    return float(np.mean(classes == labels))


def _read_model(path: Path) -> onnx.ModelProto:
    from tvmrt.cli.onnx_reference import load_model

    if path.suffix != ".onnx":
        raise ValueError(f"{path} is not an .onnx file; only ONNX networks are quantised: give one")
    return load_model(path)


def _read_samples(path: Path) -> dict[str, np.ndarray]:
    from tvmrt.cli.files import load_inputs

    return load_inputs(path)


def _write_model(model: onnx.ModelProto, path: Path) -> None:
    from tvmrt.cli.files import writing
    from tvmrt.compiler.sdk.export import replacing

    with writing(path), replacing(path) as aside:
        aside.write_bytes(model.SerializeToString())
