"""The module of a network: C code that exports its tensors, the C compiler, memory limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tvmrt.compiler.sdk.codegen import (
    dynamic_dim_members,
    firmware_header_name,
    input_tensors,
    output_tensors,
)
from tvmrt.compiler.sdk.export import OPTIMISE, find_compiler, further_flags, run_compiler
from tvmrt.error import UnsupportedError
from tvmrt.libinfo import find_include_path

STACK_BYTES = 256 << 10
MAX_BYTES = 1 << 31  # the linker fails with data at higher addresses
ALIGN_BYTES = 16
# C files of a network that a module does not need, by the end of their names.
_OPTIONAL = ("_checked.c", "_step.c", "_metadata.c", "_system_lib.c")
_EXPORT = '__attribute__((export_name("{}")))'


def dims(library: Any) -> list[Any]:
    """Return the dynamic dimensions, each with its member of the C struct."""
    return list(dynamic_dim_members(library.program))


def _nbytes(library: Any) -> list[int]:
    """Return the bytes of inputs and outputs at the largest sizes."""
    return [t.nbytes for t in (*library.summary.inputs, *library.summary.outputs)]


def check_memory(library: Any, name: str) -> None:
    """Raise UnsupportedError if a network needs more memory than a module has."""
    summary = library.summary
    total = summary.weights_bytes + summary.arena_bytes + sum(_nbytes(library)) + 2 * STACK_BYTES
    if total > MAX_BYTES:
        raise UnsupportedError(
            f"{name}: the network needs {total / 2**30:.2f} GiB for weights and tensors, and a "
            f"WebAssembly module has {MAX_BYTES >> 30} GiB; choose smaller shapes or dims, or "
            "compile it for a host"
        )


def glue(library: Any) -> str:
    """Return C code that holds inputs and outputs, and exports their addresses and the run."""
    prefix, program = library.sources.prefix, library.program
    inputs = [t.member for t in input_tensors(program)]
    outputs = [t.member for t in output_tensors(program)]
    named = [*(f"in_{m}" for m in inputs), *(f"out_{m}" for m in outputs)]
    sized = bool(dims(library))
    lines = [
        "#include <stddef.h>",
        "#include <stdint.h>",
        f'#include "{firmware_header_name(prefix)}"',
        *(
            f"static _Alignas({ALIGN_BYTES}) unsigned char {name}[{max(nbytes, 1)}];"
            for name, nbytes in zip(named, _nbytes(library))
        ),
        f"static void *const tensors[] = {{{', '.join(named)}}};",
        f"{_EXPORT.format('tensor')} void *tvmrt_tensor(int32_t i) {{ return tensors[i]; }}",
        *(_sizes(prefix) if sized else []),
        f"{_EXPORT.format('run')} int32_t tvmrt_run(void) {{",
    ]
    arguments = []
    for kind, members in (("inputs", inputs), ("outputs", outputs)):
        if members:
            values = ", ".join(f"{kind.removesuffix('puts')}_{member}" for member in members)
            lines.append(f"  struct {prefix}_{kind} {kind} = {{{values}}};")
            arguments.append(f"&{kind}")
    arguments += ["&dims"] if sized else []
    lines += [f"  return {prefix}_run({', '.join(arguments)});", "}"]
    if program.states:
        lines.append(
            f"{_EXPORT.format('reset')} void tvmrt_reset(void) {{ {prefix}_reset_state(); }}"
        )
    return "\n".join(lines) + "\n"


def _sizes(prefix: str) -> list[str]:
    """Return C code for the sizes of one run, and the shapes that they determine."""
    return [
        f"static struct {prefix}_dims dims;",
        f"static struct {prefix}_shapes shapes;",
        f"{_EXPORT.format('dims')} void *tvmrt_dims(void) {{ return &dims; }}",
        f"{_EXPORT.format('shapes')} void *tvmrt_shapes(void) {{",
        f"  {prefix}_measure(&dims, &shapes, NULL);",
        "  return &shapes;",
        "}",
    ]


def compile_module(library: Any, folder: Path) -> bytes:
    """Compile and link the module in a folder; return its bytes. Raises CompileError if no compiler
    is installed, or with the compiler's first error."""
    files = {k: v for k, v in library.sources.files.items() if not k.endswith(_OPTIONAL)}
    files["module_glue.c"] = glue(library)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    target = library.target
    command = find_compiler(library.compiler, target.triple)
    if not any(word.startswith(("-target", "--target")) for word in command):
        command.append(f"--target={target.triple}")
    run_compiler(
        [
            *command, "-mexec-model=reactor", *target.flags, *OPTIMISE, "-std=c11",
            *(f"-I{each}" for each in find_include_path()), "-I.",
            f"-Wl,-z,stack-size={STACK_BYTES}", "-s", *further_flags(),
            *sorted(name for name in files if name.endswith(".c")), "-o", "network.wasm",
        ],
        folder,
    )  # fmt: skip
    return (folder / "network.wasm").read_bytes()
