"""Inputs of PyTorch modules: examples, shapes, and calls with NumPy arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvmrt.conversion import Settings
from tvmrt.conversion.arrays import example_array, leaves, to_array
from tvmrt.conversion.draws import draw
from tvmrt.conversion.original import Input
from tvmrt.option_syntax import option

_CONSTANTS = (bool, int, float, str)
_NAME = re.compile(r"<=|=")


@dataclass(frozen=True)
class Inputs:
    """Inputs of a module.

    ``drawn``: tensors, in order. ``first``: arrays for the exporter. ``keywords``: whether they are
    passed by name. ``constants``: values that are no tensors, by parameter.
    """

    drawn: tuple[Input, ...]
    first: Mapping[str, np.ndarray]
    keywords: bool = False
    constants: Mapping[str, Any] = field(default_factory=dict)

    def shapes(self) -> str:
        """Return the shapes of the first inputs, for an error text."""
        return ", ".join(f"{name}: {value.shape}" for name, value in self.first.items())


def of_module(model: Any, parameters: Sequence[str], settings: Settings) -> Inputs:
    """Return the inputs of a module by its example and shapes.

    Raises
    ------
    ValueError, TypeError
        If the example contains no tensors, or does not fit the shapes.
    """
    if settings.example is None:
        dtype = _float_type(model)
        drawn = tuple(
            Input(name, dtype, _extents(shape)) for name, shape in (settings.shapes or {}).items()
        )
        return _with_first(drawn, settings)
    example, named = settings.example, isinstance(settings.example, Mapping)
    if not named:
        values = list(example) if isinstance(example, (tuple, list)) else [example]
        more = [f"input_{i}" for i in range(len(parameters), len(values))]
        example = dict(zip([*parameters, *more], values))
    constants = {n: v for n, v in example.items() if v is None or isinstance(v, _CONSTANTS)}
    arrays = {name: example_array(name, v) for name, v in example.items() if name not in constants}
    if not arrays or (constants and not named):
        raise TypeError(f"{option('example')}: give tensors, or a dictionary of them by parameter")
    # by position where possible, as TorchScript requires
    keywords = named and [*example] != [*parameters][: len(arrays)]
    names, shapes = list(arrays), dict(settings.shapes or {})
    if not named and len(shapes) == len(names):  # names of the user's own
        names = list(shapes)
    drawn = tuple(
        Input(name, str(array.dtype), _fitting(name, shapes.pop(name, array.shape), array), array)
        for name, array in zip(names, arrays.values())
    )
    if shapes:
        raise ValueError(
            f"{option('shapes', shapes)}: the example has no input {next(iter(shapes))}; choose "
            f"from {', '.join(names)}"
        )
    return _with_first(drawn, settings, keywords, constants)


class Call:
    """A module as a function of arrays by name that returns a list of arrays."""

    def __init__(self, torch: Any, module: Any, inputs: Inputs) -> None:
        self.torch = torch
        self.module = module
        self.inputs = inputs

    def tensors(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Return the inputs as tensors, on the device of the module."""
        device = next((each.device for each in self.module.parameters()), None)
        tensors = [tensor(self.torch, feeds[each.name]) for each in self.inputs.drawn]
        return tensors if device is None else [each.to(device) for each in tensors]

    def forward(self, *tensors: Any) -> tuple[Any, ...]:
        """Call the module and return the tensors in its result, in order."""
        inputs = self.inputs
        if inputs.keywords:
            names = [each.name for each in inputs.drawn]
            result = self.module(**dict(zip(names, tensors)), **inputs.constants)
        else:
            result = self.module(*tensors)
        return tuple(leaves(result))

    def __call__(self, feeds: Mapping[str, Any]) -> list[np.ndarray]:
        with self.torch.no_grad():
            return [to_array(each) for each in self.forward(*self.tensors(feeds))]


def equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two results are equal up to rounding."""
    return a.shape == b.shape and bool(np.allclose(a, b, 1e-4, 1e-5, equal_nan=True))


def declared_dims(settings: Settings) -> Mapping[str, Any]:
    """Return dims with the bounds that shapes declare; the exported network has the shapes
    itself."""
    shapes = (settings.shapes or {}).values()
    extents = [n for shape in shapes for n in shape if isinstance(n, str)]
    bounds = {_NAME.split(n)[0].strip(): _bounds(n) for n in extents if "=" in n}
    return {**bounds, **(settings.dims or {})}


def _with_first(
    drawn: tuple[Input, ...], settings: Settings, keywords: bool = False, constants: Any = None
) -> Inputs:
    """Return inputs with the first ones, which the exporter uses."""
    declared = declared_dims(settings)
    related = {name: text for name, text in declared.items() if isinstance(text, str)}
    names = {n for each in drawn for n in each.shape if isinstance(n, str)}
    bounds = {name: (1, 1 << 30) for name in names - related.keys()}
    for name, bound in declared.items():
        if isinstance(bound, (int, np.integer)):
            bounds[name] = (1, int(bound))
        elif isinstance(bound, (tuple, list)) and [type(each) for each in bound] == [int, int]:
            bounds[name] = (bound[0], bound[1])
    sized = [each._replace(shape=tuple(related.get(n, n) for n in each.shape)) for each in drawn]
    first = next(next(draw(sized, bounds)).feeds)
    return Inputs(drawn, first, keywords, constants or {})


def _extents(shape: Sequence[Any]) -> tuple[int | str, ...]:
    return tuple(_NAME.split(n)[0].strip() if isinstance(n, str) else int(n) for n in shape)


def _fitting(name: str, shape: Sequence[Any], array: np.ndarray) -> tuple[int | str, ...]:
    """Return the shape of an input. Raise ValueError if the example has another one."""
    extents = _extents(shape)
    fits = len(extents) == array.ndim
    if not fits or any(n != a for n, a in zip(extents, array.shape) if not isinstance(n, str)):
        raise ValueError(
            f"{option('shapes', {name: tuple(shape)})}: the example has the shape {array.shape}; "
            "give the same numbers, or names for dynamic dimensions"
        )
    return extents


def _bounds(text: str) -> tuple[int, int] | str:
    """Return the bounds of ``N<=8`` or ``N=2..8``, or the expression of ``N=2*M``."""
    match = re.fullmatch(r"[^<=]+(?:<=|=(?P<low>\d+)\.\.)(?P<high>\d+)", text)
    return (int(match["low"] or 1), int(match["high"])) if match else text.partition("=")[2]


def _float_type(model: Any) -> str:
    """Return the type of the weights of a module; float32 without any."""
    for each in model.parameters():
        if each.is_floating_point():
            return str(each.dtype).rpartition(".")[2]
    return "float32"


def tensor(torch: Any, value: np.ndarray) -> Any:
    """Return an array as a tensor with a copy of its values."""
    if value.dtype.name == "bfloat16":
        return torch.from_numpy(value.astype(np.float32)).bfloat16()
    return torch.from_numpy(np.array(value))
