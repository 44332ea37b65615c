"""Suggest bounds for an input size that a network was not compiled for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod

from tvmrt.option_syntax import option
from tvmrt.tensor_info import TensorInfo

_MULTIPLE = re.compile(r"\(?(?P<name>[\w.]+) \* (?P<step>\d+)\)?")


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
        if size % step or size <= 0:
            return None
        base = _base_dimension(name, step)
        if base is not None:
            name = f"{base}_by_{step}"
            dims[base] = f"{step}*{name}"
        dims[name] = min(low, size // step), max(high, size // step)
    return option("dims", dims) if dims else None


def _base_dimension(name: str, step: int) -> str | None:
    """Return the dimension that ``height_by_4`` or ``height_by_2_by_2`` is a fraction of."""
    base = re.sub(r"(_by_\d+)+$", "", name)
    factors = map(int, re.findall(r"_by_(\d+)", name[len(base) :]))
    return base if step > 1 and prod(factors) == step else None
