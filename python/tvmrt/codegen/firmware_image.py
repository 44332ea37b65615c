"""The files that networks of one image have in common: their memory, and its sizes."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.ir.program import MemoryPool

from .c_source import PLACEMENT
from .firmware_header import header_name
from .firmware_pools import ALIGN_BYTES, WORKSPACE, definition, pool_macro
from .options import prefix_of


def memory_files(
    name: str,
    pools: Sequence[MemoryPool],
    prefixes: Sequence[str],
    concurrent: Sequence[Sequence[str]],
) -> dict[str, str]:
    """Texts by file name: the header, and where pools are the image's own, their file.

    ``concurrent`` lists the networks whose memory is kept apart.
    """
    prefix = prefix_of(name)
    files = {header_name(prefix): _header(prefix, pools, prefixes, concurrent)}
    own = [pool for pool in pools if pool.used_bytes and not pool.lent]
    if own:
        files[f"{prefix}_memory.c"] = _memory_file(prefix, own, prefixes)
    return files


def _header(prefix: str, pools, prefixes: Sequence[str], concurrent) -> str:
    guard = f"{prefix.upper()}_H_"
    how = "for one network at a time"
    if concurrent:
        groups = " or ".join(f"{' and '.join(group)} together" for group in concurrent)
        how += f", or {groups}"
    lines = [
        f"/* Networks compiled together: {', '.join(prefixes)}. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        *(f'#include "{header_name(p)}"' for p in prefixes),
        "",
        f"/*! \\brief Memory for intermediate values {how}, in bytes. */",
        f"#define {prefix.upper()}_WORKSPACE_SIZE {sum(p.used_bytes for p in pools)}",
    ]
    for pool in pools:
        if pool.lent:
            lines += [
                f"/*! \\brief What the pool {pool.name} must hold, in bytes; aligned to"
                f" {ALIGN_BYTES} bytes. All networks are given the same one. */",
                f"#define {pool_macro(prefix, pool)} {pool.used_bytes}",
            ]
    return "\n".join([*lines, "", f"#endif /* {guard} */", ""])


def _memory_file(prefix: str, pools, prefixes: Sequence[str]) -> str:
    lines = [
        f"/* Memory of the networks {', '.join(prefixes)}. */",
        "#include <stdint.h>",
        "",
        "#if defined(__GNUC__) && !defined(_WIN32)",
        '#define TVMGEN_LOCAL __attribute__((visibility("hidden")))',
        "#else",
        "#define TVMGEN_LOCAL",
        "#endif",
        "",
        *PLACEMENT,
    ]
    for pool in pools:
        name = f"{prefix}_workspace" if pool.name == WORKSPACE else f"{prefix}_memory_{pool.name}"
        lines.append(f"extern uint8_t TVMGEN_LOCAL {name}[{pool.used_bytes}];")
        lines.append(definition(name, pool.used_bytes, pool.section))
    return "\n".join([*lines, ""])
