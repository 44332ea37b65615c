"""Networks that are given or give sequences and optional values, as networks of tensors alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

    from tvmrt.compiler.ir.bundle import Bundle


def with_tensors(
    model: onnx.ModelProto, choices: Mapping[str, Any]
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """The model with a tensor for each element of its inputs, which any runtime takes, and the
    options with which that is compiled. Raises as ``border.with_tensors``."""
    from tvmrt.compiler.frontend.dims import Dims
    from tvmrt.compiler.frontend.onnx.border import shapes_of_parts, with_tensors

    found, bundles = with_tensors(model, choices["sequences"], Dims(choices["dims"]))
    shapes = shapes_of_parts(choices["shapes"], bundles)
    return found, {**choices, "sequences": {}, "shapes": shapes}


def in_parts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs by name, lists of arrays as their elements, ``y[0]``, ``y[1]``, ..., and without what
    is not there."""
    import numpy as np

    from tvmrt.compiler.ir.bundle import part_name

    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, list) and all(isinstance(each, np.ndarray) for each in value):
            found.update((part_name(name, i), each) for i, each in enumerate(value))
        elif value is not None:
            found[name] = value
    return found


def gathered(tensors: Mapping[str, Any], bundles: Mapping[str, Bundle]) -> dict[str, Any]:
    """The tensors that a library gave, by name, in parts of the sequences that they are."""
    used = {n for b in bundles.values() for n in (*b.parts, b.count, b.there)}
    found = {name: value for name, value in tensors.items() if name not in used}
    return {**found, **in_parts({n: b.gather(tensors.__getitem__) for n, b in bundles.items()})}
