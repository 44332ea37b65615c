"""What a device is to the compiler: one record that partitioning and code generation both read.

Subclass Device, give it a name and fill what the device needs; every method has a default.
Operators are those of ``tvmrt.compiler.ir``, their attributes are in its docstrings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from tvmrt.compiler.ir import (
    CSource,
    DeviceMemory,
    Graph,
    ModuleBlob,
    Node,
    Region,
    TensorType,
    Value,
)
from tvmrt.error import UnsupportedError

from .region_json import region_blob
from .runtime_half import missing

Code = Union[CSource, ModuleBlob]

BYTES_PER_SECOND = 8e9  # of a copy over a border, where a device says nothing else
SECONDS_PER_BORDER = 1e-6  # of the call of a region


@dataclass(frozen=True)
class Context:
    """What a device may know about the network that it generates code for.

    ``runtime`` is ``host`` (modules and shared libraries) or ``crt`` (no operating system: C source
    alone). ``options`` has those that the user gave for each device, by its name, ``board`` the
    instructions that a microcontroller has beside its family's least (``dsp``, ``mve``).
    """

    module_name: str = "default"
    target: str = "native"
    runtime: str = "host"
    executor: str = "graph"
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    board: frozenset[str] = frozenset()


class Annotation(dict[Node, Union[str, None]]):
    """What ``annotate`` returns where nodes shall be together: the reasons by node, and in
    ``groups`` the number of each taken node's group. Those of different groups share no region."""

    def __init__(self, reasons: Mapping[Node, str | None], groups: Mapping[Node, int]) -> None:
        super().__init__(reasons)
        self.groups = dict(groups)


class Refusal(str):
    """A reason of ``evaluate`` that holds for one node of the region: that node is lost, and the
    rest is offered again."""

    node: Node

    def __new__(cls, reason: str, node: Node) -> Refusal:
        """``node`` is one of ``region.nodes``."""
        text = super().__new__(cls, reason)
        text.node = node
        return text


class Device:
    """The compile-time half of a device.

    Attributes
    ----------
    name
        A letter, then letters, digits, ``_`` and ``-``, for which C has ``_``; unique. The run-time
        half has the same.
    patterns
        Chains of operator names, each reading the result of the one before, which nobody else
        reads. Where there are any, a node is taken only as part of a chain; ``("conv",)`` lets a
        convolution be taken alone. The longest chain that fits wins. None: every supported node.
    layout
        How tensors lie at the borders of regions: ``dense`` (row-major), or ``channels_last`` for
        tensors of rank 3 and more; a module then finds the strides in its arguments.
    layout_alone
        The same for a region that meets the network's own inputs and outputs alone, which are
        dense; None: as ``layout``.
    precisions
        What the device can compute in besides the network's own types: of ``float16``,
        ``bfloat16``, ``int8``. Regions that ``optimize`` gets then have ``options["precision"]``.
    region_per_pattern
        Whether each chain of ``patterns`` is a region of its own; else neighbours share one.
    most_nodes
        How many operators a region has at most; None: as many as lie together.
    single_result
        Whether a region may have one result only; larger ones are cut where results leave them.
    version
        Version of the nodes' meaning that the default ``codegen`` writes; a run-time half that
        knows an older one refuses the library.
    any_size
        Whether the device needs no preparation for extents that a run chooses: those of a run are
        the shapes of the tensors that the region is called with. Of another device, see
        ``prepares_sizes``. Shapes in the compiler are then expressions
        (``tvmrt.compiler.ir.extent``), in a region's text their most with the least beside it.
    memory
        Memory of the device's own (``tvmrt.compiler.ir.DeviceMemory``), in which the run-time half
        takes tensors of regions beside the host's: what only regions of this device touch then lies
        there. None: tensors lie in the host's memory.
    hooks
        Whether firmware calls ``TVMDevice<Name>Activate/Open/Close/Deactivate(void *)`` around the
        device's regions, with the pointer that the caller of the network passes for the device.
    """

    name: str = ""
    patterns: Sequence[Sequence[str]] = ()
    layout: str = "dense"
    layout_alone: str | None = None
    precisions: Sequence[str] = ()
    region_per_pattern: bool = False
    most_nodes: int | None = None
    single_result: bool = False
    version: int = 0
    any_size: bool = False
    memory: DeviceMemory | None = None
    hooks: bool = False

    def refuses(self, context: Context) -> str | None:
        """None, or why the device cannot serve this target at all, in one sentence."""
        return None

    def absent(self) -> str | None:
        """None, or why this machine cannot run what the device computes, in one sentence.

        The default asks the runtime for a device of the same name, unless ``codegen`` makes
        something else of regions than such a device runs.
        """
        return missing(self.name) if type(self).codegen is Device.codegen else None

    def adopt(
        self, node: Any, opsets: Mapping[str, int], inputs: Sequence[Value | None]
    ) -> Sequence[TensorType]:
        """The types of the results of an ONNX node that no operator means, which the device then
        gets as ``onnx_node``; only asked of devices that have this method of their own.

        ``node`` is a NodeProto whose operands are named ``i0``, ``i1``, ... and whose results
        ``o0``, ``o1``, ...; ``opsets`` has the versions by their domains.

        Raises
        ------
        UnsupportedError
            If it cannot run the node; the text is the reason.
        """
        raise UnsupportedError(f"{self.name} takes no nodes as they are")

    def prepares_sizes(self) -> bool:
        """Whether regions may have extents that a run chooses although the device takes fixed ones:
        the runtime then prepares them again whenever a run brings others.

        The default is whether ``codegen`` leaves regions to the runtime.
        """
        return not self.any_size and type(self).codegen is Device.codegen

    def supports(self, node: Node) -> str | None:
        """None if the device takes the node, else the reason, in one sentence.

        ``node.inputs[i]`` has ``shape``, ``dtype`` and, if it is constant, ``data``.
        """
        return f"{self.name} takes no {node.op}"

    def annotate(self, graph: Graph) -> dict[Node, str | None]:
        """What ``supports`` says of every node of the graph; an ``Annotation`` has groups, too."""
        return {node: self.supports(node) for node in graph.nodes}

    def cost(self, node: Node) -> float | None:
        """Seconds that the node takes here; None if unknown. Where all devices that take a node
        know, the cheapest gets it, borders included; else the first in the user's order."""
        return None

    def border_cost(self, nbytes: int) -> float:
        """Seconds that a tensor takes into or out of a region."""
        return SECONDS_PER_BORDER + nbytes / BYTES_PER_SECOND

    def evaluate(self, region: Region) -> str | None:
        """None, or why the device does not want this region, which then returns to the CPU; of a
        ``Refusal`` the one node alone. Of a region whose extents a run chooses, the question is
        about the largest, then about smaller ones if these are refused."""
        return None

    def optimize(self, region: Region) -> Region:
        """The region in the form that the device likes best; may change it in place. Its inputs
        and outputs keep their number, shapes and types."""
        return region

    def codegen(self, regions: Sequence[Region], context: Context) -> Code | Any:
        """The code of all the network's regions on this device.

        The default hands them, as they are, to the run-time device of the same name.

        Returns
        -------
        CSource, ModuleBlob, or a runtime module, which is saved: one of type key ``c`` becomes C
        source, others a ModuleBlob.

        Raises
        ------
        ValueError, UnsupportedError or another of the package's errors: the compiler then names
        the device and the region, or leaves the region to the CPU if the user asked for that.
        """
        options = context.options.get(self.name)
        return region_blob(regions, self.name, self.version, options)


def as_code(result: Any, device: str) -> Code:
    """Return what ``codegen`` gave as CSource or ModuleBlob. Raises TypeError for a module that
    cannot be saved."""
    if isinstance(result, (CSource, ModuleBlob)):
        return result
    if result.type_key == "c":
        return CSource(result.get_source(), "packed")
    return ModuleBlob(result.type_key, _saved(result, device))


def _saved(module: Any, device: str) -> bytes:
    """The bytes that the module's loader reads."""
    from tvmrt.runtime import get_global_func

    if not module.is_binary_serializable:
        raise TypeError(f"device {device}: module {module.type_key} cannot be saved")
    packed = bytes(get_global_func("tvmrt.ModulePackImports")(module))
    # length, number of modules, then the type key of the first and what it saves
    place = 16
    length = int.from_bytes(packed[place : place + 8], "little")
    place += 8 + length
    return packed[place : _tree_begin(packed, place)]


def _tree_begin(packed: bytes, place: int) -> int:
    """Where the table of imports begins, which a single module may do without."""
    mark = len(b"_import_tree").to_bytes(8, "little") + b"_import_tree"
    found = packed.rfind(mark, place)
    return len(packed) if found < 0 else found
