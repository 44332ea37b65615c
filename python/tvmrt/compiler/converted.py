"""Requests for models of other frameworks. Imports nothing slow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvmrt import conversion
from tvmrt.compiler.request import Request


def with_conversion(model: Any, request: Request) -> tuple[Any, Request, conversion.Converted]:
    """Return a model of another framework as a network, the request with its sizes, and the result
    of the conversion, with the original to compare the compiled network with."""
    settings = conversion.Settings(request.shapes, request.dims, request.example, request.trusted)
    found = conversion.convert(model, settings)
    sizes = {"shapes": found.shapes, "dims": found.dims}
    return found.network, replace(request, **sizes, example=None, trusted=False), found


def is_exact(request: Request) -> bool:
    """Return whether a request compiles a network in the precision of its model."""
    reduced = (request.weights, request.mixed_precision, *request.devices)
    return request.precision == "float32" and not any(reduced)


def exact(request: Request) -> Request:
    """Return a request for the same network on this machine, in the precision of its model."""
    return Request(
        shapes=request.shapes, dims=request.dims, sequences=request.sequences,
        values=request.values, operators=request.operators, max_memory=request.max_memory,
    ).for_here()  # fmt: skip
