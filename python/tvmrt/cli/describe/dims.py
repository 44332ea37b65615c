"""Describe the dynamic dimensions of a network."""

from __future__ import annotations

from typing import Any

from tvmrt.cli.table import Table
from tvmrt.network.open_sizes import public_bounds


def tables(dims: dict[str, Any], title_suffix: str = "") -> dict[str, Table]:
    """Return tables of the dynamic dimensions and of their tensors.

    Raises ValueError, TypeError, KeyError or AttributeError for malformed data.
    """
    rows = [
        (name, low, "any" if high is None else high)
        for name, (low, high) in public_bounds(dims["dims"]).items()
    ]
    tensors = [
        (kind, name, tuple(shape))
        for kind in ("inputs", "outputs")
        for name, shape in dims[kind].items()
    ]
    columns = ("of", "tensor", "shape")
    return {
        f"dimensions{title_suffix}": Table(("dimension", "least", "most"), rows),
        f"shapes{title_suffix}": Table(columns, tensors, left=columns),
    }
