"""Example inputs of a network, split into the feeds of single runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

Feed = dict[str, np.ndarray]


def split_samples(model: onnx.ModelProto, data: Mapping[str, Any]) -> list[Feed]:
    """Return the inputs of each run.

    The first dimension of each array counts samples. An array of the input's rank has samples along
    the batch: a run takes as many as the network declares, one if the batch is open. An array with
    one dimension more has the whole input of each run. Raises ValueError, naming the array.
    """
    inputs = _inputs(model)
    missing = [name for name in inputs if name not in data]
    if missing:
        raise ValueError(
            f"the samples have no array {missing[0]}, an input of the network; they have "
            f"{', '.join(data) or 'none'}"
        )
    runs = {name: _split(name, info, np.asarray(data[name])) for name, info in inputs.items()}
    counts = {name: len(rows) for name, rows in runs.items()}
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name}: {n}" for name, n in counts.items())
        raise ValueError(f"the arrays of the samples have different numbers of runs: {text}")
    return [dict(zip(runs, rows)) for rows in zip(*runs.values())]


def _inputs(model: onnx.ModelProto) -> dict[str, onnx.TypeProto.Tensor]:
    weights = {tensor.name for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in weights]
    others = [info.name for info in infos if not info.type.HasField("tensor_type")]
    if others or not infos:
        reason = f"input {others[0]} is not a tensor" if others else "the network has no inputs"
        raise ValueError(f"{reason}; only networks with tensors as inputs are quantised")
    return {info.name: info.type.tensor_type for info in infos}


def _split(name: str, info: onnx.TypeProto.Tensor, array: np.ndarray) -> list[np.ndarray]:
    """Return the input of each run, after checks of its type and shape."""
    dims = [d.dim_value if d.HasField("dim_value") else 0 for d in info.shape.dim]
    wanted = helper.tensor_dtype_to_np_dtype(info.elem_type)
    form = " x ".join(str(n or "?") for n in dims) or "scalar"
    text = f"array {name} of the samples is {array.dtype}[{' x '.join(map(str, array.shape))}]"
    if array.dtype != wanted:
        raise ValueError(f"{text}; the network takes {wanted.name}")
    if array.ndim == len(dims) + 1:
        rows = list(array)
    elif array.ndim == len(dims) and dims:
        batch = dims[0] or 1
        if len(array) % batch:
            raise ValueError(f"{text}; the network takes batches of {batch}")
        rows = np.split(array, len(array) // batch) if len(array) else []
    else:
        raise ValueError(f"{text}; the network takes {form} in each run")
    if not rows or not array.size:
        raise ValueError(f"{text}; give at least one sample")
    if any(n not in (0, extent) for n, extent in zip(dims, rows[0].shape)):
        raise ValueError(f"{text}; the network takes {form} in each run")
    if not np.isfinite(array).all():
        raise ValueError(f"{text} and has elements that are not finite")
    return [np.ascontiguousarray(row) for row in rows]
