"""Options of code generation, and the generated sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from tvmrt.compiler.ir import ModuleBlob, Packaged, Vendor
from tvmrt.compiler.ir.program import Buffer
from tvmrt.compiler.ir.rounding import round_up

from .c.naming import identifier
from .c.writer import Function
from .weight_blob import WeightBlob

if TYPE_CHECKING:
    from .cpu_dispatch import LevelFunctions


@dataclass(frozen=True)
class SharedImage:
    """State shared by the networks of one image: the prefix of its symbols, and the symbols of
    weights that earlier networks define, by content."""

    prefix: str
    weights: Mapping[tuple, str] = field(default_factory=dict)

    def after(self, sources: Sources) -> SharedImage:
        """Return the state for the networks that follow a network with these sources."""
        own = {content_key(b): sources.symbol_of(b) for b in sources.weight_buffers}
        return replace(self, weights={**own, **self.weights})


def content_key(buffer: Buffer) -> tuple:
    """Return a key that is equal for equal constants."""
    return str(buffer.dtype), buffer.data.tobytes()


@dataclass(frozen=True)
class Provenance:
    """Origin of a network: the hash of its file or None, its licence or "", and the options that
    differ from their defaults."""

    network_sha256: str | None = None
    licence: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """Interface of the generated code.

    ``params``: ``embed`` puts the weights into an object assembled from bytes, ``flash`` into C
    arrays; ``file`` omits them: they become inputs of the main function, or for the AOT executor of
    a board a blob whose address the program sets. ``runtime="crt"``
    generates bare-metal code, called through ``interface_api``; it owns its memory, takes it from
    the caller, or shares the memory of the ``image`` to which it belongs. ``abi="tvm-ffi"`` adds
    functions with that calling convention.

    ``provenance`` is written to the manifest.

    ``real_time``: runs stay on the thread that calls them.

    ``profile`` and ``record`` let the code record cycles of its operators and digests of its
    tensors in a ring buffer of ``trace_records`` entries (None: enough for one run).
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
    real_time: bool = False
    max_run_bytes: int = 0  # limit of a run's tensors if each run plans its memory
    provenance: Provenance = field(default_factory=Provenance)
    # class of the lines around the calls of operators: firmware/call_lines.py
    call_lines: type[Any] | None = None
    # by option: makes additional files of an exported folder from its CompiledLibrary
    folder_files: Mapping[str, Callable[[Any], Mapping[str, str]]] = field(default_factory=dict)

    @property
    def traced(self) -> bool:
        return self.profile or self.record

    @property
    def firmware(self) -> bool:
        return self.runtime == "crt"

    @property
    def weights_in_blob(self) -> bool:
        """Whether the program reads its weights from a blob, whose address it is given."""
        return self.firmware and self.executor == "aot" and self.params == "file"

    @property
    def packs_operators(self) -> bool:
        """Whether each operator has its own packed function."""
        return self.executor == "graph" or (self.firmware and not self.unpacked_api)


@dataclass(frozen=True)
class WeightPlacement:
    """Placement of constants by the memory planner, by name.

    ``resident`` has the pool and address of constants that are copied at start-up, ``sections`` the
    linker sections of constants outside the default section.
    """

    resident: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DeviceModuleConstant:
    """Constant inside a device module, at ``place`` bytes before the module's end."""

    module: ModuleBlob
    place: int


@dataclass
class Sources:
    """Everything that is written to files for one network.

    ``weight_offsets`` are the offsets of the constants in ``weights``. ``layout`` is the number
    that a blob of weights must have, if they are outside the program.

    ``resident`` are the constants that are copied to pools at start-up. ``shared`` are those that
    another network of the image defines, with their symbols. ``device_constants`` exist only in
    device modules. ``network_id`` is a hexadecimal number that distinguishes networks of one name.
    """

    files: dict[str, str] = field(default_factory=dict)
    weights: WeightBlob = field(default_factory=WeightBlob)
    weight_buffers: list[Buffer] = field(default_factory=list)
    weight_offsets: dict[Buffer, int] = field(default_factory=dict)
    layout: int = 0
    functions: list[Function] = field(default_factory=list)
    prefix: str = ""
    network_id: str = ""
    resident: list[Buffer] = field(default_factory=list)
    shared: dict[Buffer, str] = field(default_factory=dict)
    device_constants: dict[Buffer, DeviceModuleConstant] = field(default_factory=dict)
    levels: LevelFunctions | None = None  # functions by ISA level, if there are several levels
    manifest: dict[str, Any] = field(default_factory=dict)  # see manifest.py
    # additional object files by name; archives store them in codegen/host/lib
    objects: dict[str, bytes] = field(default_factory=dict)
    # regions on other devices: imported modules, compiler flags by file, linker flags
    modules: list[ModuleBlob] = field(default_factory=list)
    flags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    link_flags: list[str] = field(default_factory=list)
    # external libraries that a file calls, for builds and for packages
    vendors: dict[str, Vendor] = field(default_factory=dict)
    packaged: dict[str, Packaged] = field(default_factory=dict)

    def flash_offsets(self) -> list[int]:
        """Return the offsets of the weights as C arrays, each aligned to 16 bytes, and the end."""
        return list(accumulate((round_up(b.nbytes, 16) for b in self.weight_buffers), initial=0))

    @property
    def flash_bytes(self) -> int:
        """Size of the weights as C arrays."""
        return self.flash_offsets()[-1]

    def device_constant_symbols(self) -> dict[str, DeviceModuleConstant]:
        """Return the constants in device modules by their C symbols."""
        return {
            self.symbol_of(buffer): constant for buffer, constant in self.device_constants.items()
        }

    def symbol_of(self, buffer: Buffer) -> str:
        """Return the C array of a constant, if constants are arrays."""
        return self.shared.get(buffer) or f"{self.prefix}_w_{identifier(buffer.name)}"
