"""Convert string and map outputs of other runtimes to the tensors of compiled networks and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

Labels = Mapping[str, Sequence[str]]  # by output name, see TensorSummary


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
