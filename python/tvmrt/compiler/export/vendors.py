"""Vendor C code that a network calls and the user provides, for tools that build networks: its
folder is in an environment variable with the name of the Makefile variable of archives."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tvmrt.compiler.ir import Vendor
from tvmrt.error import CompileError

KIND = "make_variable"  # of a row of metadata.json: a folder that must be set for a build


def vendor_rows(vendors: Iterable[Vendor]) -> list[dict[str, Any]]:
    """Return the rows of vendor libraries in metadata.json."""
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
    """Parse the vendor libraries in metadata.json's modules, each once."""
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
    """Return the header folders of vendors whose folder is set in the environment."""
    return [folder / vendor.include for vendor in vendors for folder in _folder(vendor)]


def vendor_code(vendors: Sequence[Vendor]) -> list[Path]:
    """Return all their C files. Raise CompileError if a folder is not set in the environment."""
    files = []
    for vendor in vendors:
        if not _folder(vendor):
            raise CompileError(
                f"the network calls {vendor.title}: set the environment variable "
                f"{vendor.variable} to the folder with {vendor.include}/{vendor.header}"
            )
        (folder,) = _folder(vendor)
        excluded = {path for pattern in vendor.excluded for path in folder.glob(pattern)}
        paths = [path for pattern in vendor.sources for path in sorted(folder.glob(pattern))]
        files += [path for path in paths if path not in excluded]
    return files


def vendor_copies(vendor: Vendor) -> tuple[dict[str, str], dict[str, str]]:
    """Return texts of its headers and of its C files with the licence, by path below the folder of
    headers or below the vendor's folder. Raise CompileError like vendor_code()."""
    code = vendor_code([vendor])
    (folder,) = _folder(vendor)
    headers = folder / vendor.include
    licences = [path for path in folder.glob("LICENSE*") if path.is_file()]
    # a header in the folder of the C files is only for them
    local_headers = {header for path in code for header in path.parent.glob("*.h")}
    return (
        {path.relative_to(headers).as_posix(): _text(path) for path in headers.rglob("*.h")},
        {
            path.relative_to(folder).as_posix(): _text(path)
            for path in (*code, *local_headers, *licences)
        },
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _folder(vendor: Vendor) -> list[Path]:
    """Return the folder in the environment if it contains the header."""
    value = os.environ.get(vendor.variable)
    folder = Path(value or ".").resolve()
    return [folder] if value and (folder / vendor.include / vendor.header).is_file() else []
