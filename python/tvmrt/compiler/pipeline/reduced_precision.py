"""Layers in reduced precision, with weight-only quantisation, or by Winograd."""

from __future__ import annotations

from tvmrt import plugin
from tvmrt.compiler import option_rules
from tvmrt.compiler.calibration import GraphRunner
from tvmrt.compiler.codegen.target import CROSS, Target, get_target
from tvmrt.compiler.devices import Context
from tvmrt.compiler.ir import Graph
from tvmrt.compiler.ir.reduced_precision import (
    INT8,
    PRECISIONS,
    ReducedPrecision,
    WeightQuantization,
)
from tvmrt.compiler.ir.winograd import WinogradConversion
from tvmrt.compiler.partition.layer_errors import LayerErrors
from tvmrt.compiler.partition.precision import Reducer
from tvmrt.compiler.request import Request
from tvmrt.compiler.transform.quantize_weights import MIN_WEIGHTS, quantize_weights
from tvmrt.compiler.transform.reduce_matmul_precision import reduce_matmul_precision
from tvmrt.compiler.transform.winograd import to_winograd, to_winograd_within_limits
from tvmrt.error import UnsupportedError, warn
from tvmrt.option_syntax import option


def apply_winograd(graph: Graph, request: Request, machine: Target) -> list[WinogradConversion]:
    """Replace convolutions by Winograd convolutions and report them."""
    if not (machine.hosted and option_rules.uses_winograd(request)):
        return []
    if request.winograd is None:
        return to_winograd_within_limits(graph)
    return to_winograd(graph, request.max_error)


def apply_weight_quantization(graph: Graph, request: Request) -> list[WeightQuantization]:
    """Quantise weights of layers on the CPU and report them."""
    if request.weights is None:
        return []
    rows = quantize_weights(graph, request.weights, request.max_error)
    if not rows:
        warn(
            f"{option('weights', request.weights)} has no effect: no matmul or gather on the CPU "
            f"has a constant float32 matrix of {MIN_WEIGHTS:,} or more numbers"
        )
    return rows


def mark_precision(graph: Graph, request: Request) -> list[ReducedPrecision]:
    """Mark matmul-like layers on the CPU for reduced precision and report them."""
    precision = PRECISIONS.get(request.precision)
    if precision is None:
        return []
    if not request.calibration:
        rows = reduce_matmul_precision(graph, precision)
        if precision == INT8 and not rows:
            advice = ", or quantise the network with 'tvmrt quantize'"
            advice = advice if plugin.has("commands", "quantize") else ""
            warn(
                f"{option('precision', 'int8')} has no effect: no matmul of 16 or more rows "
                f"has int8 or int4 weights; add {option('weights', 'int8')} or "
                f"{option('weights', 'int4')}{advice}"
            )
        return rows
    run = GraphRunner(get_target("native"), None if request.target in CROSS else request.cc)
    measured = LayerErrors(request.calibration, run, precision)
    return reduce_matmul_precision(graph, precision, measured, request.max_error)


def make_reducer(request: Request, context: Context, machine: Target) -> Reducer | None:
    if request.mixed_precision is None:
        return None
    if not machine.hosted:
        raise UnsupportedError(
            f"{option('mixed_precision')} is measured on this machine, which does not have a "
            "board's devices"
        )
    run = GraphRunner(get_target("native"), None if machine.triple else request.cc)
    return Reducer(request.mixed_precision, request.max_error, request.calibration, run, context)
