"""A firmware network as a library in the package format of an ecosystem.

Each package contains the C files of the network, the headers that they include, an example, and the
format's metadata. The sources are equal in all formats; a Format describes the differences.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tvmrt.compiler.sdk.codegen import (
    firmware_header_name,
    input_tensors,
    io_in_pools,
    output_tensors,
)
from tvmrt.compiler.sdk.codegen import operator_header_name as header_name
from tvmrt.compiler.sdk.export import ERRORS, runtime_headers, runtime_sources, vendor_copies
from tvmrt.compiler.sdk.graph import kernel_record
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import Unquoted, option, options
from tvmrt.plugin import Exporter
from tvmrt.plugins.packages.texts import TENSOR_ALIGN_BYTES, Package, texts


@dataclass(frozen=True)
class Format(Exporter):
    """Package format.

    Parameters
    ----------
    kind
        Its name for ``--format``, and the folder of its templates.
    src, include
        The folders of the C files and of the headers.
    names
        Whether its metadata can reference libraries called by device code; otherwise copied.
    """

    kind: str
    src: str
    include: str
    names: bool = False

    def export(self, library, path: Path) -> None:
        """Write the package into a folder. Raises the errors of :func:`package_files`."""
        manifest = json.dumps(library.manifest, indent=2) + "\n"
        files = {**package_files(library, self), "manifest.json": manifest}
        for name, text in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text, encoding="utf-8")


ZEPHYR = Format("zephyr", "src", "include", names=True)
ARDUINO = Format("arduino", "src", "src")
PLATFORMIO = Format("platformio", "src", "include")
ESP_IDF = Format("esp-idf", "src", "include")
CMSIS_PACK = Format("cmsis-pack", "src", "include", names=True)
# Runtime functions called by the C code of devices and custom operators; packages provide _HAS.
_CALLS = re.compile(r"\bTVM\w+(?=\()")
_HAS = {"TVMAPISetLastError"}


def package_files(library, row: Format) -> dict[str, str]:
    """Return the texts of a package by path.

    Raises ValueError for a network without the C interface, and UnsupportedError for code that a
    package cannot build or call. Raises CompileError if a vendor's C code must be copied and the
    environment does not name its folder.
    """
    _check(library)
    files = {}
    for name, text in sorted(library.sources.files.items()):
        folder = row.include if name.endswith(".h") else row.src
        files[f"{folder}/{name}"] = text
    _add_called(library, row, files)
    for name, text in sorted(runtime_headers(list(files.values()), library.target).items()):
        files[f"{row.include}/{name}"] = text
    files.update(texts(_package(library, files), row.kind))
    return files


def _check(library) -> None:
    if not library.options.firmware or library.options.interface_api != "c":
        raise ValueError(
            options(
                "a package needs the C interface; add {interface_api=c}, and {target} or {board} "
                "for the processor"
            )
        )
    if library.sources.objects or any(library.sources.flags.values()):
        raise UnsupportedError(
            "packages cannot build objects or C files with extra compiler options, which custom "
            "operators or devices of the network have; write a .tar"
        )
    if (
        any(pool.is_external for pool in library.program.pools)
        or library.program.has_dynamic_dims()
    ):
        raise UnsupportedError(
            "the example of a package passes only inputs and outputs; place the pools in the "
            f"image ({option('pools', {'NAME': (Unquoted('BYTES'), 'SECTION')})}), fix dimensions "
            f"with {option('shapes')}, or write a .tar"
        )
    if library.options.weights_in_blob:
        raise UnsupportedError(
            f"the example of a package has its weights in the program; choose "
            f"{option('params', 'flash')}, or write a .tar"
        )
    called = {name for text in _foreign(library).values() for name in _CALLS.findall(text)} - _HAS
    if called:
        raise UnsupportedError(
            f"code of custom operators or devices in the network calls {min(called)}() of the "
            "runtime, which packages do not contain; write a .tar"
        )


def _foreign(library) -> dict[str, str]:
    """Return external code, of custom operators or devices, by file name."""
    records = (kernel_record(step.group.root) for step in library.program.steps)
    bodies = {header_name(record) for record in records if record is not None}
    return {name: library.sources.files[name] for name in (*library.sources.flags, *bodies)}


def _add_called(library, row: Format, files: dict[str, str]) -> None:
    """Add the code that devices call: error functions, and vendors' code if it must be copied."""
    sources = library.sources
    texts = _foreign(library)
    if any(name in _CALLS.findall(text) for text in texts.values() for name in _HAS):
        errors = runtime_sources([ERRORS])
        files.update({f"{row.src}/runtime/{name}": text for name, text in errors.items()})
    vendors = {
        vendor: None
        for name, vendor in sources.vendors.items()
        if not (row.names and name in sources.packaged)
    }
    for vendor in vendors:
        headers, code = vendor_copies(vendor)
        files.update({f"{row.include}/{name}": text for name, text in headers.items()})
        own = f"{row.src}/{vendor.variable.lower()}"
        files.update({f"{own}/{name}": text for name, text in code.items()})


def _package(library, files: Mapping[str, str]) -> Package:
    prefix, program = library.sources.prefix, library.program
    needs = list(dict.fromkeys(library.sources.packaged.values()))
    name = re.sub(r"[^A-Za-z0-9]+", "_", f"{library.module_name}_network").strip("_")
    return Package(
        name, firmware_header_name(prefix), prefix,
        library.options.origin or library.module_name,
        {t.member: t.type.nbytes for t in input_tensors(program)},
        {t.member: t.type.nbytes for t in output_tensors(program)},
        sorted(f for f in files if f.endswith(".c")),
        sorted(f for f in files if f.endswith(".h")),
        "-mfloat-abi=hard" in library.target.flags,
        needs, max([TENSOR_ALIGN_BYTES, *(each.align_bytes for each in needs)]),
        io_in_pools(program),
    )  # fmt: skip
