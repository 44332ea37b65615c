"""At which sizes a network with open dimensions is tried: the largest, the least, one between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt.cli import files, networks, reshape_targets

if TYPE_CHECKING:
    import numpy as np
    import onnx


@dataclass(frozen=True)
class Trial:
    """Inputs of a network; ``sizes`` tells its open dimensions, and is empty where there are none
    or the user gave the inputs."""

    sizes: str
    inputs: dict[str, np.ndarray]
    made_up: bool = False

    def told(self, problem: ValueError) -> ValueError:
        """What a run says of these inputs, with what the user can do about it."""
        if not self.made_up:
            return problem
        at = f" at {self.sizes}" if self.sizes else ""
        return ValueError(
            f"{problem}; the inputs{at} were made up: give some that suit by --inputs IN.npz"
        )


# Bytes of tensors at chosen sizes where all tensors between nodes are kept, too.
MAX_KEPT_BYTES = 1 << 28


def with_chosen_dims(
    model: onnx.ModelProto, choices: Mapping[str, Any], max_memory: int | None = None
) -> tuple[onnx.ModelProto, Mapping[str, Any]]:
    """The model with a name for each open axis, and the options with bounds for those dimensions
    that nobody has declared. Raises as ``tvmrt.pipeline.choose_dims``."""
    from tvmrt.frontend.dims import Dims
    from tvmrt.frontend.onnx.open_axes import name_open_axes
    from tvmrt.pipeline import choose_dims
    from tvmrt.request import make

    shapes, dims = choices["shapes"], Dims(choices["dims"])
    named = name_open_axes(model, shapes)
    weights = {tensor.name for tensor in model.graph.initializer}
    names = [
        dim.dim_param
        for info in named.graph.input
        if info.name not in shapes and info.name not in weights
        for dim in info.type.tensor_type.shape.dim
        if not dim.HasField("dim_value")
    ]
    if all(name in dims for name in names):
        return model, choices
    asked = {name: value for name, value in choices.items() if name not in ("place", "progress")}
    if not asked.get("max_memory"):
        asked["max_memory"] = max_memory
    return named, {**choices, "dims": choose_dims(named, make(asked))}


def trials(
    model: onnx.ModelProto, choices: Mapping[str, Any], inputs_file: Path | None
) -> list[Trial]:
    """Inputs from a file, or made up: where ``dims`` or ``shapes`` leave dimensions open, of
    several sizes. Raises as ``networks.inputs_for``."""
    from tvmrt.frontend.dims import Dims

    shapes = choices["shapes"]
    if not choices["dims"] and all(isinstance(n, int) for s in shapes.values() for n in s):
        inputs = networks.inputs_for(model, shapes, inputs_file)
        if inputs_file is None:
            reshape_targets.fill(model, inputs, Dims())
        return [Trial("", inputs, inputs_file is None)]
    if inputs_file is not None:
        given = {name: array.shape for name, array in files.load_inputs(inputs_file).items()}
        known = {info.name for info in model.graph.input}
        own = {name: shape for name, shape in given.items() if name in known}
        return [Trial("", networks.inputs_for(model, own, inputs_file))]
    rows = _shapes(model, shapes, choices["dims"])
    found = [Trial(sizes, networks.inputs_for(model, at, None), True) for sizes, at in rows]
    for trial in found:
        reshape_targets.fill(model, trial.inputs, Dims(choices["dims"]))
    return found


def _shapes(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int | str]], dims: Mapping[str, Any]
) -> list[tuple[str, dict[str, tuple[int, ...]]]]:
    """Sizes in words, with the shapes of all inputs at them."""
    from tvmrt.frontend.dims import Dims
    from tvmrt.frontend.onnx.inputs import input_types
    from tvmrt.ir.extent import symbols_of

    weights = {tensor.name for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in weights]
    results = [*model.graph.output, *model.graph.value_info]
    types = input_types(infos, shapes, Dims(dims), results)
    symbols = sorted(symbols_of(*(t.shape for t in types.values())), key=lambda s: s.name)
    bindings = [
        {s.name: s.high for s in symbols},
        {s.name: s.low for s in symbols},
        {s.name: (s.low + s.high) // 2 for s in symbols},
    ]
    distinct = list({tuple(b.items()): b for b in bindings}.values())
    return [
        (
            ", ".join(f"{name}={size}" for name, size in sizes.items()),
            {name: tuple(_at(n, sizes) for n in type.shape) for name, type in types.items()},
        )
        for sizes in distinct
    ]


def _at(extent: Any, sizes: Mapping[str, int]) -> int:
    return extent if isinstance(extent, int) else int(extent.at(sizes))
