"""What vela made of a region: the command stream, the weights, and where tensors lie.

A file of vela's has operators ``ethos-u`` beside those that it left to the CPU. The operands of
one are the command stream, the weights, the scratch memory, its fast part (the same tensor where
there is none), then the inputs. Addresses in the stream count from bases by number, in that order:
weights, scratch memory, its fast part, and where these are asked for, all inputs, all outputs.
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
FIRST_PLACE = 3  # of the table of places, behind its version, a subgraph and their number


class Left(UnsupportedError):
    """vela left operators to the CPU; ``names`` are those of their results."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__("vela left operators to the CPU")
        self.names = list(names)


@dataclass(frozen=True)
class Stream:
    """A region for the driver. ``places`` has where in the scratch memory the region's inputs, then
    its outputs, lie; where ``is_separate`` the one input and the one output have bases of their own
    instead."""

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
    """The one command stream of a file of vela's.

    Parameters
    ----------
    borders
        The region's inputs, then its outputs: their names in the file, and bytes.
    separate
        Whether vela gave the one input and the one output bases of their own.

    Raises
    ------
    Left
        If vela left operators to the CPU.
    UnsupportedError
        If the file is not what vela writes of a region.
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
    order = [names.index(name) for name in borders]  # of vela's in the region
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
    """Where each tensor lies in the arena that vela plans; -1 for constants."""
    for row in whole.metadata or ():
        if row.name == PLACES:
            table = np.frombuffer(bytes(whole.buffers[row.buffer].data), "<i4")
            return [int(place) for place in table[FIRST_PLACE:]]
    raise UnsupportedError("vela's file has no addresses of tensors")


def _check(at: Sequence[int], nbytes: Sequence[int], most: int) -> None:
    """That tensors lie in the scratch memory."""
    for place, count in zip(at, nbytes):
        if not 0 <= place <= most - count:
            raise UnsupportedError("vela let a tensor lie outside of its scratch memory")
