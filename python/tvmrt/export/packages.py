"""A firmware network as a library in the form that a project of some ecosystem takes.

All of them have the C files of the network, the headers that these include, an example that calls
it, and the metadata of their kind. Sources are the same in each; what differs is a row of FORMATS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tvmrt.error import UnsupportedError

from .firmware_build import runtime_headers
from .package_texts import texts


@dataclass(frozen=True)
class Package:
    """What the texts of a package are made of. Paths are below the package's folder."""

    name: str  # of the package, words of letters and digits joined by underscores
    header: str  # that a program includes
    prefix: str  # of the network's C names
    origin: str  # the network, in words
    inputs: Mapping[str, int]  # bytes by member
    outputs: Mapping[str, int]
    sources: list[str]
    headers: list[str]
    hard_floats: bool  # whether the processor computes them


@dataclass(frozen=True)
class Format:
    """``src`` and ``include``: the folders of the C files and of the headers."""

    src: str
    include: str


FORMATS = {
    "zephyr": Format("src", "include"),
    "arduino": Format("src", "src"),
    "platformio": Format("src", "include"),
    "esp-idf": Format("src", "include"),
    "cmsis-pack": Format("src", "include"),
}


def package_files(library, kind: str) -> dict[str, str]:
    """Texts of a package of that kind by their paths.

    Raises ValueError for a kind that there is not and for a network without the C interface,
    UnsupportedError for what such a package cannot build or call.
    """
    if kind not in FORMATS:
        raise ValueError(f"format {kind} is not known; choose {', '.join(FORMATS)}")
    _check(library)
    row, files = FORMATS[kind], {}
    for name, text in sorted(library.sources.files.items()):
        folder = row.include if name.endswith(".h") else row.src
        files[f"{folder}/{name}"] = text
    for name, text in sorted(runtime_headers(list(files.values())).items()):
        files[f"{row.include}/{name}"] = text
    files.update(texts(_package(library, files), kind))
    return files


def _check(library) -> None:
    if not library.options.firmware or library.options.interface_api != "c":
        raise ValueError(
            "a package has a network with the C interface; add --interface-api c, and --target or "
            "--board for the processor"
        )
    if library.sources.objects or any(library.sources.flags.values()):
        raise UnsupportedError(
            "the network has objects or C files with options of their own, from custom operators "
            "or devices, which packages do not build; write a .tar"
        )
    if any(pool.lent for pool in library.program.pools) or library.program.is_sized():
        raise UnsupportedError(
            "the example of a package passes inputs and outputs alone; let the image have the "
            "pools (--pool NAME=BYTES@SECTION), fix dimensions with --shape, or write a .tar"
        )
    if any(step.group.root.op in ("custom", "region") for step in library.program.steps):
        raise UnsupportedError(
            "the network has code that others wrote, for custom operators or devices, which may "
            "call the backend; write a .tar, which has it"
        )


def _package(library, files: Mapping[str, str]) -> Package:
    prefix = library.sources.prefix
    header = next(Path(f).name for f in files if Path(f).name == f"{prefix.lower()}.h")
    text = next(text for path, text in files.items() if Path(path).name == header)
    name = re.sub(r"[^A-Za-z0-9]+", "_", f"{library.module_name}_network").strip("_")
    return Package(
        name, header, prefix, library.options.origin or library.module_name,
        _members(text, prefix, "inputs", [t.nbytes for t in library.summary.inputs]),
        _members(text, prefix, "outputs", [t.nbytes for t in library.summary.outputs]),
        sorted(f for f in files if f.endswith(".c")),
        sorted(f for f in files if f.endswith(".h")),
        "-mfloat-abi=hard" in library.target.flags,
    )  # fmt: skip


def _members(header: str, prefix: str, kind: str, sizes: list[int]) -> dict[str, int]:
    """The members of a generated struct, in its order, with their bytes."""
    body = re.search(rf"struct {prefix}_{kind} {{(.*?)}};", header, re.DOTALL)
    names = re.findall(r"void \*(\w+);", body[1]) if body else []
    return dict(zip(names, sizes))
