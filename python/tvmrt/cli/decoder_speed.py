"""Speed of a decoder network in tokens and bytes per second.

A decoder takes token ids and a cache of keys and values, and returns the cache with those of the
tokens added. For each token it reads all weights and the cache, so memory limits its speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvmrt.cli import console

if TYPE_CHECKING:
    from tvmrt.cli.session import Session
    from tvmrt.compiler.export.library import CompiledLibrary
    from tvmrt.compiler.ir.program import Program, Step

# operators that copy elements; a cache is an input with some elements replaced or added
COPYING = frozenset(
    {"cast", "identity", "scatter_elements", "scatter_nd", "tensor_scatter", "where"}
)
MIN_RANK = 3


@dataclass(frozen=True)
class DecoderTraffic:
    """Tokens of a call, and bytes that it reads.

    ``weights_bytes``: Weights, and the gathered rows of tables. ``cache_bytes``: Inputs with the
    cache, in full.
    """

    tokens: int
    weights_bytes: int
    cache_bytes: int


@dataclass(frozen=True)
class DecoderSpeed:
    """Speed of a decoder, from the median time of a call.

    ``tokens``: Tokens of a call. ``weights_bytes``: Weights that a call reads, divided by its
    tokens. ``cache_bytes``: Cache that a call reads, divided by its tokens. ``bytes_per_second``:
    Both, times tokens per second.
    """

    tokens: int
    weights_bytes: int
    cache_bytes: int
    tokens_per_second: float
    bytes_per_second: float


def speed(session: Session, inputs: Mapping[str, Any], seconds: float) -> DecoderSpeed | None:
    """Return the speed of a decoder that runs on this machine; None for any other network.

    ``seconds``: Time of a call with these inputs.
    """
    if session.library is None or session.remote_machine is not None:
        return None
    traffic = traffic_of(session.library, inputs)
    if traffic is None:
        return None
    return DecoderSpeed(
        traffic.tokens,
        round(traffic.weights_bytes / traffic.tokens),
        round(traffic.cache_bytes / traffic.tokens),
        traffic.tokens / seconds,
        (traffic.weights_bytes + traffic.cache_bytes) / seconds,
    )


def traffic_of(library: CompiledLibrary, inputs: Mapping[str, Any]) -> DecoderTraffic | None:
    """Return the tokens and bytes of a call with these inputs; None for any other network than a
    decoder.

    A decoder has a cache: an input that becomes an output by copies, and the network reads that
    output. Its tokens are the indices into its largest table, the embedding.
    """
    program = library.program
    cache = [inputs[name].nbytes for name in cache_inputs(program) if name in inputs]
    tokens = 0
    weights, gathered, largest = 0, 0.0, 0
    for step, row in zip(program.steps, library.summary.operators):
        table = _table_rows(step)
        if not table:
            weights += row.weights_bytes
            continue
        gathered += row.weights_bytes / table
        ids = _input_name(program, step)
        if ids in inputs and row.weights_bytes > largest:
            largest, tokens = row.weights_bytes, int(inputs[ids].size)
    if not cache or not tokens:
        return None
    return DecoderTraffic(tokens, weights + round(gathered * tokens), sum(cache))


def cache_inputs(program: Program) -> list[str]:
    """Return the names of the inputs that are a cache."""
    read = {access.buffer for step in program.steps for access in step.reads}
    types = dict(zip(program.inputs, program.input_types))
    types |= dict(zip(program.outputs, program.output_types))
    origins = {buffer: {buffer} for buffer in program.inputs}  # the inputs copied to a buffer
    for step in program.steps:
        if COPYING.issuperset(node.op for node in step.group.nodes):
            copied = set().union(*(origins.get(each.buffer, ()) for each in step.reads))
            for access in step.writes:
                origins.setdefault(access.buffer, set()).update(copied)
    found = {
        source
        for result in program.outputs
        for source in (origins.get(result, ()) if result in read else ())
        if _is_cache(types[source], types[result])
    }
    return [n for n, buffer in zip(program.input_names, program.inputs) if buffer in found]


def _is_cache(before: Any, after: Any) -> bool:
    """Return whether types are those of a cache: of at least three axes, one of which may grow."""
    if before.dtype != after.dtype or not MIN_RANK <= len(before.shape) == len(after.shape):
        return False
    changed: int = sum(bool(a != b) for a, b in zip(before.shape, after.shape))
    return changed <= 1


def _table_rows(step: Step) -> int:
    """Return the rows of the constant table that a step gathers from; 0 for any other step."""
    from tvmrt.compiler.ir.extent import upper_bound

    root = step.group.root
    table = root.inputs[0] if root.op == "gather" else None
    if table is None or not table.is_constant:
        return 0
    return upper_bound(table.shape[root.attrs["axis"]])


def _input_name(program: Program, step: Step) -> str:
    """Return the name of an input that a step reads; "" if there is none."""
    names = dict(zip(program.inputs, program.input_names))
    return next((names[a.buffer] for a in step.reads if a.buffer in names), "")


def describe(speed: DecoderSpeed) -> str:
    """Return a sentence for people."""
    weights, cache = map(console.format_bytes, (speed.weights_bytes, speed.cache_bytes))
    return (
        f"{speed.tokens_per_second:,.1f} tokens/s; each reads {weights} of weights and {cache} of "
        f"cache: {speed.bytes_per_second / 1e9:.1f} GB/s"
    )
