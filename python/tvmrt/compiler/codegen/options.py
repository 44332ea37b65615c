"""What the generated code must look like, and what is generated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tvmrt.compiler.ir import ModuleBlob, Packaged, Vendor
from tvmrt.compiler.ir.program import Buffer
from tvmrt.compiler.ir.rounding import round_up

from .c.naming import identifier
from .c.writer import Function
from .weight_bytes import WeightBytes

if TYPE_CHECKING:
    from .levels import Levels


@dataclass(frozen=True)
class SharedImage:
    """What several networks of one image have between them: the prefix of its symbols, and by
    their content the symbols of the weights that the networks before one have."""

    prefix: str
    weights: Mapping[tuple, str] = field(default_factory=dict)

    def after(self, sources: Sources) -> SharedImage:
        """The same for those that come after a network of these sources."""
        own = {content_key(b): sources.symbol_of(b) for b in sources.weight_buffers}
        return replace(self, weights={**own, **self.weights})


def content_key(buffer: Buffer) -> tuple:
    """What equal constants have in common."""
    return str(buffer.dtype), buffer.data.tobytes()


@dataclass(frozen=True)
class Provenance:
    """Where a network comes from: the hash of its file, None where it has none, its licence, ""
    where it does not say, and the options that differ from what goes without saying."""

    network_sha256: str | None = None
    licence: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """What the generated code must look like from outside.

    ``params``: ``embed`` puts the weights into an object assembled from bytes, ``flash`` into C
    arrays, ``file`` leaves them out: they become inputs of the main function. ``runtime`` ``crt``
    makes code for machines without an operating system, called by ``interface_api``; its memory is
    its own, the caller's, or that of the ``image`` of several networks, of which it is one. ``abi``
    ``tvm-ffi`` adds functions of that calling convention.

    ``provenance`` goes into the manifest.

    ``profile`` and ``record`` let the code note the cycles of its operators and digests of its
    tensors, in a ring of ``trace_records`` (None: enough for one run).
    """

    module_name: str = "default"
    executor: str = "graph"
    params: str = "embed"
    origin: str = ""
    runtime: str = "host"
    interface_api: str = "packed"
    unpacked_api: bool = False
    profile: bool = False
    record: bool = False
    trace_records: int | None = None
    image: SharedImage | None = None
    abi: str = "packed"
    provenance: Provenance = field(default_factory=Provenance)

    @property
    def traced(self) -> bool:
        return self.profile or self.record

    @property
    def firmware(self) -> bool:
        return self.runtime == "crt"

    @property
    def packs_operators(self) -> bool:
        """Whether each operator has a packed function of its own."""
        return self.executor == "graph" or (self.firmware and not self.unpacked_api)


@dataclass(frozen=True)
class WeightPlaces:
    """Where planning memory puts constants, by their names.

    ``resident`` has pool and address of those that are copied at the start, ``sections`` the
    linker's sections of those that do not lie with the others.
    """

    resident: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HeldConstant:
    """A constant that a device's module holds: how far in front of the module's end it begins."""

    module: ModuleBlob
    place: int


@dataclass
class Sources:
    """Everything that is written to files for one network.

    ``resident`` are the constants that are copied to pools at the start, ``shared`` those that
    another network of the image has, with its symbols for them. ``held`` lie in the modules of
    devices alone. ``number`` tells the network from others of its name, in digits.
    """

    files: dict[str, str] = field(default_factory=dict)
    weights: WeightBytes = field(default_factory=WeightBytes)
    weight_buffers: list[Buffer] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    prefix: str = ""
    number: str = ""
    resident: list[Buffer] = field(default_factory=list)
    shared: dict[Buffer, str] = field(default_factory=dict)
    held: dict[Buffer, HeldConstant] = field(default_factory=dict)
    levels: Levels | None = None  # the functions of levels of processors, where there are several
    manifest: dict[str, Any] = field(default_factory=dict)  # what manifest.py describes
    # compiled parts that come with it, by file name; archives carry them in codegen/host/lib
    objects: dict[str, bytes] = field(default_factory=dict)
    # of regions on other devices: modules to import, flags by file, flags for the linker
    modules: list[ModuleBlob] = field(default_factory=list)
    flags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    link_flags: list[str] = field(default_factory=list)
    # what a file's code calls, for those who build, and for packages
    vendors: dict[str, Vendor] = field(default_factory=dict)
    packaged: dict[str, Packaged] = field(default_factory=dict)

    @property
    def flash_bytes(self) -> int:
        """What the weights take as C arrays, of which each begins at a multiple of 16 bytes."""
        return sum(round_up(b.nbytes, 16) for b in self.weight_buffers)

    def held_symbols(self) -> dict[str, HeldConstant]:
        """The constants in modules of devices by the names that the code has for them."""
        return {self.symbol_of(buffer): held for buffer, held in self.held.items()}

    def symbol_of(self, buffer: Buffer) -> str:
        """The C array of a constant, where constants are arrays."""
        return self.shared.get(buffer) or f"{self.prefix}_w_{identifier(buffer.name)}"
