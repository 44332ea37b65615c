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
PLACES = b"OfflineMemoryAllocation"
MAGICS = (b"COP1", b"COP2")
FIRST_PLACE = 3  # index of the first address in the table, after version, subgraph and count


class Left(UnsupportedError):
    """Vela left operators to the CPU; ``names`` are the names of their results."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__("vela left operators to the CPU")
        self.names = list(names)


@dataclass(frozen=True)
class Stream:
    """Region for the driver. ``places`` are the offsets of the region's inputs, then its outputs,
    in the scratch memory. If ``is_separate``, the one input and the one output have their own
    bases."""

    commands: bytes
    weights: bytes
    scratch_bytes: int
    fast_bytes: int
    places: tuple[int, ...]
    is_separate: bool
    estimates: Mapping[str, str]


def read_stream(
    model: bytes, borders: Mapping[str, int], separate: bool, estimates: Mapping[str, str]
) -> Stream:
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

    whole = schema.ModelT.InitFromPackedBuf(model, 0)
    (graph,) = whole.subgraphs
    rest = [op for op in graph.operators if not _is_stream(whole, op)]
    if rest:
        raise Left([graph.tensors[op.outputs[0]].name.decode() for op in rest])
    if len(graph.operators) != 1:
        raise UnsupportedError(f"vela made {len(graph.operators)} command streams of one region")
    (operator,) = graph.operators
    held = [_data(whole, graph, int(number)) for number in operator.inputs[:2]]
    _, _, scratch, fast, *inputs = map(int, operator.inputs)
    numbers = [*inputs, *map(int, operator.outputs)]
    names = [graph.tensors[number].name.decode() for number in numbers]
    if sorted(names) != sorted(borders):
        raise UnsupportedError("vela computes other tensors than the region has")
    order = [names.index(name) for name in borders]  # of Vela's tensors in the region
    places, scratch_bytes = _places(whole), _bytes_of(graph, scratch)
    at = tuple(places[numbers[i]] - places[scratch] for i in order)
    if held[0][:4] not in MAGICS or len(held[0]) % 4:
        raise UnsupportedError("vela's command stream does not begin as one")
    if not separate:
        _check(at, list(borders.values()), scratch_bytes)
    fast_bytes = _bytes_of(graph, fast) if fast != scratch else 0
    return Stream(held[0], held[1], scratch_bytes, fast_bytes, at, separate, estimates)


def _is_stream(whole: Any, operator: Any) -> bool:
    return bool(whole.operatorCodes[operator.opcodeIndex].customCode == CUSTOM)


def _bytes_of(graph: Any, number: int) -> int:
    return int(np.prod(graph.tensors[number].shape, dtype=np.int64))


def _data(whole: Any, graph: Any, number: int) -> bytes:
    data = whole.buffers[graph.tensors[number].buffer].data
    return b"" if data is None else bytes(data)


def _places(whole: Any) -> list[int]:
    """Return each tensor's address in Vela's arena; -1 for constants."""
    for row in whole.metadata or ():
        if row.name == PLACES:
            table = np.frombuffer(bytes(whole.buffers[row.buffer].data), "<i4")
            return [int(place) for place in table[FIRST_PLACE:]]
    raise UnsupportedError("vela's file has no addresses of tensors")


def _check(at: Sequence[int], nbytes: Sequence[int], most: int) -> None:
    """Check that tensors are inside the scratch memory."""
    for place, count in zip(at, nbytes):
        if not 0 <= place <= most - count:
            raise UnsupportedError("vela let a tensor lie outside of its scratch memory")
