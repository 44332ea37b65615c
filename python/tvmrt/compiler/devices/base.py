"""Interface of devices: one record that partitioning and code generation both read.

Subclass Device, set its name and override what the device needs; every method has a default.
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
from .runtime_support import missing

Code = Union[CSource, ModuleBlob]

BYTES_PER_SECOND = 8e9  # default of the transfer into or out of a region
SECONDS_PER_TRANSFER = 1e-6  # per call of a region


@dataclass(frozen=True)
class Context:
    """Properties of the network that a device generates code for.

    ``runtime`` is ``host`` (modules and shared libraries) or ``crt`` (no operating system, only C
    source). ``options``: the user's options by device name. ``board``: instruction set extensions
    of a microcontroller in addition to those of its family (``dsp``, ``mve``).
    """

    module_name: str = "default"
    target: str = "native"
    runtime: str = "host"
    executor: str = "graph"
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    board: frozenset[str] = frozenset()


class Annotation(dict[Node, Union[str, None]]):
    """Result of ``annotate`` with groups: reasons by node, and in ``groups`` the group number of
    each supported node. Nodes of different groups are never in one region."""

    def __init__(self, reasons: Mapping[Node, str | None], groups: Mapping[Node, int]) -> None:
        super().__init__(reasons)
        self.groups = dict(groups)


class Refusal(str):
    """Reason of ``evaluate`` that applies to one node of the region: the CPU gets that node, and
    the remaining nodes are offered again."""

    node: Node

    def __new__(cls, reason: str, node: Node) -> Refusal:
        """Create a refusal; ``node`` is one of ``region.nodes``."""
        text = super().__new__(cls, reason)
        text.node = node
        return text


class Device:
    """Compile-time part of a device.

    Attributes
    ----------
    name
        A letter, then letters, digits, ``_`` and ``-``, which is ``_`` in C; unique. The run-time
        part has the same name.
    patterns
        Chains of operator names, in which each node is the only reader of the node before it. If
        there are any, a node is only taken as part of a chain; ``("conv",)`` allows a single
        convolution. The longest chain that fits is used. Empty: every supported node.
    layout
        Layout of tensors at the boundaries of regions: ``dense`` (row-major), or ``channels_last``
        for tensors of rank 3 and more; a module finds the strides in its arguments. ``optimize``
        may set ``region.layout`` for a single region.
    precisions
        Reduced precisions that the device can compute in: of ``float16``, ``bfloat16``, ``int8``.
        The regions for ``optimize`` then have ``options["precision"]``.
    region_per_pattern
        Whether each chain of ``patterns`` is a region of its own; else adjacent chains share one.
    most_nodes
        Maximum number of operators of a region; None: no limit.
    single_result
        Whether a region may have only one result; larger regions are split at their results.
    version
        Version of the nodes' meaning that the default ``codegen`` writes; a run-time part with an
        older version refuses the library.
    any_size
        Whether the device supports dynamic dimensions without preparation: the sizes of a run are
        the shapes of the tensors that the region is called with. For other devices see
        ``prepares_sizes``. Shapes in the compiler are then symbolic expressions
        (``tvmrt.compiler.ir.sizes``), in a region's text their maximum and minimum.
    memory
        Memory of the device (``tvmrt.compiler.ir.DeviceMemory``) that the run-time part accepts for
        tensors of regions, in addition to host memory: tensors that only regions of this device
        access are allocated there. None: tensors are in host memory.
    real_time
        Whether regions run without allocations, locks and system calls; the option ``real_time``
        refuses regions of other devices.
    chips
        Chips that ``prepare`` compiles regions for. The device option ``chips`` selects some of
        them: a list, or their names with commas.
    hooks
        Whether firmware calls ``TVMDevice<Name>Activate/Open/Close/Deactivate(void *)`` around the
        device's regions, with the pointer that the caller of the network passes for the device.
    """

    name: str = ""
    patterns: Sequence[Sequence[str]] = ()
    layout: str = "dense"
    precisions: Sequence[str] = ()
    region_per_pattern: bool = False
    most_nodes: int | None = None
    single_result: bool = False
    version: int = 0
    any_size: bool = False
    memory: DeviceMemory | None = None
    real_time: bool = False
    hooks: bool = False
    chips: Sequence[str] = ()

    def refuses(self, context: Context) -> str | None:
        """Return None, or why the device does not support this target at all, in one sentence."""
        return None

    def absent(self) -> str | None:
        """Return None, or why this machine cannot run the device's code, in one sentence.

        The default looks for a device of this name in the runtime, unless ``codegen`` is
        overridden.
        """
        return missing(self.name) if type(self).codegen is Device.codegen else None

    def adopt(
        self, node: Any, opsets: Mapping[str, int], inputs: Sequence[Value | None]
    ) -> Sequence[TensorType]:
        """Return the result types of an ONNX node without an operator in the compiler, which the
        device then gets as ``onnx_node``. Called only for devices that override it.

        ``node`` is a NodeProto with operands named ``i0``, ``i1``, ... and results ``o0``, ``o1``,
        ...; ``opsets`` has the versions by domain.

        Raises
        ------
        UnsupportedError
            If the device cannot run the node; the text is the reason.
        """
        raise UnsupportedError(f"{self.name} does not support ONNX nodes")

    def prepares_sizes(self) -> bool:
        """Return whether regions may have dynamic dimensions although the device needs fixed ones:
        the runtime then prepares them again whenever the sizes of a run change.

        The default is whether ``codegen`` leaves regions to the runtime.
        """
        return not self.any_size and type(self).codegen is Device.codegen

    def supports(self, node: Node) -> str | None:
        """Return None if the device supports the node, else the reason, in one sentence.

        ``node.inputs[i]`` has ``shape``, ``dtype`` and, if it is constant, ``data``.
        """
        return f"{self.name} does not support {node.op}"

    def annotate(self, graph: Graph) -> dict[Node, str | None]:
        """Return the result of ``supports`` by node; an ``Annotation`` also has groups."""
        return {node: self.supports(node) for node in graph.nodes}

    def cost(self, node: Node) -> float | None:
        """Return the node's time in seconds; None if unknown. If all devices that support a node
        know it, the fastest gets the node, including transfers; else the first in user order."""
        return None

    def border_cost(self, nbytes: int) -> float:
        """Return the seconds to transfer a tensor into or out of a region."""
        return SECONDS_PER_TRANSFER + nbytes / BYTES_PER_SECOND

    def evaluate(self, region: Region) -> str | None:
        """Return None, or why the device refuses this region, which then stays on the CPU; with a
        ``Refusal`` only one node does. A region with dynamic dimensions is evaluated for the
        upper bounds, then for smaller ones if these are refused."""
        return None

    def optimize(self, region: Region) -> Region:
        """Return the region in the form that the device prefers; may change it in place. Number,
        shapes and types of inputs and outputs must not change."""
        return region

    def prepare(self, region: Region, chip: str) -> bytes:
        """Compile a region for one of ``chips`` ahead; the library has the bytes of each. A region
        in C finds them by tvmrt_region_blob(). Not called for dynamic dimensions. A chip that it
        fails for is an error; with ``device_fallback`` the region then runs on the CPU."""
        return b""

    def codegen(self, regions: Sequence[Region], context: Context) -> Code | Any:
        """Generate the code of all the network's regions on this device.

        The default passes them unchanged to the run-time device of the same name, with what
        ``prepare`` compiled.

        Returns
        -------
        CSource, ModuleBlob, or a runtime module, which is saved: type key ``c`` becomes C source,
        others a ModuleBlob.

        Raises
        ------
        ValueError, UnsupportedError or another error of the package: the compiler then names the
        device and the region, or leaves the region to the CPU if the user requested a fallback.
        """
        return region_blob(regions, self.name, self.version, context.options.get(self.name))


def as_code(result: Any, device: str) -> Code:
    """Convert the result of ``codegen`` to CSource or ModuleBlob. Raise TypeError for a module that
    cannot be saved."""
    if isinstance(result, (CSource, ModuleBlob)):
        return result
    if result.type_key == "c":
        return CSource(result.get_source(), "packed")
    return ModuleBlob(result.type_key, _save_module(result, device))


def _save_module(module: Any, device: str) -> bytes:
    """Return the bytes that the module's loader reads."""
    from tvmrt.runtime import get_global_func

    if not module.is_binary_serializable:
        raise TypeError(f"device {device}: module {module.type_key} cannot be saved")
    return bytes(get_global_func("tvmrt.ModulePayload")(module))
