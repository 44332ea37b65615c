"""C files of a firmware network other than its operators: header, entries, metadata."""

from __future__ import annotations

from tvmrt.compiler.ir.program import Program

from ..c import cplusplus
from ..entries.arguments import Arguments
from ..entries.metadata import INCLUDES, accessor_declarations, print_metadata
from ..options import Options
from ..target import Target
from . import (
    call_lines,
    dynamic_dims,
    function_table,
    link_guard,
    main,
    pool_functions,
    run_checked,
    state,
    step,
    trace,
    weight_file,
)
from . import header as header_file
from .tensor_names import header_name, own_include


def add_firmware_files(
    program: Program, prefix: str, sources, options: Options, target: Target, head: str
) -> None:
    """Add the files that call the operators; ``head`` is the comment at the start of all files."""
    arguments = Arguments(program, sources, options)
    if options.executor == "graph":
        text = function_table.print_file(program, prefix, sources, options, arguments)
        sources.files[f"{prefix}_lib0.c"] = text
        return
    sliced = options.interface_api == "c"
    more = run_checked.declarations(program, prefix, options)
    more += dynamic_dims.declarations(program, prefix)
    more += accessor_declarations(prefix) if sliced else []
    more += weight_file.declarations(prefix, sources, options)
    added = call_lines.make(program, prefix, sources, options, arguments)
    more += added.declarations()
    more += pool_functions.load_declarations(program, prefix, options, sources)
    more += state.declarations(program, prefix)
    more += step.declarations(program, prefix, added) if sliced else []
    if options.traced:
        more += trace.declarations(program, prefix, options)
        sources.files.update(trace.print_files(program, prefix, sources, options, target))
    body = header_file.print_body(program, prefix, options, sources.flash_bytes, more)
    entry = main.print_file(program, prefix, sources, options, arguments)
    if options.weights_in_blob:
        operators = [text for _, text in sorted(sources.files.items())]
        sources.layout = weight_file.layout_of(sources, [*operators, *body, entry])
    parts = [head + text for _, text in sorted(sources.files.items())]
    parts += [*body, *arguments.print_offsets(), program.name, options.executor]
    # a program without weights has one header for all of them
    weights = f"{sources.layout:016x}" if options.weights_in_blob else sources.weights
    sources.network_id = link_guard.identity(weights, *parts)
    files, number = sources.files, sources.network_id
    files[header_name(prefix)] = header_file.print_header(prefix, options, number, body)
    files[f"{prefix}_lib0.c"] = entry
    files |= weight_file.print_files(program, prefix, sources, options)
    files |= added.files()
    files[f"{prefix}_checked.c"] = run_checked.print_file(program, prefix, options)
    files |= dynamic_dims.print_file(program, prefix)
    files |= pool_functions.print_files(program, prefix, sources, options, arguments)
    if sliced:
        text = step.print_step_file(program, prefix, sources, options, arguments)
        files[f"{prefix}_step.c"] = text
    else:
        files[f"{prefix}_system_lib.c"] = function_table.print_system_library(prefix)
    files[f"{prefix}_metadata.c"] = _metadata_file(program, prefix, sources, options)


def _metadata_file(program: Program, prefix: str, sources, options: Options) -> str:
    lines = [
        *INCLUDES,
        *cplusplus.WORDS,
        *([*own_include(prefix), ""] if options.interface_api == "c" else []),
        *print_metadata(program, prefix, sources, options),
    ]
    return "\n".join(lines) + "\n"
