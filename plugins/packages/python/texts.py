"""Metadata, build files and examples of packages; one template folder per ecosystem."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from tvmrt.compiler.sdk.arithmetic import ceil_div
from tvmrt.compiler.sdk.graph import Packaged

FOLDER = Path(__file__).parent / "templates"
ENDING = ".j2"
VERSION = "1.0.0"  # of a package; its publisher increments it
TENSOR_ALIGN_BYTES = 8  # at least the alignment of any element type
VENDOR = "tvmrt"
_FILTERS = {
    "comment": lambda text: text.replace("*/", "* /").replace("\n", " "),
    "json": json.dumps,
    "words": lambda nbytes: max(ceil_div(nbytes, TENSOR_ALIGN_BYTES), 1),
    "xml": escape,
    "xml_quoted": quoteattr,
}


@dataclass(frozen=True)
class Package:
    """Values for the templates of a package. Paths are relative to the package's folder."""

    name: str  # of the package: letters and digits, joined by underscores
    header: str  # included by the program
    prefix: str  # of the network's C names
    origin: str  # name of the network
    inputs: Mapping[str, int]  # bytes by struct member
    outputs: Mapping[str, int]
    sources: list[str]
    headers: list[str]
    hard_floats: bool  # whether floats use the hard-float ABI
    needs: list[Packaged]  # libraries called by device code
    align_bytes: int  # of tensors
    io_in_pools: bool  # whether inputs and outputs lie in the network's own memory


def texts(package: Package, kind: str) -> dict[str, str]:
    """Return the texts of a package by path; names in braces are substituted.

    Raises ImportError if Jinja2 is missing.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(FOLDER), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters.update(_FILTERS)
    values = {
        "package": package,
        "sentence": f"The neural network {' '.join(package.origin.split())}, called by one C "
        "function.",
        "vendor": VENDOR,
        "version": VERSION,
    }
    result = {}
    for file in sorted((FOLDER / kind).rglob(f"*{ENDING}")):
        path = file.relative_to(FOLDER / kind).as_posix().removesuffix(ENDING)
        template = environment.get_template(file.relative_to(FOLDER).as_posix())
        result[path.format(vendor=VENDOR, name=package.name)] = template.render(values)
    return result
