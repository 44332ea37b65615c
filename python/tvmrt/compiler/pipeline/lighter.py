"""Layers in reduced precision, with weight-only quantisation, or by Winograd."""

from __future__ import annotations

from tvmrt.compiler import choices
from tvmrt.compiler.calibration import GraphRunner
from tvmrt.compiler.codegen.target import CROSS, Target, get_target
from tvmrt.compiler.devices import Context
from tvmrt.compiler.ir import Graph
from tvmrt.compiler.ir.narrow import NarrowRow
from tvmrt.compiler.ir.reduced import ReducedRow
from tvmrt.compiler.ir.winograd import WinogradRow
from tvmrt.compiler.partition import LayerErrors, Reducer
from tvmrt.compiler.request import Request
from tvmrt.compiler.transform import narrow_weights, reduce_products, squares_within, to_winograd
from tvmrt.error import UnsupportedError


def by_squares(graph: Graph, request: Request, machine: Target) -> list[WinogradRow]:
    """Replace convolutions by Winograd convolutions and report them."""
    if not (machine.hosted and choices.takes_squares(request.winograd, request.precision)):
        return []
    measured = None if machine.tuned is None else machine.tuned.square
    if request.winograd is None:
        return squares_within(graph, measured)
    return to_winograd(graph, request.max_error, measured)


def narrowed(graph: Graph, request: Request) -> list[NarrowRow]:
    """Quantise weights of layers on the CPU and report them."""
    if request.weights is None:
        return []
    return narrow_weights(graph, request.weights, request.max_error)


def reduced(graph: Graph, request: Request) -> list[ReducedRow]:
    """Mark matmul-like layers on the CPU for bfloat16 and report them."""
    if request.precision != "bf16":
        return []
    if not request.calibration:
        return reduce_products(graph)
    run = GraphRunner(get_target("native"), None if request.target in CROSS else request.cc)
    measured = LayerErrors(request.calibration, run)
    return reduce_products(graph, measured, request.max_error)


def make_reducer(request: Request, context: Context, machine: Target) -> Reducer | None:
    if request.mixed_precision is None:
        return None
    if not machine.hosted:
        raise UnsupportedError(
            "mixed-precision is measured on this machine, which does not have a board's devices"
        )
    run = GraphRunner(get_target("native"), None if machine.triple else request.cc)
    return Reducer(request.mixed_precision, request.max_error, request.calibration, run, context)
