"""Ethos-U device: supported nodes, and C source of its regions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from tvmrt.compiler.sdk.devices import (
    Constants,
    Context,
    Device,
    Refusal,
    describe_region,
    register,
)
from tvmrt.compiler.sdk.graph import CSource, Needs, Node, Packaged, Region, Value
from tvmrt.error import UnsupportedError, warn
from tvmrt.plugins.ethos_u import vela
from tvmrt.plugins.ethos_u.c_text import ALIGN_BYTES, constants, scratch_bytes, source_text
from tvmrt.plugins.ethos_u.command_stream import CommandStream, CpuFallbackError, read_stream
from tvmrt.plugins.region_writers.fixed_point_binary import PAIRS
from tvmrt.plugins.region_writers.fixed_point_matmul import MATMUL_OPERATORS, STEPS
from tvmrt.plugins.region_writers.int8_quantization import INT8_TYPES
from tvmrt.plugins.region_writers.to_tflite import write_region

SOFTMAX = ("dequantize", "softmax", "quantize")
DATA_MOVEMENT_OPS = ("concat", "reshape", "transpose")
SINGLE_NODE_OPS = (
    *DATA_MOVEMENT_OPS,
    *PAIRS,
    "qadd",
    "qavg_pool",
    "qconv",
    "qmatmul",
    "qmax_pool",
    "qmul",
)
PACKAGED = Packaged(
    kconfig=("ARM_ETHOS_U",),
    component=("Machine Learning", "NPU Support", "Ethos-U Driver"),
    pack=("Arm", "ethos-u-core-driver"),
    align_bytes=ALIGN_BYTES,
)
COMPUTE_OPS = frozenset(SINGLE_NODE_OPS).difference(DATA_MOVEMENT_OPS)


def _fixed_chains() -> list[tuple[str, ...]]:
    """Return the fixed-point matmul chains of networks that were .tflite files."""
    scales, *optional, last = STEPS
    result = []
    for product, scale in itertools.product(MATMUL_OPERATORS, scales):
        for kept in itertools.product((False, True), repeat=len(optional)):
            between = [names[0] for names, keep in zip(optional, kept) if keep]
            result.append((product, scale, *between, last[0]))
    return result


CHAIN_OPS = frozenset(op for chain in [*_fixed_chains(), SOFTMAX] for op in chain)


@register
class EthosU(Device):
    """Int8 networks on Arm's Ethos-U in firmware, with command streams of Arm's compiler Vela."""

    name = "ethos-u"
    patterns = (*_fixed_chains(), SOFTMAX, *((op,) for op in SINGLE_NODE_OPS))

    def absent(self) -> str | None:
        return vela.absent()

    def refuses(self, context: Context) -> str | None:
        """Return why the device is unavailable: no firmware, no Vela, or invalid options."""
        settings = context.options.get(self.name, {})
        arguments = vela.arguments(settings, True)
        if context.runtime != "crt":
            return "ethos-u is for firmware; name a target such as cortex-m55, or runtime crt"
        reason = vela.absent()
        if reason is None:
            try_options(arguments)
        else:
            warn(f"device ethos-u takes nothing: {reason}")
        return reason

    def supports(self, node: Node) -> str | None:
        if node.op not in (*SINGLE_NODE_OPS, *CHAIN_OPS):
            return f"ethos-u gets no {node.op}"
        for value in (*node.operands(), *node.outputs):
            if not _is_supported_type(node, value):
                return f"ethos-u gets no {node.op} of {value.dtype}"
        return None

    def evaluate(self, region: Region) -> str | None:
        """Let Vela decide; a node that Vela leaves to the CPU is rejected alone."""
        if not COMPUTE_OPS.intersection(node.op for node in region.nodes):
            return "the region only moves elements"
        try:
            _compile_region(region)
        except _NodeError as problem:
            return Refusal(str(problem), region.nodes[problem.node_index])
        return None

    def codegen(self, regions: Sequence[Region], context: Context) -> CSource:
        settings = context.options.get(self.name, {})
        streams, needs = {}, {}
        for region in regions:
            stream, last = _compile_region(region)
            streams[region.symbol] = stream
            needs[region.symbol] = Needs(constants(stream), scratch_bytes(stream), last)
        accelerator = str(settings.get("accelerator", vela.DEFAULT_ACCELERATOR))
        origin = f"{vela.version()}, {' '.join(vela.arguments(settings))}"
        return CSource(
            source_text(regions, streams, origin, accelerator),
            needs=needs,
            packaged=PACKAGED,
            notes={symbol: _note(stream) for symbol, stream in streams.items()},
        )


class _NodeError(UnsupportedError):
    """Vela or the .tflite writer does not support the node with this index."""

    def __init__(self, text: str, place: int) -> None:
        super().__init__(text)
        self.node_index = place


def _is_supported_type(node: Node, value: Value) -> bool:
    """Whether the value is int8 or allowed in a chain, whose sums and scales the writer checks."""
    kind = value.dtype.name
    return kind in INT8_TYPES or value.is_constant or (node.op in CHAIN_OPS and kind != "int64")


def _compile_region(region: Region) -> tuple[CommandStream, tuple[bool, ...]]:
    """Compile a region with Vela; also return which inputs, then outputs, are NHWC images."""
    constants = Constants()
    described = describe_region(region, constants) | {"name": "region"}
    try:
        writer = write_region(described, constants.tobytes(), free_boundaries=True)
    except UnsupportedError as problem:
        raise _NodeError(str(problem), problem.node_index) from problem
    alone = len(region.inputs) == len(region.outputs) == 1
    separate = alone and bool(region.settings.get(vela.SEPARATE_IO))
    result = vela.run(writer.model(), vela.arguments(region.settings, separate))
    if not result.model:
        raise UnsupportedError(f"vela failed: {result.error_text}")
    names = [writer.tensors[place].name for place in (*writer.inputs, *writer.outputs)]
    sizes = [v.type.nbytes for v in (*region.inputs, *region.outputs)]
    try:
        stream = read_stream(result.model, dict(zip(names, sizes)), separate, result.estimates)
    except CpuFallbackError as problem:
        raise _node_error(writer, problem, region) from problem
    borders = [*described["inputs"], *described["outputs"]]
    return stream, tuple(border in writer.channels_last_boundaries for border in borders)


def _node_error(writer: Any, problem: CpuFallbackError, region: Region) -> UnsupportedError:
    """Return the error for the first operator that Vela left to the CPU."""
    origins = {t.name: place for t, place in zip(writer.tensors, writer.origins)}
    places = sorted(origins.get(name, -1) for name in problem.names)
    known = [place for place in places if place >= 0]
    if not known:
        return UnsupportedError("vela leaves the conversion at the region's border to the CPU")
    op = region.nodes[known[0]].op
    return _NodeError(f"vela leaves this {op} to the CPU", known[0])


def _note(stream: CommandStream) -> str:
    """Describe a region: its sizes, and Vela's estimate of its time."""
    text = (
        f"commands {len(stream.commands)} B, weights {len(stream.weights)} B, "
        f"scratch {scratch_bytes(stream)} B"
    )
    try:
        cycles = float(stream.estimates["cycles_total"])
        seconds = float(stream.estimates["inference_time"])
    except (KeyError, ValueError):
        return text
    return f"{text}; vela estimates {cycles:,.0f} cycles, {seconds * 1e3:.3g} ms"


def try_options(arguments: tuple[str, ...]) -> None:
    """Compile a pool with Vela, so that invalid options are reported as such."""
    region: Mapping[str, Any] = {
        "name": "options",
        "tensors": [{"name": n, "dtype": "int8", "shape": [1, 1, 4, 4]} for n in "xy"],
        "nodes": [{"op": "qmax_pool", "name": "n", "inputs": [0], "outputs": [1], "attrs": {
            "kernel": [1, 1], "strides": [1, 1], "dilations": [1, 1],
            "pads_before": [0, 0], "pads_after": [0, 0]}}],
        "inputs": [0],
        "outputs": [1],
    }  # fmt: skip
    result = vela.run(write_region(region, b"").model(), arguments)
    if not result.model:
        raise ValueError(f"device ethos-u: vela rejects the options: {result.error_text}")
