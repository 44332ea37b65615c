"""Files that the networks of one image share: their memory and its sizes."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir.custom import kernel_record
from tvmrt.compiler.ir.program import MemoryPool
from tvmrt.compiler.symbols import prefix_of

from .c.formatting import break_lines, include_guard
from .c.writer import Function
from .c_source import SECTION_MACROS, VISIBILITY_MACROS, no_counted_loops, operator_file
from .firmware import link_guard
from .firmware.tensor_names import header_name
from .options import Sources
from .pools import ALIGN_BYTES, definition, memory_header, pool_macro, pool_symbol
from .target import Target


def memory_files(
    name: str,
    pools: Sequence[MemoryPool],
    prefixes: Sequence[str],
    concurrent: Sequence[Sequence[str]],
    numbers: Sequence[str],
) -> dict[str, str]:
    """Return file texts by name: the header, and the files of the pools that the image owns.

    ``concurrent`` lists groups of networks that do not share memory; ``numbers`` are the identity
    numbers of the networks.
    """
    prefix = prefix_of(name)
    number = link_guard.identity(*prefixes, *numbers)
    files = {header_name(prefix): _header(prefix, number, pools, prefixes, concurrent)}
    own = [pool for pool in pools if pool.used_bytes and not pool.is_external]
    if own:
        files[memory_header(prefix)] = _memory_header(prefix, number, own, prefixes)
        files[f"{prefix}_memory.c"] = _memory_file(prefix, own, prefixes)
    return files


def share_operators(
    name: str, networks: Sequence[Sources], target: Target
) -> tuple[str, str, dict[str, str]] | None:
    """Merge the operators of all networks into one file, so that the image contains each kernel
    once. Return its name, its text and the networks' files that it replaces. Return None if macros
    of two networks differ, or if fewer than two networks have operators.

    Bodies of custom operators stay in the networks' files.
    """
    files: dict[str, str] = {}
    functions: list[Function] = []
    prefixes: list[str] = []
    for sources in networks:
        own = [f for f in sources.functions if kernel_record(f.step.group.root) is None]
        if own:
            first = f"{sources.prefix}_lib1.c"
            files[first] = sources.files[first]
            prefixes.append(sources.prefix)
            functions += own
    macros = {item for function in functions for item in function.macros.items()}
    if len(prefixes) < 2 or len(macros) > len(dict(macros)):
        return None
    prefix = prefix_of(name)
    head = f"/* Operators of the networks {', '.join(prefixes)}. */\n"
    text = break_lines(operator_file(prefixes, functions, target))
    file = f"{prefix}_operators.c"
    return file, head + no_counted_loops(file, target) + text, files


def _header(prefix: str, number: str, pools, prefixes: Sequence[str], concurrent) -> str:
    how = "for one network at a time"
    if concurrent:
        groups = " or ".join(f"{' and '.join(group)} together" for group in concurrent)
        how += f", or {groups}"
    lines = [
        f"/* Networks compiled together: {', '.join(prefixes)}. */",
        *link_guard.guard_lines(prefix, number, *link_guard.IMAGES),
        *(f'#include "{header_name(p)}"' for p in prefixes),
        "",
        f"/*! \\brief Memory for intermediate values {how}, in bytes. */",
        f"#define {prefix.upper()}_WORKSPACE_SIZE {sum(p.used_bytes for p in pools)}",
    ]
    for pool in pools:
        if pool.is_external:
            lines += [
                f"/*! \\brief Size of the pool {pool.name}, in bytes; aligned to"
                f" {ALIGN_BYTES} bytes. All networks use the same pool. */",
                f"#define {pool_macro(prefix, pool)} {pool.used_bytes}",
            ]
    return "\n".join([*lines, "", f"#endif /* {prefix.upper()}_H_ */", ""])


def _memory_header(prefix: str, number: str, pools, prefixes: Sequence[str]) -> str:
    head = f"/* Memory of the networks {', '.join(prefixes)}; for their own files. */\n"
    lines = [
        "#include <stdint.h>",
        "",
        *VISIBILITY_MACROS,
        "/* Symbols with the image's checksum: another image of this name has its own memory. */",
    ]
    for pool in pools:
        name = pool_symbol(pool, prefix)
        lines.append(f"#define {name} {name}_{number}")
    lines.append("")
    for pool in pools:
        name = pool_symbol(pool, prefix)
        lines.append(f"extern uint8_t TVMGEN_LOCAL {name}[{pool.used_bytes}];")
    return head + include_guard(f"{prefix.upper()}_MEMORY_H_", lines)


def _memory_file(prefix: str, pools, prefixes: Sequence[str]) -> str:
    lines = [
        f"/* Memory of the networks {', '.join(prefixes)}. */",
        f'#include "{memory_header(prefix)}"',
        "",
        *SECTION_MACROS,
    ]
    for pool in pools:
        lines.append(definition(pool_symbol(pool, prefix), pool.used_bytes, pool.section))
    return "\n".join([*lines, ""])
