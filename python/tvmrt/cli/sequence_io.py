"""Sequences and optional values as tensors; strings and maps of other runtimes as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import onnx

    from tvmrt.compiler.ir.bundle import Bundle

Labels = Mapping[str, Sequence[str]]  # by output name, see TensorSummary


def sequences_to_tensors(
    model: onnx.ModelProto, choices: Mapping[str, Any]
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Return the model with one tensor per sequence element, as any runtime accepts, and the
    options to compile it with. Raises the errors of ``border.sequences_to_tensors``."""
    from tvmrt.compiler.frontend.dims import Dims
    from tvmrt.compiler.frontend.onnx.flatten_io import sequences_to_tensors, shapes_by_tensor

    found, bundles = sequences_to_tensors(model, choices["sequences"], Dims(choices["dims"]))
    shapes = shapes_by_tensor(choices["shapes"], bundles)
    return found, {**choices, "sequences": {}, "shapes": shapes}


def split_sequences(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return outputs by name, with lists of arrays split into elements ``y[0]``, ``y[1]`` ... and
    without absent values."""
    import numpy as np

    from tvmrt.compiler.ir.bundle import part_name

    result: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, list) and all(isinstance(each, np.ndarray) for each in value):
            result.update((part_name(name, i), each) for i, each in enumerate(value))
        elif value is not None:
            result[name] = value
    return result


def joined_sequences(tensors: Mapping[str, Any], bundles: Mapping[str, Bundle]) -> dict[str, Any]:
    """Collect a library's output tensors, by name, into the elements of their sequences."""
    used = {n for b in bundles.values() for n in (*b.parts, b.count, b.there)}
    found = {name: value for name, value in tensors.items() if name not in used}
    return {
        **found,
        **split_sequences({n: b.gather(tensors.__getitem__) for n, b in bundles.items()}),
    }


def strings_to_indices(values: Mapping[str, Any], labels: Labels) -> dict[str, Any]:
    """Return outputs with strings as indices into the labels of the output, and maps as rows of
    numbers in the order of the labels. Outputs without labels stay."""
    return {
        name: _indices(value, labels[name]) if name in labels else value
        for name, value in values.items()
    }


def _indices(value: Any, labels: Sequence[str]) -> Any:
    import numpy as np

    if isinstance(value, list):
        rows = [{str(key): number for key, number in row.items()} for row in value]
        elements = [[row.get(label, np.nan) for label in labels] for row in rows]
        return np.asarray(elements, np.float32).reshape(len(rows), len(labels))
    if value.dtype.kind not in "OSU":
        return value
    indices = {label: i for i, label in enumerate(labels)}
    elements = [indices.get(str(text), -1) for text in value.reshape(-1)]
    return np.asarray(elements, np.int64).reshape(value.shape)


def indices_to_strings(values: Mapping[str, np.ndarray], labels: Labels) -> dict[str, np.ndarray]:
    """Return outputs with indices into labels replaced by the strings."""
    import numpy as np

    return {
        name: np.asarray(labels[name], object)[value]
        if name in labels and value.dtype.kind == "i"
        else value
        for name, value in values.items()
    }
