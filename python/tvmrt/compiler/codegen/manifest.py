"""Manifest of a compiled network: the tool, network, options and target that it was made with.

It is JSON and reproducible: equal networks, options and tvmrt versions give equal text. A library
contains it as the string ``__tvmrt_manifest``. The last member is a checksum of the text before it,
so that a loader can detect damage.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from tvmrt.compiler.ir.program import Program
from tvmrt.libinfo import __version__

from . import fixed_order
from .c.packed_functions import WEAK
from .entries.symbolic_dims import string_lines
from .options import Options, Sources
from .target import Target

FORMAT = 1  # version of the members
# Version of the calls between library and runtime; runtimes refuse newer versions.
ABI = 1
SYMBOL = "__tvmrt_manifest"
CHECKSUM = ', "checksum": '


def describe(
    program: Program, target: Target, options: Options, sources: Sources
) -> dict[str, Any]:
    """Return the members, all of them plain data."""
    provenance = options.provenance
    weights = sources.flash_bytes if options.firmware else len(sources.weights)
    return {
        "manifest": FORMAT,
        "abi": ABI,
        "tool": f"tvmrt {__version__}",
        "module_name": options.module_name,
        "target": target.name,
        "levels": [] if sources.levels is None else list(sources.levels.names),
        "options": dict(provenance.options),
        "sha256": {
            "network": provenance.network_sha256,
            "parameters": _sha256(sources.weights.chunks()),
        },
        **({"reproducible": fixed_order.digest(provenance)} if target.fixed_order else {}),
        "bytes": {"weights": weights, **_planned_bytes(program, target)},
        "licences": {"code": "Apache-2.0", "network": provenance.licence},
    }


def _planned_bytes(program: Program, target: Target) -> dict[str, int]:
    """Return the sizes of tensors; none if each run plans its memory."""
    if program.run_plan is not None:
        return {}
    return {
        "arena": program.arena_bytes,
        **({"scratch": program.thread_scratch_bytes} if target.hosted else {}),
        "inputs": sum(type.nbytes for type in program.input_types),
        "outputs": sum(type.nbytes for type in program.output_types),
    }


def _sha256(chunks: Iterable[bytes | memoryview]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def text_of(manifest: Mapping[str, Any]) -> str:
    """Return the manifest as one line with its checksum."""
    body = json.dumps(manifest)[:-1]
    return f'{body}{CHECKSUM}"{checksum(body.encode()):016x}"}}'


def checksum(data: bytes) -> int:
    """Return the 64-bit FNV-1a hash, as computed by the runtime."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def read(text: str) -> dict[str, Any]:
    """Parse a library's manifest. Raises ValueError describing the damage."""
    body, mark, rest = text.rpartition(CHECKSUM)
    if not mark or rest != f'"{checksum(body.encode()):016x}"}}':
        raise ValueError("its checksum is wrong")
    manifest = json.loads(f"{body}}}")
    if not isinstance(manifest, dict) or not isinstance(manifest.get("manifest"), int):
        raise ValueError("it has no format version")
    return manifest


def print_manifest(manifest: Mapping[str, Any]) -> list[str]:
    """Return C lines that define the manifest."""
    return [
        "/* Provenance of this code, for tools and programs that load the library. Weak because",
        " * each of several networks in one program defines it. */",
        f"TVM_DLL extern const char {SYMBOL}[];",
        *WEAK,
        f"const char {SYMBOL}[] =",
        *string_lines(text_of(manifest)),
        "",
    ]
