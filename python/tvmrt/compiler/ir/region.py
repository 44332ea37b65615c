"""Regions: parts of a network that a device computes, each one node with an inner graph.

The node's only attribute is ``region``, a Region. Its inputs and outputs are those of the region in
order; constants are inside. With ``reports_failure`` the node has one more output, a bool scalar:
whether the device failed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .contract import Contract
from .dtype import DTYPES
from .graph import Graph, Node, Value
from .op import Op, register
from .sizes import Symbol
from .tensor_type import TensorType

POINTERS, PACKED = "pointers", "packed"
DENSE_LAYOUT, CHANNELS_LAST_LAYOUT = "dense", "channels_last"


def digest_of(array: np.ndarray) -> bytes:
    """Return a hash of the bytes of an array's elements in row-major order."""
    contiguous = np.ascontiguousarray(array).reshape(-1)
    data = contiguous.astype(contiguous.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(data.view(np.uint8).data).digest()


# Parameters of a packed function in C; see c_packed_func.h.
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
    """Memory of a device that may hold tensors of its regions: type and number of the memory device
    as in DLPack. ``name`` is its name in reports and code."""

    name: str
    type: int
    number: int = 0
    align_bytes: int = 64

    @property
    def c(self) -> str:
        """DLDevice in C."""
        return f"{{(DLDeviceType){self.type}, {self.number}}}"


@dataclass(frozen=True)
class Needs:
    """Parameters of a region's C function (``pointers``) after its tensors: a pointer to each of
    ``constants``, which become weights of the network, and ``uint8_t *`` to ``scratch_bytes`` of
    the network's memory, if any. ``channels_last``: tensors of rank 3 and more have channels
    innermost; a sequence sets this for each input, then each output."""

    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    scratch_bytes: int = 0
    channels_last: bool | Sequence[bool] = False

    def is_last(self, index: int) -> bool:
        """Return whether the tensor of that number has channels innermost."""
        if isinstance(self.channels_last, bool):
            return self.channels_last
        return index < len(self.channels_last) and self.channels_last[index]


@dataclass(frozen=True)
class Vendor:
    """C library of a vendor that a device's code calls and the user provides. The make variable
    ``variable`` has its folder when an archive is built. Below it are the ``include`` folder with
    ``header``, and ``sources``, patterns of ``make``, except for matches of ``excluded``."""

    variable: str
    title: str
    include: str
    header: str
    sources: tuple[str, ...]
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True)
class Packaged:
    """Names of a vendor library in package ecosystems. ``kconfig``: options of Zephyr.
    ``component``: Cclass, Cgroup and optional Csub of a CMSIS-Pack component; ``pack``: vendor and
    name of its pack. Tensors passed to the library are aligned to ``align_bytes``."""

    kconfig: tuple[str, ...]
    component: tuple[str, ...]
    pack: tuple[str, str]
    align_bytes: int = 8


@dataclass(frozen=True)
class CSource:
    """C99 text that defines a function for each region, compiled with the network.

    ``entry`` ``pointers``: ``int32_t <symbol>(const T *in0, ..., T *out0, ...)``. ``packed``: a
    packed function of that name over DLTensors, inputs, then outputs. Tensors are dense and
    row-major. The function returns 0, or -1 after TVMAPISetLastError(). ``flags`` are passed to the
    C compiler for this text only, ``link_flags`` to the linker. ``needs``: further parameters of a
    function with pointers, by symbol. ``vendor``: library that archives are built with;
    ``packaged``: its names in packages. ``notes``: remarks on regions, such as size or time, by
    symbol.
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
    """Runtime module that the network's library imports.

    The loader ``runtime.module.loadbinary_<type_key>`` reads ``payload``. The module has a packed
    function for every region's symbol over DLTensors: inputs, then outputs. ``aligned`` takes the
    payload and the offset of its first byte; it returns a payload whose data have the alignment
    that the loader prefers. ``constants``: the constants in the payload, as the distance in bytes
    of their start from its end, by digest (``digest_of``).
    """

    type_key: str
    payload: bytes
    aligned: Callable[[bytes, int], bytes] | None = None
    constants: Mapping[bytes, int] = field(default_factory=dict, compare=False)

    def payload_at(self, place: int) -> bytes:
        """Return the payload for a start at ``place`` bytes after a multiple of 64."""
        return self.payload if self.aligned is None else self.aligned(self.payload, place)

    def __str__(self) -> str:
        return f"module {self.type_key} of {len(self.payload)} bytes"


@dataclass(eq=False)
class Region:
    """Part of the network for one device.

    ``graph`` has its own inputs, outputs and constants; its nodes keep the names of the network's
    nodes in ``sources``. ``code`` is set after the device has generated it. ``onnx_nodes``: the
    network's nodes that it stands for, whatever the device replaced them by. ``sizes``: dimensions
    that a run chooses, if the device is prepared for each size; its module's function takes them
    after the tensors as one int64 tensor. ``memory``: memory for its tensors in addition to the
    host's. ``stands_for``: the compiler's nodes that the device replaced by those of ``graph``.
    ``settings``: the user's options for the device. ``note``: a remark for reports. ``blobs``:
    bytes of the region by chip, compiled ahead.
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
    blobs: Mapping[str, bytes] = field(default_factory=dict)

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
        """Readable name: the device's and that of the first node of the network in it."""
        first = self.onnx_nodes[0] if self.onnx_nodes else self.symbol
        return f"{self.device}_{first}"

    def __str__(self) -> str:
        ops = ", ".join(node.op for node in self.nodes)
        code = f"; {self.code}" if self.code is not None else ""
        return f"{self.symbol} on {self.device} ({ops}{code})"


@register("region")
class RegionOp(Op):
    """Region of the network that a device computes."""

    contract = Contract("inputs*: any[*]", "region: object")

    def results(self, bindings: Mapping[str, Any]) -> list[TensorType]:
        region: Region = bindings["region"]
        types, expected = bindings["inputs"], [v.type for v in region.inputs]
        if list(types) != expected:
            raise ValueError(
                f"region {region.symbol} takes {', '.join(map(str, expected))}, "
                f"not {', '.join(map(str, types))}"
            )
        failed = [TensorType((), DTYPES["bool"])] if region.reports_failure else []
        return [*(v.type for v in region.outputs), *failed]


def region_of(node: Node) -> Region | None:
    """Return the region that a node stands for; None for a node of another operator."""
    return node.attrs["region"] if node.op == "region" else None


def regions_of(graph: Graph) -> list[Region]:
    """Return the regions in the order of their nodes."""
    regions = map(region_of, graph.nodes)
    return [region for region in regions if region is not None]
