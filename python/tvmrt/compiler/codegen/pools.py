"""Memory pools in firmware C: declarations, definitions and arguments.

A pool is either a caller-provided buffer (a member of a C struct, or an extra tensor) or part of
the image. In the latter case it belongs to one network or to all networks compiled together.
"""

from __future__ import annotations

from tvmrt.compiler.ir.program import ARENA, MemoryPool, Program

ALIGN_BYTES = 16  # alignment of pools and of every buffer in them
WORKSPACE = "workspace"  # default pool


def by_name(program: Program) -> list[tuple[int, MemoryPool]]:
    """Return pool indices and pools in the order of main's parameters and of struct members."""
    return sorted(enumerate(program.pools), key=lambda row: row[1].name)


def used_pools(program: Program) -> list[tuple[int, MemoryPool]]:
    """Return the indices and pools that main takes."""
    return [(i, pool) for i, pool in by_name(program) if pool.used_bytes]


def caller_provided(program: Program) -> list[MemoryPool]:
    """Return the caller-provided pools, including unused ones."""
    return [pool for _, pool in by_name(program) if pool.is_external]


def io_in_pools(program: Program) -> bool:
    """Return whether inputs and outputs lie in the pools."""
    return any(b.kind == ARENA for b in [*program.inputs, *program.outputs])


def symbol(pool: MemoryPool, prefix: str, options) -> str:
    """Return the C array of a pool that the image owns."""
    return pool_symbol(pool, options.image.prefix if options.image else prefix)


def pool_symbol(pool: MemoryPool, owner: str) -> str:
    """Return the C array of a pool, given the prefix of its network or image."""
    return f"{owner}_workspace" if pool.name == WORKSPACE else f"{owner}_memory_{pool.name}"


def memory_header(image: str) -> str:
    """Return the header with the pools that the networks of an image share."""
    return f"{image}_memory.h"


def includes(program: Program, options) -> list[str]:
    """Return the include lines of files that pass shared pools to functions."""
    if not options.image or not own(program):
        return []
    return [f'#include "{memory_header(options.image.prefix)}"']


def declarations(program: Program, prefix: str, options) -> list[str]:
    """Return the declarations in files that pass the network's own pools to functions."""
    lines = [
        f"extern uint8_t TVMGEN_LOCAL {symbol(pool, prefix, options)}[{pool.used_bytes}];"
        for pool in own(program)
    ]
    if options.image or not lines:
        return []
    what = "Intermediate values; unused between runs."
    if any(pool.reserved_bytes for pool in own(program)):
        what = "Intermediate values; the memory before them is used between runs."
    if program.states:
        what = "Intermediate values, and the state of a run for the next one."
    return [f"/* {what} */", *lines, ""]


def definitions(program: Program, prefix: str, options) -> list[str]:
    """Return the definitions of the pools that a network owns by itself."""
    if options.image:
        return []
    lines = [
        definition(symbol(pool, prefix, options), pool.used_bytes, pool.section)
        for pool in own(program)
    ]
    return [*lines, ""] if lines else []


def own(program: Program) -> list[MemoryPool]:
    """Return the pools that the image owns and that hold tensors."""
    return [pool for _, pool in used_pools(program) if not pool.is_external]


def definition(name: str, nbytes: int, section: str | None) -> str:
    """Return the definition of a pool's array in its section."""
    attribute = "TVMGEN_NOINIT" if section is None else f'TVMGEN_SECTION("{section}")'
    return f"uint8_t {name}[{nbytes}] {attribute};"


def pool_macro(prefix: str, pool: MemoryPool) -> str:
    """Return the macro with the size of a caller-provided pool."""
    return f"{prefix.upper()}_{pool.name.upper()}_WORKSPACE_POOL_SIZE"
