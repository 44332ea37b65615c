"""What a compiled network says of itself: by whom it was made, of what, for which machine.

It is JSON, the same for the same network, options and version of tvmrt, wherever and whenever that
is compiled. In a library it is the text ``__tvmrt_manifest``, whose last member is a checksum of
what stands before it, so that whoever loads the library can tell whether it is whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from tvmrt.compiler.ir.program import Program
from tvmrt.libinfo import __version__

from .c.packed import WEAK
from .entries.dims import string_pieces
from .lowering import thread_bytes
from .options import Options, Sources
from .target import Target

FORMAT = 1  # of these members
# Of the calls between a library and what runs it; runtimes refuse a greater one than they know.
ABI = 1
SYMBOL = "__tvmrt_manifest"
CHECKSUM = ', "checksum": '


def describe(
    program: Program, target: Target, options: Options, sources: Sources
) -> dict[str, Any]:
    """The members, all of them plain data."""
    given = options.provenance
    weights = sources.flash_bytes if options.firmware else len(sources.weights)
    used = [
        {"layer": u.layer, "level": u.level, "source": u.source, "choice": u.choice.members()}
        for u in target.used_choices
    ]
    return {
        "manifest": FORMAT,
        "abi": ABI,
        "tool": f"tvmrt {__version__}",
        "module_name": options.module_name,
        "target": target.name,
        "levels": [] if sources.levels is None else list(sources.levels.names),
        "options": dict(given.options),
        **({"tuned": used} if used else {}),
        "sha256": {
            "network": given.network_sha256,
            "parameters": _sha256(sources.weights.chunks()),
        },
        "bytes": {
            "weights": weights,
            "arena": program.arena_bytes,
            **({"scratch": thread_bytes(program)} if target.hosted else {}),
            "inputs": sum(type.nbytes for type in program.input_types),
            "outputs": sum(type.nbytes for type in program.output_types),
        },
        "licences": {"code": "Apache-2.0", "network": given.licence},
    }


def _sha256(chunks: Iterable[bytes | memoryview]) -> str:
    found = hashlib.sha256()
    for chunk in chunks:
        found.update(chunk)
    return found.hexdigest()


def text_of(manifest: Mapping[str, Any]) -> str:
    """The text of a library's: on one line, with its checksum."""
    body = json.dumps(manifest)[:-1]
    return f'{body}{CHECKSUM}"{checksum(body.encode()):016x}"}}'


def checksum(data: bytes) -> int:
    """FNV-1a of 64 bits, as the runtime computes it."""
    found = 0xCBF29CE484222325
    for byte in data:
        found = (found ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return found


def read(text: str) -> dict[str, Any]:
    """The members of a library's manifest. Raises ValueError saying what is damaged."""
    body, mark, rest = text.rpartition(CHECKSUM)
    if not mark or rest != f'"{checksum(body.encode()):016x}"}}':
        raise ValueError("its checksum is wrong")
    found = json.loads(f"{body}}}")
    if not isinstance(found, dict) or not isinstance(found.get("manifest"), int):
        raise ValueError("it has no format version")
    return found


def print_manifest(manifest: Mapping[str, Any]) -> list[str]:
    """Lines of C."""
    return [
        "/* What this code was made of and how; for tools, and for who loads the library. Weak, as",
        " * each of several networks in one program has it. */",
        f"TVM_DLL extern const char {SYMBOL}[];",
        *WEAK,
        f"const char {SYMBOL}[] =",
        *string_pieces(text_of(manifest)),
        "",
    ]
