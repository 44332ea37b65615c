"""Memory pools in firmware C: who has their memory, how it is passed on, what is checked.

A pool is lent by the caller (a member of a C struct, or one more tensor) or belongs to the image:
to one network, or to all that were compiled together.
"""

from __future__ import annotations

from tvmrt.compiler.ir.program import ARENA, MemoryPool, Program

ALIGN_BYTES = 16  # of a pool's begin, and of every buffer in it
WORKSPACE = "workspace"  # the pool of networks that were given none


def by_name(program: Program) -> list[tuple[int, MemoryPool]]:
    """Numbers and pools in the order of main's parameters and of struct members."""
    return sorted(enumerate(program.pools), key=lambda row: row[1].name)


def used(program: Program) -> list[tuple[int, MemoryPool]]:
    """Those that main takes."""
    return [(i, pool) for i, pool in by_name(program) if pool.used_bytes]


def lent(program: Program) -> list[MemoryPool]:
    """Those that the caller lends, whether or not anything lies in them."""
    return [pool for _, pool in by_name(program) if pool.lent]


def io_in_pools(program: Program) -> bool:
    """Whether inputs and outputs lie in the pools."""
    return any(b.kind == ARENA for b in [*program.inputs, *program.outputs])


def symbol(pool: MemoryPool, prefix: str, options) -> str:
    """The array that is a pool of the image's own."""
    return pool_symbol(pool, options.image.prefix if options.image else prefix)


def pool_symbol(pool: MemoryPool, owner: str) -> str:
    """The array that is a pool of a network or of an image, by its prefix."""
    return f"{owner}_workspace" if pool.name == WORKSPACE else f"{owner}_memory_{pool.name}"


def memory_header(image: str) -> str:
    """The file with the pools that networks of an image have in common."""
    return f"{image}_memory.h"


def includes(program: Program, options) -> list[str]:
    """Lines of C for every file that passes pools of several networks on."""
    return (
        [f'#include "{memory_header(options.image.prefix)}"']
        if options.image and _own(program)
        else []
    )


def declarations(program: Program, prefix: str, options) -> list[str]:
    """Lines of C for every file that passes the network's own pools on."""
    lines = [
        f"extern uint8_t TVMGEN_LOCAL {symbol(pool, prefix, options)}[{pool.used_bytes}];"
        for pool in _own(program)
    ]
    if options.image or not lines:
        return []
    what = "Intermediate values; nothing in it outlives a run."
    if any(pool.reserved_bytes for pool in _own(program)):
        what = "Intermediate values; what lies before them outlives runs."
    if program.states:
        what = "Intermediate values, and what a run leaves for the next one."
    return [f"/* {what} */", *lines, ""]


def definitions(program: Program, prefix: str, options) -> list[str]:
    """Lines of C that make the pools of a network by itself."""
    if options.image:
        return []
    lines = [
        definition(symbol(pool, prefix, options), pool.used_bytes, pool.section)
        for pool in _own(program)
    ]
    return [*lines, ""] if lines else []


def _own(program: Program) -> list[MemoryPool]:
    return [pool for _, pool in used(program) if not pool.lent]


def definition(name: str, nbytes: int, section: str | None) -> str:
    """One line of C: the array of a pool in its section."""
    place = "TVMGEN_NOINIT" if section is None else f'TVMGEN_SECTION("{section}")'
    return f"uint8_t {name}[{nbytes}] {place};"


def pool_macro(prefix: str, pool: MemoryPool) -> str:
    """The macro of a lent pool's size."""
    return f"{prefix.upper()}_{pool.name.upper()}_WORKSPACE_POOL_SIZE"
