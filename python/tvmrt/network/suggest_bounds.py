"""Errors about input sizes that a network was not compiled for, with a remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tvmrt.error import SizeConditionError
from tvmrt.network.loaded_library import format_shape
from tvmrt.network.open_sizes import is_open
from tvmrt.option_syntax import option
from tvmrt.tensor_info import TensorInfo

EXAMPLE_MAXIMUM = 1024  # in a suggestion for a dimension without a maximum
_MULTIPLE = re.compile(r"\(?(?P<name>[\w.]+) \* (?P<step>\d+)\)?")


def mismatch(
    error: Exception,
    shape: Sequence[int],
    info: TensorInfo,
    bounds: Mapping[str, Sequence[int]],
    keeps_state: bool,
) -> tuple[str, str]:
    """Return the text of an error about a value of this shape for an input, and a remedy or "".

    A network that keeps state between calls takes parts of one size.
    """
    expected = f"input {info.name} is {info.dtype} of {format_shape(info.shape)}"
    fixed = all(isinstance(extent, int) for extent in info.shape)
    if keeps_state and fixed and isinstance(error, ValueError) and tuple(shape) != info.shape:
        return f"{expected}: an array of shape {tuple(shape)} does not match", _part(shape, info)
    problem = str(error).rstrip(".").removeprefix(f"input {info.name!r}: ")
    dims = suggested_dims(shape, info, bounds)
    remedy = f"load or compile it with {dims}, or wider bounds" if dims else ""
    return f"{expected}: {problem}", remedy


def with_sizes(
    error: SizeConditionError, inputs: Sequence[TensorInfo], arrays: Sequence[Any]
) -> SizeConditionError:
    """Return an error about sizes that do not fit, with the sizes of the inputs."""
    text = str(error).rstrip(".")
    if text.startswith("input "):
        return SizeConditionError(text)
    texts = []
    for info, value in zip(inputs, arrays):
        pairs = list(zip(info.shape, np.shape(value)))
        sizes = [
            f"axis {i} ({e.removeprefix('(').removesuffix(')')}) is {n}"
            for i, (e, n) in enumerate(pairs)
            if isinstance(e, str)
        ]
        texts += [f"{', '.join(sizes)} of input {info.name}"] if sizes else []
    return SizeConditionError("; ".join([text, *texts]))


def _part(shape: Sequence[int], info: TensorInfo) -> str:
    """Return what a call of a network with state takes, and what to do with longer inputs."""
    remedy = "call it once for each part, or compile it for parts of another size"
    if len(shape) == len(info.shape):
        axes = [i for i, (n, size) in enumerate(zip(shape, info.shape)) if n != size]
        if len(axes) == 1:
            size = int(info.shape[axes[0]])
            elements = "1 element" if size == 1 else f"{size} elements"
            return f"a call takes {elements} of axis {axes[0]}; {remedy}"
    return f"a call takes exactly the shape {info.shape}; {remedy}"


def suggested_dims(
    shape: Sequence[int], info: TensorInfo, bounds: Mapping[str, Sequence[int]]
) -> str | None:
    """Return the ``dims`` that would accept an input of this shape; None if no bounds would."""
    dims: dict[str, str | tuple[int, int]] = {}
    if len(shape) != len(info.shape):
        return None
    for size, extent in zip(shape, info.shape):
        match = _MULTIPLE.fullmatch(str(extent))
        name, step = (match["name"], int(match["step"])) if match else (extent, 1)
        if name not in bounds or not isinstance(name, str):
            if isinstance(extent, int) and size != extent:
                return None
            continue
        low, high = bounds[name]
        if low * step <= size <= high * step:
            continue
        if size % step:
            return None
        base = _base_dimension(name, step)
        if base is not None:
            name = f"{base}_by_{step}"
            dims[base] = f"{step}*{name}"
        if is_open(high, name):
            high = EXAMPLE_MAXIMUM
        dims[name] = min(low, size // step), max(high, size // step)
    return option("dims", dims) if dims else None


def _base_dimension(name: str, step: int) -> str | None:
    """Return the dimension that ``height_by_4`` or ``height_by_2_by_2`` is a fraction of."""
    base = re.sub(r"(_by_\d+)+$", "", name)
    factors = map(int, re.findall(r"_by_(\d+)", name[len(base) :]))
    return base if step > 1 and prod(factors) == step else None
