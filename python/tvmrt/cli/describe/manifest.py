"""Read the manifest of a compiled network from a library, archive metadata or a file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tvmrt.cli.describe import Description
from tvmrt.cli.elf import TYPE_SYMBOLS, ElfFile, Symbol
from tvmrt.compiler.codegen import manifest
from tvmrt.compiler.symbols import prefix_of

AGAIN = "copy the file again, or compile the network again"


def of_library(elf: ElfFile, symbol: Symbol) -> dict[str, Any]:
    """Return the manifest of a library after checking the weights against it. Raises ValueError if
    either is damaged."""
    try:
        result = manifest.read(elf.bytes_of(symbol).rstrip(b"\0").decode("ascii", "replace"))
        name = f"{prefix_of(result['module_name'])}_weights"
        parameters = result["sha256"]["parameters"]
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise ValueError(
            f"{elf.path}: the manifest {symbol.name} ({symbol.size} bytes) is damaged: "
            f"{problem}; {AGAIN}"
        ) from None
    for each in elf.symbols(TYPE_SYMBOLS):
        data = elf.bytes_of(each) if each.name == name else b""
        if data and hashlib.sha256(data).hexdigest() != parameters:
            raise ValueError(
                f"{elf.path}: the weights {name} ({len(data)} bytes) do not match the manifest; "
                f"{AGAIN}"
            )
    return result


def describe_text(text: str, what: str) -> Description:
    """Describe the manifest file of C sources."""
    try:
        return Description({"format": "manifest"}, manifest=checked(json.loads(text)))
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise ValueError(f"{what}: the manifest is damaged: {problem}; {AGAIN}") from None


def checked(found: Any) -> dict[str, Any]:
    """Return a manifest if its format is known. Raises ValueError, KeyError or TypeError if it is
    not."""
    if not isinstance(found, dict) or found["manifest"] > manifest.FORMAT:
        raise ValueError(f"its format is unknown; this tvmrt reads up to {manifest.FORMAT}")
    return found


def is_manifest(path: Path) -> bool:
    """Return whether a JSON file has the name of a manifest."""
    return path.name.endswith("manifest.json")
