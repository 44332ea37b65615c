"""C of others that a network's code calls and that the user has, for tools that build networks by
themselves: the environment names its folder, by the variable that an archive's Makefile has."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tvmrt.compiler.ir import Vendor
from tvmrt.error import CompileError

KIND = "make_variable"  # of a row of metadata.json: whoever builds gives it a folder


def vendor_rows(vendors: Iterable[Vendor]) -> list[dict[str, Any]]:
    """What metadata.json says of them."""
    return [
        {
            "short_name": vendor.variable,
            "url": vendor.title,
            "url_type": KIND,
            "version_spec": "",
            "include": vendor.include,
            "header": vendor.header,
            "sources": list(vendor.sources),
            "excluded_sources": list(vendor.excluded),
        }
        for vendor in vendors
    ]


def vendors_of(modules: Iterable[Mapping[str, Any]]) -> list[Vendor]:
    """The same back from metadata.json's modules, each once."""
    rows = [row for module in modules for row in module.get("external_dependencies", ())]
    found = [
        Vendor(
            r["short_name"],
            r["url"],
            r["include"],
            r["header"],
            tuple(r["sources"]),
            tuple(r.get("excluded_sources", ())),
        )
        for r in rows
        if r.get("url_type") == KIND
    ]
    return list(dict.fromkeys(found))


def vendor_includes(vendors: Iterable[Vendor]) -> list[Path]:
    """Folders of headers, of those whose folder the environment names."""
    return [folder / vendor.include for vendor in vendors for folder in _folder(vendor)]


def vendor_code(vendors: Sequence[Vendor]) -> list[Path]:
    """All their C files. Raises CompileError where the environment names no folder."""
    files = []
    for vendor in vendors:
        if not _folder(vendor):
            raise CompileError(
                f"the network calls {vendor.title}: set the environment variable "
                f"{vendor.variable} to the folder with {vendor.include}/{vendor.header}"
            )
        (folder,) = _folder(vendor)
        excluded = {path for pattern in vendor.excluded for path in folder.glob(pattern)}
        found = [path for pattern in vendor.sources for path in sorted(folder.glob(pattern))]
        files += [path for path in found if path not in excluded]
    return files


def vendor_copies(vendor: Vendor) -> tuple[dict[str, str], dict[str, str]]:
    """Texts of its headers and of its C files with the licence, each by its path below the folder
    of headers or below that which the environment names. Raises CompileError as vendor_code()."""
    code = vendor_code([vendor])
    (folder,) = _folder(vendor)
    headers = folder / vendor.include
    licences = [path for path in folder.glob("LICENSE*") if path.is_file()]
    # a header that lies beside the C files is for them
    beside = {header for path in code for header in path.parent.glob("*.h")}
    return (
        {path.relative_to(headers).as_posix(): _text(path) for path in headers.rglob("*.h")},
        {path.relative_to(folder).as_posix(): _text(path) for path in (*code, *beside, *licences)},
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _folder(vendor: Vendor) -> list[Path]:
    """The folder that the environment names, where it has the header."""
    told = os.environ.get(vendor.variable)
    folder = Path(told or ".").resolve()
    return [folder] if told and (folder / vendor.include / vendor.header).is_file() else []
