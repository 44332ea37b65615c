"""The C files of a network: operator functions, the main function, packed entries, weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tvmrt import __version__
from tvmrt.ir import ModuleBlob
from tvmrt.ir.custom import shown_op
from tvmrt.ir.program import ALIGN_BYTES, ARENA, CONSTANT, INPUT, OUTPUT, Buffer, Program

from . import firmware_devices
from .custom_files import add_custom_files, split_functions
from .device_files import add_device_files
from .metadata import accessor_declarations, print_metadata
from .naming import Namer, identifier
from .target import Target
from .writer import (
    Function,
    FunctionWriter,
    Parameter,
    Weights,
    access_note,
    comment_text,
    literal,
    wrap,
)

OPERATORS_PER_FILE = 24  # several files let the compiler use several processors


@dataclass
class Options:
    """What the generated code must look like from outside.

    ``params``: ``embed`` puts the weights into an object assembled from bytes, ``flash`` into C
    arrays, ``file`` leaves them out: they become inputs of the main function. ``runtime`` ``crt``
    makes code for machines without an operating system, called by ``interface_api``; its memory is
    its own, the caller's, or that of the ``image`` of several networks (a prefix of symbols).

    Of constants by their names, ``resident`` gives pool and address of those that are copied at the
    start, ``sections`` the linker's sections of those that do not lie with the others. By their
    content, ``shared_weights`` gives the symbols of those that networks generated before for the
    same image have.

    ``profile`` and ``record`` let the code note the cycles of its operators and digests of its
    tensors, in a ring of ``trace_records`` (None: enough for one run).
    """

    module_name: str = "default"
    executor: str = "graph"
    params: str = "embed"
    origin: str = ""
    runtime: str = "host"
    interface_api: str = "packed"
    unpacked_api: bool = False
    image: str | None = None
    resident: dict[str, tuple[int, int]] = field(default_factory=dict)
    sections: dict[str, str] = field(default_factory=dict)
    shared_weights: dict[tuple, str] | None = None
    profile: bool = False
    record: bool = False
    trace_records: int | None = None

    @property
    def traced(self) -> bool:
        return self.profile or self.record

    @property
    def firmware(self) -> bool:
        return self.runtime == "crt"


@dataclass
class Sources:
    """Everything that is written to files for one network.

    ``resident`` are the constants that are copied to pools at the start, ``shared`` those that
    another network of the image has, with its symbols for them.
    """

    files: dict[str, str] = field(default_factory=dict)
    weights: bytes = b""
    weight_buffers: list[Buffer] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    prefix: str = ""
    resident: list[Buffer] = field(default_factory=list)
    shared: dict[Buffer, str] = field(default_factory=dict)
    # compiled parts that come with it, by file name; archives carry them in codegen/host/lib
    objects: dict[str, bytes] = field(default_factory=dict)
    # of regions on other devices: modules to import, flags by file, flags for the linker
    modules: list[ModuleBlob] = field(default_factory=list)
    flags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    link_flags: list[str] = field(default_factory=list)

    def symbol_of(self, buffer: Buffer) -> str:
        """The C array of a constant, where constants are arrays."""
        return self.shared.get(buffer) or f"{self.prefix}_w_{identifier(buffer.name)}"


def prefix_of(module_name: str) -> str:
    """``tvmgen_<name>``, the prefix of every symbol."""
    return f"tvmgen_{module_name}" if module_name else "tvmgen"


def print_functions(program: Program, target: Target, options: Options) -> Sources:
    """The operators as C functions, and the constants that they read; no places are needed."""
    weights = Weights()
    prefix = prefix_of(options.module_name)
    sources = Sources(prefix=prefix)
    symbols = Namer()
    for word in _ENTRY_NAMES:
        symbols.take(word)
    for step in program.steps:
        symbol = f"{prefix}_{symbols.take(step.name)}"
        sources.functions.append(print_function(symbol, step, weights, target))
    sources.weight_buffers = _named(weights, prefix, sources.functions)
    return sources


def generate(program: Program, target: Target, options: Options) -> Sources:
    """All files of the network. The same program and options give the same bytes."""
    sources = print_functions(program, target, options)
    prefix = sources.prefix
    sources.weights = _lay_out(sources.weight_buffers)
    _move_to_pools(sources, options)
    if options.shared_weights is not None:
        _share_weights(sources, options.shared_weights)
    head = _head(program, options)
    sources.files[f"{prefix}_ops.h"] = head + _ops_header(prefix, sources, options)
    # firmware in one file, so that no kernel is in the image twice
    most = OPERATORS_PER_FILE if target.hosted else max(1, len(sources.functions))
    for i, chunk in enumerate(split_functions(sources.functions, most)):
        sources.files[f"{prefix}_lib{i + 1}.c"] = head + _operator_file(prefix, chunk, target)
    if options.firmware and options.executor == "graph":
        from . import firmware_graph

        arguments = Arguments(program, sources, options)
        text = firmware_graph.print_file(program, prefix, sources, options, arguments)
        sources.files[f"{prefix}_lib0.c"] = head + text
    elif options.firmware:
        _firmware_files(program, prefix, sources, options, target, head)
    else:
        sources.files[f"{prefix}_lib0.c"] = head + _entry_file(program, prefix, sources, options)
    add_device_files(program, prefix, sources, head)
    add_custom_files(program, sources.files)
    if options.params == "flash":
        sources.files[f"{prefix}_weights.c"] = head + _weight_arrays(prefix, sources, options)
    return sources


# What follows the prefix in symbols that are no operators.
_ENTRY_NAMES = (
    "run", "network", "weights", "workspace", "profile_slot", "get_c_metadata",
    "get_model_metadata", "metadata", "model_metadata", "step", "step_begin", "run_checked",
    "load", "map_inputs", "map_outputs", "trace", "trace_begin", "trace_add", "module",
    "graph_json", "graph_create",
)  # fmt: skip
_LOCALS = ("state", "begin", "cycles")  # of functions that call operators


def _firmware_files(
    program: Program, prefix: str, sources, options: Options, target: Target, head: str
) -> None:
    from . import (
        firmware_checked,
        firmware_graph,
        firmware_header,
        firmware_main,
        firmware_pool_calls,
        firmware_step,
        firmware_trace,
    )

    arguments = Arguments(program, sources, options)
    sliced = options.interface_api == "c"
    more = firmware_checked.declarations(program, prefix, options)
    more += accessor_declarations(prefix) if sliced else []
    more += firmware_pool_calls.load_declarations(program, prefix, options, sources)
    more += firmware_step.declarations(program, prefix, options) if sliced else []
    if options.traced:
        more += firmware_trace.declarations(program, prefix, options)
        files = firmware_trace.print_files(program, prefix, sources, options, target)
        sources.files.update({name: head + text for name, text in files.items()})
    weights_bytes = sum(b.nbytes for b in sources.weight_buffers)
    header = firmware_header.print_header(program, prefix, options, weights_bytes, more)
    sources.files[firmware_header.header_name(prefix)] = head + header
    entry = firmware_main.print_file(program, prefix, sources, options, arguments)
    sources.files[f"{prefix}_lib0.c"] = head + entry
    text = firmware_checked.print_file(program, prefix, options)
    sources.files[f"{prefix}_checked.c"] = head + text
    more_files = firmware_pool_calls.print_files(program, prefix, sources, options, arguments)
    sources.files.update({name: head + text for name, text in more_files.items()})
    if sliced:
        text = firmware_step.print_step_file(program, prefix, sources, options, arguments)
        sources.files[f"{prefix}_step.c"] = head + text
    else:
        text = firmware_graph.print_system_library(prefix)
        sources.files[f"{prefix}_system_lib.c"] = head + text
    text = _metadata_file(program, prefix, sources, options)
    sources.files[f"{prefix}_metadata.c"] = head + text


def _metadata_file(program: Program, prefix: str, sources, options: Options) -> str:
    from .firmware_header import header_name

    lines = [
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "#include <tvm/runtime/c_backend_api.h>",
        "#include <tvm/runtime/metadata.h>",
        "",
        *([f'#include "{header_name(prefix)}"', ""] if options.interface_api == "c" else []),
        *print_metadata(program, prefix, sources, options),
    ]
    return "\n".join(lines) + "\n"


def _named(weights: Weights, prefix: str, functions: Sequence[Function]) -> list[Buffer]:
    """The constants that have elements, each with a name that makes a symbol of its own."""
    names = Namer()
    for function in functions:
        stem = function.symbol[len(prefix) + 1 :]
        if stem.startswith("w_"):
            names.take(stem[2:])
    buffers = [b for b in weights.buffers() if b.size]
    for buffer in buffers:
        buffer.name = names.take(buffer.name)
    return buffers


def print_function(symbol: str, step, weights: Weights, target: Target) -> Function:
    """One operator function as text."""
    f = FunctionWriter(symbol, step, weights, target.threads)
    step.lowering.emit(step, f)
    parameters = f.parameters()
    if f.kernel_bytes and not target.hosted:
        begin = step.scratch_bytes - f.kernel_bytes
        f.lines.insert(0, f"  tvmrt_scratch_lend({f.scratch()} + {begin}, {f.kernel_bytes});")
    lines = [*f.helpers, *_comment(step, f)]
    if f.parallel_extent is None:
        lines += [*_signature(symbol, parameters, " {"), *f.lines, "}"]
    else:
        lines += _parallel_function(symbol, parameters, f)
    text = "\n".join(lines)
    return Function(symbol, step, parameters, text, f.definitions, f.includes, f.macros)


def _comment(step, f: FunctionWriter) -> list[str]:
    ops = comment_text(", ".join(dict.fromkeys(shown_op(n) for n in step.group.nodes)))
    layers = ", ".join(comment_text(s) for s in step.sources)
    lines = ["/*", f" * {ops}: {layers}", " *"]
    for parameter, access in zip(f.reads, step.reads):
        lines.append(f" * {parameter.name}: {access_note(access)}")
    for parameter, access in zip(f.writes, step.writes):
        lines.append(f" * {parameter.name}: {access_note(access)}, the result")
    return [*lines, " */"]


def _signature(symbol: str, parameters: Sequence[Parameter], end: str) -> list[str]:
    declared = [p.declare() for p in parameters] or ["void"]
    return wrap(f"int32_t {symbol}", declared, end)


def _parallel_function(symbol: str, parameters: Sequence[Parameter], f: FunctionWriter):
    """A task over a part of the outermost loop, its arguments, and the launch on all threads."""
    extent = f.parallel_extent
    plain = [p.declare().replace("restrict ", "") for p in parameters]
    return [
        "typedef struct {",
        *(f"  {text};" for text in plain),
        f"}} {symbol}_args;",
        "",
        f"static int {symbol}_task(int task_id, TVMParallelGroupEnv *env, void *cdata) {{",
        f"  const {symbol}_args *args = (const {symbol}_args *)cdata;",
        *(f"  {p.declare()} = args->{p.name};" for p in parameters),
        f"  const int begin = (int)((int64_t){extent} * task_id / env->num_task);",
        f"  const int end = (int)((int64_t){extent} * (task_id + 1) / env->num_task);",
        *f.lines,
        "}",
        "",
        *_signature(symbol, parameters, " {"),
        f"  {symbol}_args args = {{{', '.join(p.name for p in parameters)}}};",
        f"  return TVMBackendParallelLaunch({symbol}_task, &args, 0);",
        "}",
    ]


def _head(program: Program, options: Options) -> str:
    return (
        f"/*\n * Network {comment_text(program.name)}"
        + (f", {comment_text(options.origin)}" if options.origin else "")
        + f"\n * Generated by tvmrt {__version__}; change the network and compile it again\n"
        " * instead of editing.\n */\n"
    )


def _lay_out(buffers: Sequence[Buffer]) -> bytes:
    """Give each constant its offset in the blob, and the blob's bytes."""
    parts, offset = [], 0
    for buffer in buffers:
        pad = -offset % ALIGN_BYTES
        parts.append(b"\0" * pad)
        offset += pad
        buffer.address = offset
        data = buffer.data.astype(buffer.data.dtype.newbyteorder("<"), copy=False).tobytes()
        parts.append(data)
        offset += len(data)
    return b"".join(parts)


def _move_to_pools(sources: Sources, options: Options) -> None:
    """Let constants that are copied to pools be read there."""
    for buffer in sources.weight_buffers:
        if buffer.name in options.resident:
            buffer.kind = ARENA
            buffer.pool, buffer.address = options.resident[buffer.name]
            sources.resident.append(buffer)


def _share_weights(sources: Sources, known: dict[tuple, str]) -> None:
    """Take constants from networks that have the same ones, and offer the others."""
    for buffer in sources.weight_buffers:
        key = (str(buffer.dtype), buffer.data.tobytes())
        if key in known:
            sources.shared[buffer] = known[key]
        else:
            known[key] = sources.symbol_of(buffer)


def _ops_header(prefix: str, sources: Sources, options: Options) -> str:
    guard = f"{prefix.upper()}_OPS_H_"
    lines = [
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdint.h>",
        "",
        "#if defined(__GNUC__) && !defined(_WIN32)",
        '#define TVMGEN_LOCAL __attribute__((visibility("hidden")))',
        "#else",
        "#define TVMGEN_LOCAL",
        "#endif",
        "",
        *(PLACEMENT if options.firmware else []),
    ]
    if options.params == "embed" and sources.weight_buffers:
        lines += [
            "/* All weights, one after the other; see the offsets where they are passed. */",
            f"extern const unsigned char TVMGEN_LOCAL {prefix}_weights[];",
            "",
        ]
    if options.params == "flash":
        lines += [
            f"extern const {b.dtype.c} TVMGEN_LOCAL {sources.symbol_of(b)}[{b.size}];"
            for b in sources.weight_buffers
        ]
        lines.append("")
    for function in sources.functions:
        lines += _local(_signature(function.symbol, function.parameters, ";"))
    lines += ["", f"#endif /* {guard} */", ""]
    return "\n".join(lines)


PLACEMENT = [
    "/* Sections by which a linker script places weights and workspace. */",
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


def _local(lines: list[str]) -> list[str]:
    return ["TVMGEN_LOCAL " + lines[0], *lines[1:]]


def _operator_file(prefix: str, functions: Sequence[Function], target: Target) -> str:
    headers = sorted({h for fn in functions for h in fn.includes})
    macros = sorted({item for fn in functions for item in fn.macros.items()})
    if not target.hosted:
        macros.append(("TVMRT_FREESTANDING", "1"))
    definitions = list(dict.fromkeys(d for fn in functions for d in fn.definitions))
    lines = [
        "#include <math.h>",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "#include <string.h>",
        "",
        "#include <tvm/runtime/c_backend_api.h>",
        *(f"#define {name} {value}" for name, value in macros),
        *(f"#include <tvm/runtime/kernels/{h}>" for h in headers),
        "",
        f'#include "{prefix}_ops.h"',
        "",
        *definitions,
        *([""] if definitions else []),
    ]
    for function in functions:
        lines += [function.text, ""]
    return "\n".join(lines)


def _weight_arrays(prefix: str, sources: Sources, options: Options) -> str:
    place = " TVMGEN_RODATA" if options.firmware else ""
    lines = ["#include <math.h>", "#include <stdint.h>", "", f'#include "{prefix}_ops.h"', ""]
    for buffer in sources.weight_buffers:
        if buffer in sources.shared:
            continue
        name, section = sources.symbol_of(buffer), options.sections.get(buffer.name)
        where = place if section is None else f' TVMGEN_SECTION("{section}")'
        lines.append(f"const {buffer.dtype.c} {name}[{buffer.size}]{where} = {{")
        row = "  "
        for value in buffer.data:
            text = literal(value, buffer.dtype) + ", "
            if len(row) + len(text) > 100:
                lines.append(row.rstrip())
                row = "  "
            row += text
        lines += [row.rstrip(), "};", ""]
    return "\n".join(lines)


class Arguments:
    """What the callers of operator functions pass: expressions for buffers by their kind.

    Places in the workspace and among the weights get names, printed by ``places()``.
    """

    def __init__(self, program: Program, sources: Sources, options: Options) -> None:
        self.prefix = sources.prefix
        self.options = options
        self.names: dict[Buffer, str] = {}
        self._places: dict[Buffer, str] = {}
        self._sources = sources
        self._weights = sources.weight_buffers
        self._arena = [*program.arena_buffers(), *sources.resident]
        taken = Namer()
        contexts = map(firmware_devices.variable, firmware_devices.hooked(program))
        for word in ("rc", "args", "type_codes", "num_args", "tensor_data", *_LOCALS, *contexts):
            taken.take(word)
        # what the functions that pass a pool on call it, by the pool's number
        self.pools = [taken.take(p.name) for p in program.pools] or [taken.take("workspace")]
        for buffer in [*program.inputs, *program.outputs]:
            self.names[buffer] = taken.take(buffer.name)
        for buffer in self._arena:
            self._places[buffer] = taken.take(buffer.name, "at_")
        if options.params == "embed":
            for buffer in self._weights:
                self._places[buffer] = taken.take(buffer.name, "w_")

    def place(self, buffer: Buffer) -> str:
        """The name of a buffer's offset in its pool."""
        return self._places[buffer]

    def named_places(self) -> list[tuple[str, Buffer]]:
        """Names of offsets in pools, with what lies there."""
        return [(self._places[b], b) for b in self._arena]

    def places(self) -> list[str]:
        """Lines of C that name the offsets."""
        lines = []
        for number, name in enumerate(self.pools):
            inside = [b for b in self._arena if b.pool == number]
            lines += self._enum(f"Bytes into {name}.", inside)
        if self.options.params == "embed":
            lines += self._enum(f"Bytes into {self.prefix}_weights.", self._weights)
        return lines

    def _enum(self, comment: str, buffers: Sequence[Buffer]) -> list[str]:
        if not buffers:
            return []
        if max(b.address for b in buffers) > 0x7FFFFFFF:
            rows = [f"#define {self._places[b]} UINT64_C({b.address})" for b in buffers]
            return [f"/* {comment} */", *rows, ""]
        rows = [f"  {self._places[b]} = {b.address}," for b in buffers]
        return [f"/* {comment} */", "enum {", *rows, "};", ""]

    def expression(self, parameter: Parameter) -> str:
        buffer = parameter.buffer
        if buffer.kind in (INPUT, OUTPUT):
            text = self.names[buffer]
        elif buffer.kind == ARENA:
            text = self._at(self.pools[buffer.pool], buffer, parameter.const)
        else:
            text = self.weight(buffer)
        return f"{text} + {parameter.offset}" if parameter.offset else text

    def _at(self, base: str, buffer: Buffer, const: bool) -> str:
        place = f"{base} + {self._places[buffer]}"
        if buffer.dtype.c == "uint8_t":
            return place
        return f"({'const ' if const else ''}{buffer.dtype.c} *)({place})"

    def weight(self, buffer: Buffer) -> str:
        if not buffer.size:
            return "NULL"
        if self.options.params == "flash":
            return self._sources.symbol_of(buffer)
        if self.options.params == "file":
            return f"w_{identifier(buffer.name)}"
        return self._at(f"{self.prefix}_weights", buffer, True)


def call_text(function: Function, arguments: Arguments) -> str:
    """``symbol(argument, ...)``"""
    return f"{function.symbol}({', '.join(call_arguments(function, arguments))})"


def call_arguments(function: Function, arguments: Arguments) -> list[str]:
    """The expressions that a caller passes."""
    return [arguments.expression(p) for p in function.parameters]


def weight_inputs(sources: Sources, options: Options) -> list[Buffer]:
    """Constants that the caller passes, as further inputs named like their layers."""
    return sources.weight_buffers if options.params == "file" else []


def _entry_file(program: Program, prefix: str, sources: Sources, options: Options) -> str:
    from . import aot_main, graph_entries

    lines = [
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "#include <tvm/runtime/c_backend_api.h>",
        "#include <tvm/runtime/metadata.h>",
        "",
        f'#include "{prefix}_ops.h"',
        "",
        "/* Where a tensor argument's elements begin. */",
        "static void *tensor_data(TVMValue value) {",
        "  const DLTensor *tensor = (const DLTensor *)value.v_handle;",
        "  return (char *)tensor->data + tensor->byte_offset;",
        "}",
        "",
    ]
    arguments = Arguments(program, sources, options)
    lines += arguments.places()
    if options.executor == "aot":
        lines += aot_main.print_main(program, prefix, sources, options, arguments)
    else:
        lines += graph_entries.print_entries(program, prefix, sources, options, arguments)
    lines += print_metadata(program, prefix, sources, options)
    return "\n".join(lines) + "\n"


__all__ = ["CONSTANT", "Options", "Sources", "call_text", "generate", "prefix_of", "weight_inputs"]
