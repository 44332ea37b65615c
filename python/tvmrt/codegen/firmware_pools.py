"""Memory pools in firmware C: who has their memory, how it is passed on, what is checked.

A pool is lent by the caller (a member of a C struct, or one more tensor) or belongs to the image:
to one network, or to all that were compiled together.
"""

from __future__ import annotations

from tvmrt.ir.program import ARENA, MemoryPool, Program

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
    owner = options.image or prefix
    return f"{owner}_workspace" if pool.name == WORKSPACE else f"{owner}_memory_{pool.name}"


def declarations(program: Program, prefix: str, options) -> list[str]:
    """Lines of C for every file that passes the image's own pools on."""
    own = [pool for _, pool in used(program) if not pool.lent]
    if not own:
        return []
    size = "" if options.image else "{}"  # that of an image is known once all are compiled
    return [
        "/* Intermediate values; nothing in it outlives a run. */"
        if not any(p.reserved_bytes for p in own)
        else "/* Intermediate values, and at the begin what outlives a run. */",
        *(
            f"extern uint8_t TVMGEN_LOCAL {symbol(pool, prefix, options)}"
            f"[{size.format(pool.used_bytes)}];"
            for pool in own
        ),
        "",
    ]


def definitions(program: Program, prefix: str, options) -> list[str]:
    """Lines of C that make the pools of a network by itself."""
    if options.image:
        return []
    own = [pool for _, pool in used(program) if not pool.lent]
    lines = [definition(symbol(pool, prefix, options), pool.used_bytes, pool.section)
             for pool in own]  # fmt: skip
    return [*lines, ""] if lines else []


def definition(name: str, nbytes: int, section: str | None) -> str:
    """One line of C: the array of a pool in its section."""
    place = "TVMGEN_NOINIT" if section is None else f'TVMGEN_SECTION("{section}")'
    return f"uint8_t {name}[{nbytes}] {place};"


def pool_macro(prefix: str, pool: MemoryPool) -> str:
    """The macro of a lent pool's size."""
    return f"{prefix.upper()}_{pool.name.upper()}_WORKSPACE_POOL_SIZE"


# What a program needs of pools beyond run: where inputs and outputs lie, and weights copied there.


def map_declarations(program: Program, prefix: str, options) -> list[str]:
    """Lines of the header: the functions that give out the places of inputs and outputs."""
    if not io_in_pools(program):
        return []
    lines = []
    for what, when in (("inputs", "Fill them before every run"), ("outputs", "Read them after it")):
        lines += [
            f"/*! \\brief Where the {what} lie in the pools. {when}; NULL members for NULL. */",
            f"{_map_signature(program, prefix, what, options)};",
            "",
        ]
    return lines


def load_declarations(program: Program, prefix: str, options, sources) -> list[str]:
    """Lines of the header: the function that copies weights to where they are read."""
    if not sources.resident:
        return []
    nbytes = sum(b.nbytes for b in sources.resident)
    return [
        "/*!",
        f" * \\brief Copy {nbytes} bytes of weights from flash to their pools; once, before a run.",
        " *",
        " * Nobody else may write there. Memory that moves needs another call.",
        " * \\return 0; kTvmErrorNetworkPoolMisplaced for a NULL or misaligned pool.",
        " */",
        f"int32_t {prefix}_load({_pools_parameter(program, prefix, options)});",
        "",
    ]


def _pools_parameter(program: Program, prefix: str, options) -> str:
    if not lent(program) or options.interface_api == "packed":
        return "void"
    return f"struct {prefix.lower()}_workspace_pools *workspace_pools"


def _map_signature(program: Program, prefix: str, what: str, options) -> str:
    parameter = _pools_parameter(program, prefix, options)
    return f"struct {prefix.lower()}_{what} {prefix}_map_{what}({parameter})"


def base(pool: MemoryPool, prefix: str, options) -> str:
    """Expression for where a pool begins, in functions over structs."""
    if pool.lent:
        return f"(uint8_t *)workspace_pools->{pool.name}"
    return symbol(pool, prefix, options)


def loaded_symbol(pool: MemoryPool, prefix: str) -> str:
    """The variable that keeps where the weights of a pool were copied to."""
    return f"{prefix}_loaded_{pool.name}"


def loaded_pools(program: Program, options) -> list[MemoryPool]:
    """Pools into which weights are copied."""
    numbers = sorted({number for number, _ in options.resident.values()})
    return [program.pools[i] for i in numbers]


def loaded_declarations(program: Program, prefix: str, options) -> list[str]:
    """Lines of C for every file that asks whether weights were copied."""
    lines = [
        f"TVMGEN_LOCAL extern const uint8_t *{loaded_symbol(pool, prefix)};"
        for pool in loaded_pools(program, options)
    ]
    return ["/* Where weights were copied to. */", *lines, ""] if lines else []


def loaded_checks(program: Program, prefix: str, options) -> list[str]:
    """Lines of C that refuse to run before the weights are where they are read."""
    lines = []
    for pool in loaded_pools(program, options):
        test = f"{loaded_symbol(pool, prefix)} != {base(pool, prefix, options)}"
        lines += [f"  if ({test})", "    return kTvmErrorNetworkWeightsNotLoaded;"]
    return lines


def print_files(program: Program, prefix: str, sources, options, arguments) -> dict[str, str]:
    """The file of these functions, where the network has any, by its name."""
    from .firmware_header import header_name

    if not io_in_pools(program) and not sources.resident:
        return {}
    lines = [
        "#include <stddef.h>",
        "#include <stdint.h>",
        "#include <string.h>",
        "",
        "#include <tvm/runtime/crt/error_codes.h>",
        "",
        f'#include "{header_name(prefix)}"',
        f'#include "{prefix}_ops.h"',
        "",
        *arguments.places(),
        *declarations(program, prefix, options),
    ]
    if io_in_pools(program):
        lines += _map_functions(program, prefix, options, arguments)
    if sources.resident:
        lines += [*loaded_declarations(program, prefix, options)]
        lines += _load_function(program, prefix, sources, options, arguments)
    return {f"{prefix}_pools.c": "\n".join(lines)}


def _map_functions(program: Program, prefix: str, options, arguments) -> list[str]:
    from .firmware_header import input_tensors, output_tensors

    lines = []
    for what, tensors, buffers in (
        ("inputs", input_tensors(program), program.inputs),
        ("outputs", output_tensors(program), program.outputs),
    ):
        lines += [
            f"{_map_signature(program, prefix, what, options)} {{",
            f"  struct {prefix.lower()}_{what} {what} = {{NULL}};",
        ]
        margin = "  "
        if lent(program):
            lines.append("  if (workspace_pools != NULL) {")
            margin = "    "
        for tensor, buffer in zip(tensors, buffers):
            pool = program.pools[buffer.pool]
            place = f"{base(pool, prefix, options)} + {arguments.place(buffer)}"
            lines.append(f"{margin}{what}.{tensor.member} = {place};")
        lines += [*(["  }"] if lent(program) else []), f"  return {what};", "}", ""]
    return lines


def _load_function(program: Program, prefix: str, sources, options, arguments) -> list[str]:
    pools = loaded_pools(program, options)
    refused = "return kTvmErrorNetworkPoolMisplaced;"
    lines = [
        *(f"const uint8_t *{loaded_symbol(pool, prefix)};" for pool in pools),
        "",
        f"int32_t {prefix}_load({_pools_parameter(program, prefix, options)}) {{",
    ]
    if any(pool.lent for pool in pools):
        lines.append(f"  if (workspace_pools == NULL) {refused}")
    elif _pools_parameter(program, prefix, options) != "void":
        lines.append("  (void)workspace_pools;")
    for pool in pools:
        if pool.lent:
            member = f"workspace_pools->{pool.name}"
            lines.append(
                f"  if ({member} == NULL || ((uintptr_t){member} & {ALIGN_BYTES - 1}) != 0)"
            )
            lines.append(f"    {refused}")
    for buffer in sources.resident:
        place = f"{base(program.pools[buffer.pool], prefix, options)} + {arguments.place(buffer)}"
        lines.append(f"  memcpy({place}, {sources.symbol_of(buffer)}, {buffer.nbytes});")
    for pool in pools:
        lines.append(f"  {loaded_symbol(pool, prefix)} = {base(pool, prefix, options)};")
    return [*lines, "  return 0;", "}", ""]
