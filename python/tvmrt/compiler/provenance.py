"""Provenance of a compiled network: hash of the network, its licence, and the options.

It has no data of the machine that compiles: no paths, no compiler, no time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tvmrt.compiler.codegen.options import Provenance
from tvmrt.compiler.ir import Graph
from tvmrt.compiler.ir.sizes import INT_MAX
from tvmrt.compiler.request import Request


def provenance_of(model: Any, request: Request, graph: Graph) -> Provenance:
    """Return the provenance of a network; ``request`` has all options resolved.

    Raises OSError if the network's file cannot be read.
    """
    chosen_options = {
        name: _to_plain_data(value)
        for name, row, value in replace(request, dims=_declared(request.dims)).options()
        if row.recorded and _is_chosen(value, row.default)
    }
    return Provenance(_sha256(model), graph.licence, dict(sorted(chosen_options.items())))


def _declared(dims: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the dimensions without those that the caller did not declare, which have no bound."""
    found = {
        name: bounds
        for name, bounds in (dims or {}).items()
        if isinstance(bounds, str) or max(np.atleast_1d(bounds)) < INT_MAX
    }
    return found or None


def _is_chosen(value: Any, default: Any) -> bool:
    return value != default and value not in ([], (), {})


def _to_plain_data(value: Any) -> Any:
    """Convert a value to JSON; devices and other objects with a name become their name."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _to_plain_data(each) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [_to_plain_data(each) for each in value]
    return str(getattr(value, "name", type(value).__name__))


def _sha256(model: Any) -> str | None:
    """Return the hash of the original network; None if it is neither a file nor bytes."""
    if isinstance(model, (str, os.PathLike)):
        digest = hashlib.sha256()
        with Path(model).open("rb") as file:
            while chunk := file.read(1 << 22):
                digest.update(chunk)
        return digest.hexdigest()
    if isinstance(model, (bytes, bytearray)):
        return hashlib.sha256(model).hexdigest()
    # check the type: a GraphBuilder takes any attribute of its own for an operator
    if not hasattr(type(model), "SerializeToString"):
        return None
    try:
        return hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()
    except (ValueError, TypeError):  # beyond 2 GiB
        return None
