"""Vela's output for a region: the command stream, the weights, and the tensors' addresses.

Vela's file has operators ``ethos-u`` in addition to those that it left to the CPU. Their operands
are the command stream, the weights, the scratch memory, its fast part (the same tensor if there is
none), then the inputs. Addresses in the stream are relative to numbered bases, in this order:
weights, scratch memory, its fast part, and if requested all inputs and all outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmrt.error import UnsupportedError

CUSTOM = b"ethos-u"
ADDRESS_METADATA = b"OfflineMemoryAllocation"
MAGICS = (b"COP1", b"COP2")
FIRST_ADDRESS = 3  # index of the first address in the table, after version, subgraph and count


class CpuFallbackError(UnsupportedError):
    """Vela left operators to the CPU; ``names`` are the names of their results."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__("vela left operators to the CPU")
        self.names = list(names)


@dataclass(frozen=True)
class CommandStream:
    """Region for the driver. ``offsets`` are the offsets of the region's inputs, then its outputs,
    in the scratch memory. If ``is_separate``, the one input and the one output have their own
    bases."""

    commands: bytes
    weights: bytes
    scratch_bytes: int
    fast_bytes: int
    offsets: tuple[int, ...]
    is_separate: bool
    estimates: Mapping[str, str]


def read_stream(
    model: bytes, boundary: Mapping[str, int], separate: bool, estimates: Mapping[str, str]
) -> CommandStream:
    """Return the command stream of Vela's file.

    Parameters
    ----------
    borders
        Names in the file and bytes of the region's inputs, then its outputs.
    separate
        Whether Vela gave the one input and the one output their own bases.

    Raises
    ------
    Left
        If Vela left operators to the CPU.
    UnsupportedError
        If the file is not valid output for one region.
    """
    from ai_edge_litert import schema_py_generated as schema

    model_file = schema.ModelT.InitFromPackedBuf(model, 0)
    (graph,) = model_file.subgraphs
    cpu_operators = [op for op in graph.operators if not _is_stream(model_file, op)]
    if cpu_operators:
        raise CpuFallbackError([graph.tensors[op.outputs[0]].name.decode() for op in cpu_operators])
    if len(graph.operators) != 1:
        raise UnsupportedError(f"vela made {len(graph.operators)} command streams of one region")
    (operator,) = graph.operators
    payloads = [_data(model_file, graph, int(number)) for number in operator.inputs[:2]]
    _, _, scratch, fast, *inputs = map(int, operator.inputs)
    numbers = [*inputs, *map(int, operator.outputs)]
    names = [graph.tensors[number].name.decode() for number in numbers]
    if sorted(names) != sorted(boundary):
        raise UnsupportedError("vela's inputs or outputs differ from the region's")
    order = [names.index(name) for name in boundary]  # of Vela's tensors in the region
    offsets, scratch_bytes = _tensor_addresses(model_file), _bytes_of(graph, scratch)
    at = tuple(offsets[numbers[i]] - offsets[scratch] for i in order)
    if payloads[0][:4] not in MAGICS or len(payloads[0]) % 4:
        raise UnsupportedError("vela's command stream has an unknown header")
    if not separate:
        _check(at, list(boundary.values()), scratch_bytes)
    fast_bytes = _bytes_of(graph, fast) if fast != scratch else 0
    return CommandStream(
        payloads[0], payloads[1], scratch_bytes, fast_bytes, at, separate, estimates
    )


def _is_stream(model_file: Any, operator: Any) -> bool:
    return bool(model_file.operatorCodes[operator.opcodeIndex].customCode == CUSTOM)


def _bytes_of(graph: Any, number: int) -> int:
    return int(np.prod(graph.tensors[number].shape, dtype=np.int64))


def _data(model_file: Any, graph: Any, number: int) -> bytes:
    data = model_file.buffers[graph.tensors[number].buffer].data
    return b"" if data is None else bytes(data)


def _tensor_addresses(model_file: Any) -> list[int]:
    """Return each tensor's address in Vela's arena; -1 for constants."""
    for row in model_file.metadata or ():
        if row.name == ADDRESS_METADATA:
            table = np.frombuffer(bytes(model_file.buffers[row.buffer].data), "<i4")
            return [int(offset) for offset in table[FIRST_ADDRESS:]]
    raise UnsupportedError("vela's output has no tensor addresses")


def _check(at: Sequence[int], nbytes: Sequence[int], limit: int) -> None:
    """Check that tensors are inside the scratch memory."""
    for offset, count in zip(at, nbytes):
        if not 0 <= offset <= limit - count:
            raise UnsupportedError("vela placed a tensor outside its scratch memory")
