"""Choose sizes for testing networks with dynamic dimensions: maximum, minimum and middle.

A dimension without bounds gets a moderate maximum, a smaller one if it is the first axis of an
input, which often is a batch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt.cli import files, onnx_reference

if TYPE_CHECKING:
    import numpy as np
    import onnx

    from tvmrt.compiler.ir.sizes import Symbol

MAX_OPEN_SIZE = 48  # chosen for a dimension without bounds
MAX_OPEN_BATCH = 4  # if it is the first axis of an input
MAX_TRIED = 1 << 18  # maximum number of sizes to try near the desired ones


@dataclass(frozen=True)
class Trial:
    """Inputs of a network; ``sizes`` describes its dynamic dimensions. It is empty if there are
    none, or if the user gave the inputs."""

    sizes: str
    inputs: dict[str, np.ndarray]
    is_random: bool = False

    def with_advice(self, problem: ValueError) -> ValueError:
        """Return an error of a run with advice about random inputs."""
        if not self.is_random:
            return problem
        at = f" at {self.sizes}" if self.sizes else ""
        return ValueError(
            f"{problem}; the inputs{at} were random: give suitable ones with --inputs IN.npz"
        )


def with_chosen_dims(
    model: onnx.ModelProto, choices: Mapping[str, Any]
) -> tuple[onnx.ModelProto, Mapping[str, Any]]:
    """Return the model with a name for each dynamic axis, and the options with the undeclared
    dimensions, which have no bounds, and the executor. Raises UnboundedDimensionsError for a
    board."""
    from tvmrt.compiler.frontend.dims import Dims
    from tvmrt.compiler.frontend.onnx.inputs import make_given_inputs, name_symbolic_axes
    from tvmrt.compiler.pipeline.open_dims import with_open_dims
    from tvmrt.compiler.request import make

    shapes, dims = choices["shapes"], Dims(choices["dims"])
    model = make_given_inputs(model, shapes)
    named = name_symbolic_axes(model, shapes)
    weights = {tensor.name for tensor in model.graph.initializer}
    names = [
        dim.dim_param
        for info in named.graph.input
        if info.name not in shapes and info.name not in weights
        for dim in info.type.tensor_type.shape.dim
        if not dim.HasField("dim_value")
    ]
    undeclared = dims.undeclared(names)
    if not undeclared:
        return model, {**choices, "executor": choices.get("executor") or "graph"}
    given = {name: choices[name] for name in choices if name not in ("remote_machine", "progress")}
    return named, {**choices, "dims": with_open_dims(make(given), tuple(undeclared)).dims}


def trials(
    model: onnx.ModelProto, choices: Mapping[str, Any], inputs_file: Path | None
) -> list[Trial]:
    """Return inputs from a file, or random inputs: of several sizes if ``dims`` or ``shapes``
    leave dimensions dynamic; inputs with a fixed value have that. Raises the errors of
    ``networks.inputs_for``."""
    shapes = choices["shapes"]
    if not choices["dims"] and all(isinstance(n, int) for s in shapes.values() for n in s):
        inputs = onnx_reference.inputs_for(model, shapes, inputs_file)
        inputs = inputs if inputs_file else _with_values(inputs, choices)
        return [Trial("", inputs, inputs_file is None)]
    if inputs_file is not None:
        given = {name: array.shape for name, array in files.load_inputs(inputs_file).items()}
        known = {info.name for info in model.graph.input}
        own = {name: shape for name, shape in given.items() if name in known}
        return [Trial("", onnx_reference.inputs_for(model, own, inputs_file))]
    rows = _shapes(model, shapes, choices["dims"])
    found = ((sizes, onnx_reference.inputs_for(model, at, None)) for sizes, at in rows)
    return [Trial(sizes, _with_values(inputs, choices), True) for sizes, inputs in found]


def _with_values(
    inputs: Mapping[str, np.ndarray], choices: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Return random inputs with the fixed values (option ``values``) in their place."""
    found = dict(inputs)
    for name in found.keys() & (choices.get("values") or {}).keys():
        numbers = found[name].dtype.type(choices["values"][name])
        fits = numbers.size == found[name].size
        found[name] = numbers.reshape(found[name].shape) if fits else numbers
    return found


def _shapes(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int | str]], dims: Mapping[str, Any]
) -> list[tuple[str, dict[str, tuple[int, ...]]]]:
    """Return descriptions of sizes, each with the shapes of all inputs at these sizes."""
    from tvmrt.compiler.frontend.dims import Dims
    from tvmrt.compiler.frontend.onnx.inputs import input_types
    from tvmrt.compiler.ir.sizes import linear_form

    weights = {tensor.name for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in weights]
    results = [*model.graph.output, *model.graph.value_info]
    types = input_types(infos, shapes, Dims(dims), results)
    fitting = _fitting_types(model, shapes, dims, types)
    found = {}
    for sizes in fitting_sizes([t.shape for t in fitting.values()]):
        at = {name: tuple(_at(n, sizes) for n in type.shape) for name, type in fitting.items()}
        named = {}
        for name, type in types.items():
            for extent, size in zip(type.shape, at[name]):
                form = linear_form(extent)
                if form is not None:
                    symbol, step, first = form
                    named[symbol.name] = (size - first) // step
        found[", ".join(f"{name}={size}" for name, size in sorted(named.items()))] = at
    return list(found.items())


def _fitting_types(
    model: onnx.ModelProto, shapes: Mapping, dims: Mapping, types: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the input types restricted to sizes that the network accepts, or the declared types if
    the network cannot be imported without its operators."""
    import warnings

    from tvmrt.compiler.frontend.onnx import import_model
    from tvmrt.error import TVMError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # compilation issues the warnings as well
            graph = import_model(model, shapes, dims=dims)
    except (TVMError, ValueError, KeyError, OSError):
        return types
    found = {value.name: value.type for value in graph.inputs}
    return found if found.keys() == types.keys() else types


def fitting_sizes(shapes: Sequence[Sequence[Any]]) -> list[dict[str, int]]:
    """Return sizes, by symbol, for inputs of these symbolic shapes: large, small and between."""
    return _fitting_sizes(_with_maxima(shapes))


def _with_maxima(shapes: Sequence[Sequence[Any]]) -> list[Symbol]:
    """Return the symbols in the shapes of inputs, with a moderate maximum if they have none."""
    from tvmrt.compiler.ir.sizes import symbols_of
    from tvmrt.network.open_sizes import is_open, step_of

    batches = symbols_of(*(shape[0] for shape in shapes if len(shape) > 1))

    def maximum(symbol: Symbol) -> int:
        if not is_open(symbol.high, symbol.name):
            return symbol.high
        size = MAX_OPEN_BATCH if symbol in batches else MAX_OPEN_SIZE
        return max(-(-size // step_of(symbol.name)), symbol.low + 2)

    return [replace(symbol, high=maximum(symbol)) for symbol in symbols_of(*shapes)]


def _fitting_sizes(symbols: Collection[Symbol]) -> list[dict[str, int]]:
    """Return the valid sizes nearest to the maximum, the minimum and the middle."""
    import numpy as np

    ordered = sorted(symbols, key=lambda s: s.name)
    zeros = {zero for symbol in ordered for zero in symbol.zeros}
    names = [s.name for s in ordered]
    wanted = [
        [s.high for s in ordered],
        [s.low for s in ordered],
        [(s.low + s.high) // 2 for s in ordered],
    ]
    if not zeros:
        return [dict(zip(names, sizes)) for sizes in wanted]
    reach, found = int(MAX_TRIED ** (1 / len(ordered))) // 2, []
    for middle in wanted:
        axes = [
            np.arange(max(s.low, m - reach), min(s.high, m + reach) + 1)
            for s, m in zip(ordered, middle)
        ]
        grid = np.meshgrid(*axes, indexing="ij")
        sizes = dict(zip(names, grid))
        fits = np.all([zero.at(sizes) == 0 for zero in zeros], axis=0)
        if fits.any():
            away = sum(abs(g - m) / (s.high - s.low + 1) for g, m, s in zip(grid, middle, ordered))
            best = np.argmin(np.where(fits, away, np.inf))
            found.append({name: int(g.flat[best]) for name, g in sizes.items()})
    return found or [dict(zip(names, sizes)) for sizes in wanted]


def _at(extent: Any, sizes: Mapping[str, int]) -> int:
    return extent if isinstance(extent, int) else int(extent.at(sizes))
