"""Regions: parts of a network that a device computes, each one node with a graph inside.

The node's only attribute is ``region``, a Region. Its inputs are the region's inputs in order, its
outputs the region's outputs; constants lie inside. With ``reports_failure`` the node has one more
output, a bool scalar: whether the device failed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .contract import Contract
from .dtype import DTYPES
from .extent import Symbol
from .graph import Graph, Node, TensorType, Value
from .op import Op, register

POINTERS, PACKED = "pointers", "packed"
DENSE_LAYOUT, CHANNELS_LAST_LAYOUT = "dense", "channels_last"


def digest_of(array: np.ndarray) -> bytes:
    """What the bytes of an array's elements in order are known by."""
    plain = np.ascontiguousarray(array).reshape(-1)
    data = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(data.view(np.uint8).data).digest()


# What a packed function takes, as C declares it; see c_packed_func.h.
_PACKED = (
    ("TVMValue *", "args"),
    ("int *", "type_codes"),
    ("int ", "num_args"),
    ("TVMValue *", "out_ret_value"),
    ("int *", "out_ret_tcode"),
    ("void *", "resource_handle"),
)
PACKED_NAMES = tuple(name for _, name in _PACKED)
PACKED_PARAMETERS = tuple(kind + name for kind, name in _PACKED)


@dataclass(frozen=True)
class DeviceMemory:
    """Memory of a device's own, in which tensors of its regions may lie: type and number of the
    memory device as DLPack has them. ``name`` is what people and code call it."""

    name: str
    type: int
    number: int = 0
    align_bytes: int = 64

    @property
    def c(self) -> str:
        """The DLDevice in C."""
        return f"{{(DLDeviceType){self.type}, {self.number}}}"


@dataclass(frozen=True)
class Needs:
    """What the C function of a region (``pointers``) takes behind its tensors: a pointer to each of
    ``constants``, which become weights of the network, and ``uint8_t *`` to ``scratch_bytes`` of
    the network's memory, if there are any. ``channels_last``: its tensors of rank 3 and more have
    channels innermost, or those of its inputs, then outputs, for which it is true."""

    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    scratch_bytes: int = 0
    channels_last: bool | Sequence[bool] = False

    def is_last(self, index: int) -> bool:
        """Whether the tensor of that number has channels innermost."""
        if isinstance(self.channels_last, bool):
            return self.channels_last
        return index < len(self.channels_last) and self.channels_last[index]


@dataclass(frozen=True)
class Vendor:
    """C that the code of a device calls and that the user has: whoever builds an archive names the
    folder that it lies in by ``variable``. Below it are ``include`` with ``header``, and
    ``sources`` as patterns of ``make``, but for what the patterns ``excluded`` match."""

    variable: str
    title: str
    include: str
    header: str
    sources: tuple[str, ...]
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True)
class Packaged:
    """The same as projects of ecosystems name it: ``kconfig`` are options of Zephyr, ``component``
    the Cclass, Cgroup and, where it has one, Csub of a component of CMSIS packs, ``pack`` vendor
    and name of the one that has it. Tensors of what calls it begin at ``align_bytes``."""

    kconfig: tuple[str, ...]
    component: tuple[str, ...]
    pack: tuple[str, str]
    align_bytes: int = 8


@dataclass(frozen=True)
class CSource:
    """C99 text that defines a function for each region, compiled with the network.

    With ``entry`` ``pointers`` that of a region is ``int32_t <symbol>(const T *in0, ..., T *out0,
    ...)``, with ``packed`` a packed function of the same name over DLTensors: inputs, then outputs.
    Tensors are dense and row-major. It returns 0, or -1 after TVMAPISetLastError(). ``flags`` go to
    the C compiler for this text alone, ``link_flags`` to the linker. ``needs`` has by symbol what a
    function with pointers wants besides tensors; ``vendor`` is what archives are built with,
    ``packaged`` what packages name, and ``notes`` by symbol what it says of its regions, their size
    or time.
    """

    text: str
    entry: str = POINTERS
    flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    needs: Mapping[str, Needs] = field(default_factory=dict, compare=False)
    vendor: Vendor | None = None
    packaged: Packaged | None = None
    notes: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return f"C source of {self.text.count(chr(10))} lines"


@dataclass(frozen=True)
class ModuleBlob:
    """A runtime module that the network's library imports.

    ``payload`` is what the loader ``runtime.module.loadbinary_<type_key>`` reads. The module
    answers every region's symbol by a packed function over DLTensors: inputs, then outputs.
    ``aligned`` makes of the payload and the place of its first byte one whose data lie at the
    multiples that its loader likes. ``constants`` tells by their digests (``digest_of``) which
    constants lie in it, and how many bytes in front of its end each begins.
    """

    type_key: str
    payload: bytes
    aligned: Callable[[bytes, int], bytes] | None = None
    constants: Mapping[bytes, int] = field(default_factory=dict, compare=False)

    def payload_at(self, place: int) -> bytes:
        """The payload where it begins so many bytes behind a multiple of 64."""
        return self.payload if self.aligned is None else self.aligned(self.payload, place)

    def __str__(self) -> str:
        return f"module {self.type_key} of {len(self.payload)} bytes"


@dataclass(eq=False)
class Region:
    """A part of the network for one device.

    ``graph`` has inputs, outputs and constants of its own; its nodes keep the names of the
    network's nodes in ``sources``. ``code`` is there once the device has generated it.
    ``onnx_nodes`` are the network's nodes that it stands for, whatever the device made of them.
    ``sizes`` are the dimensions that a run chooses where the device is prepared for each size: its
    module's function takes them behind the tensors, as one tensor of int64. ``memory`` is where
    its tensors may lie beside the host's memory. ``stands_for`` are the compiler's nodes
    of which the device has made those of ``graph``. ``settings`` are the options that the user gave
    for the device. ``note`` says what else people should know of it.
    """

    device: str
    symbol: str
    graph: Graph
    layout: str = DENSE_LAYOUT
    reports_failure: bool = False
    hooks: bool = False  # whether firmware calls the device's hooks around it
    code: CSource | ModuleBlob | None = None
    onnx_nodes: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    sizes: tuple[Symbol, ...] = ()
    memory: DeviceMemory | None = None
    stands_for: tuple[Node, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def nodes(self) -> list[Node]:
        return self.graph.nodes

    @property
    def inputs(self) -> list[Value]:
        return self.graph.inputs

    @property
    def outputs(self) -> list[Value]:
        return self.graph.outputs

    @property
    def name(self) -> str:
        """A readable name: the device's and the network's first node in it."""
        first = self.onnx_nodes[0] if self.onnx_nodes else self.symbol
        return f"{self.device}_{first}"

    def __str__(self) -> str:
        ops = ", ".join(node.op for node in self.nodes)
        code = f"; {self.code}" if self.code is not None else ""
        return f"{self.symbol} on {self.device} ({ops}{code})"


@register("region")
class RegionOp(Op):
    """A region of the network, see the head of this file."""

    contract = Contract("inputs*: any[*]", "region: object")

    def results(self, known: Mapping[str, Any]) -> list[TensorType]:
        region: Region = known["region"]
        types, wanted = known["inputs"], [v.type for v in region.inputs]
        if list(types) != wanted:
            raise ValueError(
                f"region {region.symbol} takes {', '.join(map(str, wanted))}, "
                f"not {', '.join(map(str, types))}"
            )
        failed = [TensorType((), DTYPES["bool"])] if region.reports_failure else []
        return [*(v.type for v in region.outputs), *failed]


def regions_of(graph: Graph) -> list[Region]:
    """The regions in the order of their nodes."""
    return [node.attrs["region"] for node in graph.nodes if node.op == "region"]
