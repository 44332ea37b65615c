"""Generate a network's C files: operator functions, main function, packed entries and weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvmrt.compiler.ir import digest_of
from tvmrt.compiler.ir.program import ALIGN_BYTES, ARENA, Buffer, Program
from tvmrt.compiler.symbols import PACKED_SUFFIX, prefix_of
from tvmrt.libinfo import __version__

from . import cpu_dispatch, facts, fixed_order, manifest, pools
from .c import cplusplus
from .c.formatting import LINE, break_lines, comment_lines, include_guard
from .c.function import print_function, signature
from .c.initializers import is_pair, name_layers
from .c.naming import Symbols
from .c.writer import ConstantPool, Function, NetworkContext, comment_text, literal
from .device_files import add_device_files, device_modules, program_regions
from .entries import aot, graph_json, run_plan, symbolic_dims, tensor_placement, tvm_ffi
from .entries.arguments import Arguments
from .entries.metadata import INCLUDES as METADATA_INCLUDES
from .entries.metadata import print_getter, print_metadata
from .kernel_features import BOARD_KERNELS, HELIUM, print_macros
from .operators.custom_files import add_custom_files, has_custom_files
from .options import DeviceModuleConstant, Options, Sources, WeightPlacement, content_key
from .target import Target
from .translation_units import split_functions
from .weight_blob import pack_blob
from .window.tile_definitions import merge_remainder_tiles


def print_functions(program: Program, target: Target, options: Options) -> Sources:
    """Print the operators as C functions and collect their constants. No memory plan is needed.

    The program is not changed: the constants get buffers that belong to the sources.
    """
    prefix = prefix_of(options.module_name)
    sources = Sources(prefix=prefix)
    reserved = (*_ENTRY_NAMES, *(cpu_dispatch.RESERVED_NAMES if target.levels else ()))
    symbols = Symbols(prefix, reserved, PACKED_SUFFIX if options.packs_operators else "")
    # a new training may have equal constants where this one does not
    replaceable = options.weights_in_blob
    pool = ConstantPool(merge=not replaceable)
    lines = options.call_lines
    paired = lines is not None and lines.pairs_constants
    board = BOARD_KERNELS.of(target)
    common = NetworkContext(pool, symbols, target.threads, board, replaceable, paired)
    named = [symbols.function(step.name) for step in program.steps]
    if target.levels:
        sources.levels = cpu_dispatch.LevelFunctions([level.name for level in target.levels])
    for symbol, step in zip(named, program.steps):
        if step.levels and sources.levels is not None:
            names = [symbols.function(f"{step.name}_{level}") for level in step.levels]
            function, own = cpu_dispatch.print_dispatched_function(
                prefix, symbol, names, step, common, target
            )
            sources.levels.add(function, own)
        else:
            function = print_function(symbol, step, common)
        sources.functions.append(function)
    if sources.levels is not None and not sources.levels.by_level:
        sources.levels = None  # no function depends on the level
    buffers = [b for b in common.weights.buffers() if b.size]
    for buffer in buffers:
        buffer.name = symbols.constant(buffer.name)
    sources.device_constants = _device_module_constants(program, buffers)
    sources.weight_buffers = [b for b in buffers if b not in sources.device_constants]
    return sources


def _device_module_constants(
    program: Program, buffers: Sequence[Buffer]
) -> dict[Buffer, DeviceModuleConstant]:
    """Return the constants that device modules contain unchanged."""
    arrays = {}
    for module in device_modules(program):
        for buffer in buffers if module.constants else ():
            offset = module.constants.get(digest_of(buffer.data))
            if offset is not None:
                arrays[buffer] = DeviceModuleConstant(module, offset)
                buffer.in_device_module = True
    return arrays


def generate(
    program: Program,
    target: Target,
    options: Options,
    places: WeightPlacement | None = None,
    printed: Sources | None = None,
) -> Sources:
    """Return all files of the network. Equal programs, options and places give equal bytes; none of
    them is modified. ``printed`` is an earlier result of :func:`print_functions` for the same
    arguments; it is completed."""
    places = places or WeightPlacement()
    sources = printed or print_functions(program, target, options)
    prefix = sources.prefix
    align = pools.ALIGN_BYTES if options.weights_in_blob else ALIGN_BYTES
    sources.weights = pack_blob(sources.weight_buffers, align)
    sources.weight_offsets = dict(zip(sources.weight_buffers, sources.weights.addresses))
    sources.manifest = manifest.describe(program, target, options, sources)
    _move_to_pools(sources, places)
    if options.image is not None:
        sources.shared = _constants_of_other_networks(sources, options.image.weights)
    head = _head(program, options)
    declared: list[str] = []
    if options.call_lines is not None:
        macros = options.call_lines.macros(program, sources)
        for function in sources.functions:
            function.macros.update(macros)
        declared = options.call_lines.extend(sources)
    sources.files[f"{prefix}_ops.h"] = _ops_header(prefix, sources, options, declared)
    if sources.device_constants:
        sources.files[f"{prefix}_held.h"] = _device_constants_header(sources)
    for i, chunk in enumerate(split_functions(sources.functions, target.hosted)):
        sources.files[f"{prefix}_lib{i + 1}.c"] = operator_file([prefix], chunk, target)
    if sources.levels is not None:
        _add_level_files(prefix, sources, target)
    if options.firmware:
        from .firmware.files import add_firmware_files  # not loaded for hosts

        add_firmware_files(program, prefix, sources, options, target, head)
    else:
        sources.files[f"{prefix}_lib0.c"] = _entry_file(program, prefix, sources, options)
    sources.files.update({name: break_lines(text) for name, text in sources.files.items()})
    add_device_files(program, prefix, sources)
    if options.params == "flash":
        sources.files[f"{prefix}_weights.c"] = _weight_arrays(prefix, sources, options, places)
    for name, text in sources.files.items():
        sources.files[name] = head + no_counted_loops(name, target) + text
    add_custom_files(program, sources.files)
    return sources


def no_counted_loops(name: str, target: Target) -> str:
    """Return the line that stops GCC from counting loops in a file, if the target needs it."""
    counts = HELIUM.of(target) and name.endswith(".c")
    return "#include <tvm/runtime/kernels/scalar/no_low_overhead_loops.h>\n" if counts else ""


def _add_level_files(prefix: str, sources: Sources, target: Target) -> None:
    """Add the functions of each ISA level, compiled with its flags, and the level selection."""
    for level in target.levels:
        printed = sources.levels.functions_printed_for(level.name)
        for i, chunk in enumerate(split_functions(printed, hosted=True)):
            name = f"{prefix}_{level.name}_lib{i + 1}.c"
            sources.files[name] = cpu_dispatch.head(level) + operator_file([prefix], chunk, level)
            sources.flags[name] = level.flags
    sources.files[f"{prefix}_levels.c"] = cpu_dispatch.print_level_selection(prefix, sources.levels)


# Endings of symbols that are not operators.
_ENTRY_NAMES = (
    "run", "network", "steps", "weights", "workspace", "profile_slot", "get_c_metadata",
    "get_model_metadata", "metadata", "model_metadata", "step", "step_begin", "run_checked",
    "load", "map_inputs", "map_outputs", "trace", "trace_begin", "trace_add", "module",
    "set_weights", "graph_json", "graph_create", "dims_text", "sizes", "open_graph",
    "reset_state", "state_begun", "get_dims", "get_state", "get_run_needs", "get_run_plan",
    "get_input_align", "get_placement", "get_facts",
)  # fmt: skip


def _head(program: Program, options: Options) -> str:
    origin = f", {options.origin}" if options.origin else ""
    lines = [
        "/*",
        *comment_lines(comment_text(f"Network {program.name}{origin}")),
        f" * Generated by tvmrt {__version__}; change the network and compile it again",
        " * instead of editing.",
        " */",
    ]
    return "\n".join([*lines, ""])


def _move_to_pools(sources: Sources, places: WeightPlacement) -> None:
    """Read constants that are copied to pools from there."""
    for buffer in sources.weight_buffers:
        if buffer.name in places.resident:
            buffer.kind = ARENA
            buffer.pool, buffer.address = places.resident[buffer.name]
            sources.resident.append(buffer)


def _constants_of_other_networks(
    sources: Sources, symbols: Mapping[tuple, str]
) -> dict[Buffer, str]:
    """Return the constants that other networks already define, with their symbols."""
    keys = {buffer: content_key(buffer) for buffer in sources.weight_buffers}
    return {buffer: symbols[key] for buffer, key in keys.items() if key in symbols}


def _ops_header(prefix: str, sources: Sources, options: Options, declared: list[str]) -> str:
    placed = any(p.device_of for fn in sources.functions for p in fn.parameters)
    lines = [
        "#include <stdint.h>",
        "",
        *(DLPACK_INCLUDE if placed else []),
        *VISIBILITY_MACROS,
        *([*SECTION_MACROS, *cplusplus.WORDS, *cplusplus.BEGIN_C] if options.firmware else []),
    ]
    if options.params == "embed" and sources.weight_buffers:
        lines += [
            "/* All weights; calls pass them by their offsets. */",
            f"extern const unsigned char TVMGEN_LOCAL {prefix}_weights[];",
            "",
        ]
    if options.weights_in_blob:
        from .firmware import weight_file

        lines += weight_file.pointer_declaration(prefix)
    if options.params == "flash":
        lines += [
            f"extern const {b.dtype.c} TVMGEN_LOCAL {sources.symbol_of(b)}[{b.size}];"
            for b in sources.weight_buffers
        ]
        lines.append("")
    if sources.device_constants:
        lines += [f'#include "{prefix}_held.h"', ""]
    for function in sources.functions:
        lines += signature(function.symbol, function.parameters, ";", "TVMGEN_LOCAL int32_t")
    if sources.levels is not None:
        lines += ["", *cpu_dispatch.declarations(prefix, sources.levels)]
    lines += ["", *declared] if declared else []
    lines += cplusplus.END_C if options.firmware else []
    return include_guard(f"{prefix.upper()}_OPS_H_", lines)


def _device_constants_header(sources: Sources) -> str:
    symbols = sources.device_constant_symbols()
    lines = [f"extern const unsigned char TVMGEN_LOCAL {symbol}[];" for symbol in symbols]
    return "\n".join(["/* Weights that are stored with those of devices' regions. */", *lines, ""])


DLPACK_INCLUDE = ["#include <dlpack/dlpack.h>", ""]

VISIBILITY_MACROS = [
    "#if defined(__GNUC__) && !defined(_WIN32)",
    '#define TVMGEN_LOCAL __attribute__((visibility("hidden")))',
    "#else",
    "#define TVMGEN_LOCAL",
    "#endif",
    "",
]

SECTION_MACROS = [
    "/* Sections for a linker script to place weights and workspace. */",
    "#if defined(__GNUC__) && !defined(__APPLE__) && !defined(_WIN32)",
    '#define TVMGEN_RODATA __attribute__((section(".rodata.tvm"), aligned(16)))',
    '#define TVMGEN_NOINIT __attribute__((section(".bss.noinit.tvm"), aligned(16)))',
    "#define TVMGEN_SECTION(name) __attribute__((section(name), aligned(16)))",
    "#elif defined(__GNUC__)",
    "#define TVMGEN_RODATA __attribute__((aligned(16)))",
    "#define TVMGEN_NOINIT __attribute__((aligned(16)))",
    "#define TVMGEN_SECTION(name) __attribute__((aligned(16)))",
    "#else",
    "#define TVMGEN_RODATA",
    "#define TVMGEN_NOINIT",
    "#define TVMGEN_SECTION(name)",
    "#endif",
    "",
]


def operator_file(prefixes: Sequence[str], functions: Sequence[Function], target: Target) -> str:
    """Return a file with the operators of one or more networks, with one copy of each kernel."""
    if target.fixed_order:
        fixed_order.check(functions)
    headers = sorted(
        {h for fn in functions for h in fn.includes}
        | ({"scalar/compiler.h"} if target.fixed_order else set())
    )
    macros = sorted({item for fn in functions for item in fn.macros.items()})
    macros += print_macros(target, headers)
    defined = list(dict.fromkeys(d for fn in functions for d in fn.definitions))
    defined.sort(key=is_pair)  # their initialisers name functions
    definitions = merge_remainder_tiles(defined)
    lines = [
        "#include <math.h>",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "#include <string.h>",
        "",
        "#include <tvm/runtime/c_backend_api.h>",
        "",
        *(f"#define {name} {value}" for name, value in macros),
        *(f"#include <tvm/runtime/kernels/{h}>" for h in headers),
        *([""] if macros or headers else []),
        *(f'#include "{prefix}_ops.h"' for prefix in prefixes),
        "",
    ]
    for definition in definitions:
        lines += [definition, ""] if "\n" in definition else [definition]
    if lines[-1]:
        lines.append("")
    for function in functions:
        lines += [function.text, ""]
    return name_layers("\n".join(lines), defined)


def _weight_arrays(prefix: str, sources: Sources, options: Options, places: WeightPlacement) -> str:
    attribute = " TVMGEN_RODATA" if options.firmware else ""
    lines = ["#include <math.h>", "#include <stdint.h>", "", f'#include "{prefix}_ops.h"', ""]
    for buffer in sources.weight_buffers:
        if buffer in sources.shared:
            continue
        name, section = sources.symbol_of(buffer), places.sections.get(buffer.name)
        where = attribute if section is None else f' TVMGEN_SECTION("{section}")'
        lines.append(f"const {buffer.dtype.c} {name}[{buffer.size}]{where} = {{")
        row = "  "
        for value in buffer.data:
            text = literal(value, buffer.dtype) + ", "
            if len(row) + len(text.rstrip()) > LINE:
                lines.append(row.rstrip())
                row = "  "
            row += text
        lines += [row.rstrip(), "};", ""]
    return "\n".join(lines)


CPU_REQUIREMENTS_HEADER = "#include <tvm/runtime/kernels/cpu_requirements.h>"
CPU_REQUIREMENTS = [
    "#if defined(__GNUC__)",
    "/* ISA level that this code needs, checked when the library is loaded; weak because each of",
    " * several networks in one program defines it. */",
    "TVM_DLL extern const char __tvmrt_needs[];",
    "#if !defined(_WIN32)",
    "__attribute__((weak))",
    "#endif",
    "const char __tvmrt_needs[] = TVMRT_REQUIRED_LEVEL;",
    "#endif",
    "",
]


def _entry_file(program: Program, prefix: str, sources: Sources, options: Options) -> str:
    sized = program.has_dynamic_dims()
    lines = [
        *METADATA_INCLUDES,
        *(tensor_placement.HEADERS if tensor_placement.is_placed(program) else []),
        *(symbolic_dims.ON_HOSTS.headers if sized else []),
        *([run_plan.HEADER] if program.run_plan is not None else []),
        *([tvm_ffi.HEADER] if options.abi == "tvm-ffi" else []),
        *([CPU_REQUIREMENTS_HEADER] if sources.levels is None else []),
        f'#include "{prefix}_ops.h"',
        "",
        *(CPU_REQUIREMENTS if sources.levels is None else []),
        *manifest.print_manifest(sources.manifest),
        "/* Return the address of a tensor argument's first element. */",
        "static void *tensor_data(TVMValue value) {",
        "  const DLTensor *tensor = (const DLTensor *)value.v_handle;",
        "  return (char *)tensor->data + tensor->byte_offset;",
        "}",
        "",
        *(tensor_placement.READER if tensor_placement.reads_devices(program) else []),
    ]
    arguments = Arguments(program, sources, options)
    lines += arguments.print_offsets()
    lines += symbolic_dims.print_dims(program, prefix)
    lines += run_plan.print_run_plan(program, prefix, options.max_run_bytes)
    if options.packs_operators:
        lines += graph_json.print_entries(program, sources, options, arguments)
    else:
        lines += aot.print_main(program, prefix, sources, options, arguments)
    lines += print_metadata(program, prefix, sources, options)
    lines += print_getter(prefix, "get_dims", f"&{symbolic_dims.NAME}") if sized else []
    lines += tensor_placement.print_placement(program, prefix)
    lines += facts.print_facts(program, prefix)
    if program.states:  # executors check for this function
        lines += ["static const char has_state = 1;", ""]
        lines += print_getter(prefix, "get_state", "&has_state")
    if program.thread_scratch_bytes or options.real_time:  # read when an executor is created
        numbers = f"UINT64_C({program.thread_scratch_bytes}), {int(options.real_time)}"
        lines += [
            "/* Bytes of workspaces at a time; whether runs stay on the caller's thread. */",
            f"static const uint64_t run_needs[] = {{{numbers}}};",
            "",
        ]
        lines += print_getter(prefix, "get_run_needs", "run_needs")
    if not (program_regions(program) or has_custom_files(sources.files)):
        lines += [
            "/* Alignment of inputs in the caller's memory, in bytes: kernels accept any. */",
            "static const uint64_t input_align = 16;",
            "",
        ]
        lines += print_getter(prefix, "get_input_align", "&input_align")
    if options.abi == "tvm-ffi":
        lines += ["", *tvm_ffi.print_entries(program, prefix, options.module_name)]
    return "\n".join(lines) + "\n"


__all__ = ["generate", "print_functions"]
