"""Derivation of the network of one hop from the network of a window."""

from __future__ import annotations

from typing import Any

from tvmrt.compiler.sdk.graph import Graph, Node, Value
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import option

from .moving import HopTooShortError, Moving, Network, name_of
from .option import StreamedInput, StreamOption
from .rules import check_fill, rule_of


def derive_stream(graph: Graph, stream: StreamOption) -> None:
    """Replace the graph by the network of one hop. Raise ValueError or UnsupportedError."""
    if graph.state_count:
        raise UnsupportedError(
            "the network keeps a state of its own between runs, so it is a stream already; leave "
            f"{option('stream')} out"
        )
    inputs = _streamed_inputs(graph, stream)
    hops = {value: each.hop or 1 for value, each in inputs.items()}
    sizes: dict[Any, int] = {}
    while True:
        known = dict(sizes)
        try:
            net = _derived(graph, stream.causal, inputs, hops, sizes)
        except HopTooShortError as problem:
            _lengthen(hops, inputs, problem)
            sizes = {}
            continue
        if sizes == known:
            break
    graph.inputs, graph.nodes, graph.outputs = net.graph.inputs, net.graph.nodes, net.graph.outputs
    graph.output_names, graph.state_count = net.graph.output_names, net.graph.state_count


def _streamed_inputs(graph: Graph, stream: StreamOption) -> dict[Value, StreamedInput]:
    """Return the inputs that the option names, with axes counted from the front."""
    found = {}
    names = ", ".join(value.name for value in graph.inputs)
    for each in stream.inputs:
        if not each.name and len(graph.inputs) != 1:
            raise ValueError(
                f"{option('stream')} names no input; write INPUT:AXIS with one of {names}"
            )
        values = [v for v in graph.inputs if each.name in ("", v.name)]
        if not values:
            raise ValueError(
                f"{option('stream')} names the input {each.name!r}; the network has {names}"
            )
        (value,) = values
        if value in found:  # once by its name and once without
            raise ValueError(
                f"{option('stream')} names the input {value.name!r} twice; give each input one axis"
            )
        rank = len(value.shape)
        if not -rank <= each.axis < rank:
            raise ValueError(
                f"{option('stream')} names axis {each.axis} of the input {value.name!r}, which has "
                f"{rank} axes"
            )
        axis = each.axis % rank
        extent = value.shape[axis]
        if not all(isinstance(n, int) for n in value.shape):
            raise ValueError(
                f"the input {value.name!r} has dynamic dimensions; stream needs a window of a "
                f"known length: declare it with {option('shapes')}"
            )
        if each.hop is not None and each.hop > extent:
            raise ValueError(
                f"{option('stream')} has a hop of {each.hop}, but the window of {value.name!r} has "
                f"{extent} elements along axis {axis}"
            )
        found[value] = each._replace(axis=axis)
    return found


def _lengthen(
    hops: dict[Value, int], inputs: dict[Value, StreamedInput], problem: HopTooShortError
) -> None:
    """Multiply the hops by a factor that strides need. Raise ValueError for hops that are given,
    and for hops longer than the window."""
    for value, each in inputs.items():
        hops[value] *= problem.factor
        if each.hop is not None:
            raise ValueError(
                f"{problem.layer} has a stride that does not divide a hop of {each.hop} elements "
                f"of {value.name!r}; give {option('stream')} a multiple of {hops[value]}, or no hop"
            )
        if hops[value] > value.shape[each.axis]:
            raise UnsupportedError(
                f"{problem.layer} has a stride that needs a hop of {hops[value]} elements of "
                f"{value.name!r}, more than the window has; there is nothing to stream"
            )


def _derived(
    graph: Graph,
    causal: bool,
    inputs: dict[Value, StreamedInput],
    hops: dict[Value, int],
    sizes: dict[Any, int],
) -> Network:
    net = Network(graph, causal, sizes)
    for value in graph.inputs:
        if value in inputs:
            axis, extent = inputs[value].axis, value.shape[inputs[value].axis]
            shape = [hops[value] if d == axis else n for d, n in enumerate(value.shape)]
            part = Value(value.name, value.type.with_shape(shape))
            net.moving[value] = Moving(part, axis, extent, hops[value])
        net.graph.inputs.append(net.moving[value].value if value in inputs else value)
    for node in graph.nodes:
        _add(net, node)
    net.graph.output_names = list(graph.output_names)
    for value in graph.outputs:
        net.graph.outputs.append(_output(net, value))
    net.states.close()
    return net


def _add(net: Network, node: Node) -> None:
    """Add the node that computes the newest part of a node's results, or all of them."""
    if node.guard is not None:
        raise UnsupportedError(
            f"{name_of(node)} is part of a condition, which stream does not support"
        )
    if not all(isinstance(n, int) for value in node.outputs for n in value.shape):
        raise UnsupportedError(
            f"{name_of(node)} has a size that depends on data, which stream does not support"
        )
    if not any(value in net.moving for value in node.operands()):
        net.compute_window(node)
        return
    check_fill(net, node)
    rule = rule_of(node)
    moving = rule(net, node) if rule is not None else None
    if moving is not None:
        net.moving[node.outputs[0]] = moving
    elif not any(value in net.fixed for value in node.outputs):
        net.compute_window(node)


def _output(net: Network, value: Value) -> Value:
    if value not in net.moving:
        return net.fixed.get(value, value)
    return net.newest(value, net.moving[value].hop)
