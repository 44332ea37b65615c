"""Operator functions for several ISA levels, and a dispatch table by level.

The functions of a level lie in separate files, compiled for that level only. The public function is
compiled for all processors of the family and calls the function of the active level, which is
chosen when the library is loaded. All functions of an operator take the same parameters, including
every constant that any of them reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tvmrt.compiler.ir.program import Buffer, Step

from .c.formatting import wrap, wrap_text
from .c.function import finish_function, signature, write_function
from .c.packed_functions import WEAK, exported_head, shared_name
from .c.writer import Function, FunctionWriter, NetworkContext, Parameter
from .target import Target

# Macros that the compiler defines with the flags of a level.
_DEFINED = {
    "v2": "__SSE4_2__",
    "v3": "__AVX2__",
    "v3vnni": "__AVXVNNI__",
    "v4": "__AVX512VL__",
    "v4vnni": "__AVX512VNNI__",
    "v4vbmi": "__AVX512VBMI__",
    "v4bf16": "__AVX512BF16__",
    "v4amx": "__AMX_BF16__",
    "neon": "__ARM_NEON",
    "dot": "__ARM_FEATURE_DOTPROD",
    "i8mm": "__ARM_FEATURE_MATMUL_INT8",
    "bf16": "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC",
    "vfp": "__ARM_FP",
    "rv64": "__riscv_flen",
    "rvv": "__riscv_vector",
}
# symbols after the prefix
RESERVED_NAMES = ("level", "level_in_use", "no_level", "levels", "get_level")
ERROR_TEXT_BYTES = 512  # of the error text for a processor without a matching level


@dataclass
class LevelFunctions:
    """Functions of every level by operator symbol, and the level names in ascending order. A level
    may reuse the function of a lower one."""

    names: list[str]
    by_level: dict[str, dict[str, Function]] = field(default_factory=dict)

    def add(self, function: Function, own: Sequence[Function]) -> None:
        """Add an operator: its dispatching function and the function of each level."""
        for name, each in zip(self.names, own):
            self.by_level.setdefault(name, {})[function.symbol] = each

    def functions_printed_for(self, name: str) -> list[Function]:
        """Return the functions that are printed for a level, without those of lower levels."""
        level_index = self.names.index(name)
        before = {
            f.symbol for n in self.names[:level_index] for f in self.functions_by_symbol(n).values()
        }
        return [f for f in self.functions_by_symbol(name).values() if f.symbol not in before]

    def functions_by_symbol(self, name: str) -> dict[str, Function]:
        """Return a level's functions by the symbol of their dispatching function."""
        return self.by_level.get(name, {})


def print_dispatched_function(
    prefix: str,
    symbol: str,
    names: Sequence[str],
    step: Step,
    common: NetworkContext,
    target: Target,
) -> tuple[Function, list[Function]]:
    """Return the dispatching function and the functions of the levels, called ``names``."""
    writers = {}
    for level, name in reversed(list(zip(target.levels, names))):  # widest first: names weights
        level_step = replace(step, lowering=step.levels[level.name])
        writers[level.name] = write_function(name, level_step, common)
    ordered = [writers[level.name] for level in target.levels]
    same = _lowest_equivalents(ordered, target.levels)
    constants = _all_constants(reversed(ordered))
    for writer in ordered:
        writer.take_constants(constants)
    functions = [finish_function(writer) for writer in ordered]
    dispatcher = _dispatcher(prefix, symbol, step, functions[-1].parameters)
    return dispatcher, [functions[i] for i in same]


def _all_constants(writers) -> list[Buffer]:
    """Return the constants that any of the functions reads."""
    return list(dict.fromkeys(buffer for writer in writers for buffer in writer.constants))


def _lowest_equivalents(writers: Sequence[FunctionWriter], levels: Sequence[Target]) -> list[int]:
    """Return for each level the index of the lowest level with an equivalent function."""
    lowest: list[int] = []
    for i, (writer, level) in enumerate(zip(writers, levels)):
        equivalents = (j for j in lowest if _is_equivalent(writers[j], levels[j], writer, level))
        lowest.append(next(equivalents, i))
    return lowest


def _is_equivalent(a: FunctionWriter, one: Target, b: FunctionWriter, other: Target) -> bool:
    """Return whether the code for a lower level is as good: its text and all the target fields that
    it was optimised for are equal."""
    if any(getattr(one, name) != getattr(other, name) for name in a.target_fields):
        return False
    return _content(a) == _content(b)


def _content(f: FunctionWriter) -> tuple:
    """Return the printed content, with the function's own symbols replaced by numbers."""
    placeholders = {name: f"*{i}*" for i, name in enumerate((f.symbol, *f.statics))}
    symbols = sorted(placeholders, key=len, reverse=True)  # one may be the prefix of another
    texts = []
    for printed in (*f.definitions, *f.helpers, *f.lines, *f.lines_after_tasks):
        text = str(printed)
        for symbol in symbols:
            text = text.replace(symbol, placeholders[symbol])
        texts.append(text)
    return texts, f.parallel_extent, f.macros, f.includes, f.constants


def _dispatcher(prefix: str, symbol: str, step: Step, parameters: list[Parameter]) -> Function:
    """Return the function that dispatches calls to the active level."""
    used = _active_level(prefix)
    lines = [
        "/* Run the step for the active ISA level. */",
        *signature(symbol, parameters, " {"),
        f"  if ({used} == NULL) return {prefix}_no_level();",
        *wrap(f"return {used}->{symbol}", [p.name for p in parameters], ";", 1),
        "}",
    ]
    return Function(symbol, step, parameters, "\n".join(lines))


def _active_level(prefix: str) -> str:
    return f"{prefix}_level_in_use"


def declarations(prefix: str, levels: LevelFunctions) -> list[str]:
    """Return header lines: the functions of all levels, their table and the active level."""
    lines = []
    for name in levels.names:
        lines += [f"/* For {name}. */"]
        for function in levels.functions_printed_for(name):
            lines += signature(function.symbol, function.parameters, ";", "TVMGEN_LOCAL int32_t")
    lines += ["", "/* Operators of one ISA level. */", "typedef struct {"]
    for symbol, function in levels.functions_by_symbol(levels.names[-1]).items():
        lines += signature(f"(*{symbol})", function.parameters, ";", depth=1)
    return [
        *lines,
        f"}} {prefix}_level;",
        "",
        "/* Operators of the active level, selected at load time; NULL if none is supported. */",
        f"extern TVMGEN_LOCAL const {prefix}_level *{_active_level(prefix)};",
        "/* Report why no level is supported; return -1. */",
        f"TVMGEN_LOCAL int32_t {prefix}_no_level(void);",
        "",
    ]


def head(level: Target) -> str:
    """Return the head of a level's file, with its compiler flags."""
    missing = f"defined(__GNUC__) && !defined({_DEFINED[level.name]})"
    lines = [
        f"/* For {level.name}: compile with",
        *wrap_text(" ".join(level.flags), 93, " * ", " * "),
        " */",
        *_pragma(level, missing),
        f"#if {missing}",
        f'#error "This file is for {level.name}; its first lines have the flags that it needs."',
        "#endif",
        "",
    ]
    return "\n".join(lines)


def _pragma(level: Target, missing: str) -> list[str]:
    """Return lines that set GCC's target if the command line lacks the flags. Flags that do not
    name instruction sets have no such form."""
    if not level.flags or any(not f.startswith("-m") or "-march=" in f for f in level.flags):
        return []
    names = " ".join(flag[2:] for flag in level.flags)
    rows = wrap_text(names, 70)
    return [
        f"#if {missing} && !defined(__clang__)",
        *(f'#pragma GCC target("{row.replace(" ", ",")}")' for row in rows),
        "#endif",
    ]


def print_level_selection(prefix: str, levels: LevelFunctions) -> str:
    """Return the file that selects a level and reports the selection."""
    lines = [
        "#include <stddef.h>",
        "",
        "#include <tvm/runtime/c_backend_api.h>",
        "#include <tvm/runtime/c_runtime_api.h>",
        "#include <tvm/runtime/kernels/cpu_dispatch.h>",
        "",
        f'#include "{prefix}_ops.h"',
        "",
        f"const {prefix}_level *{_active_level(prefix)} = NULL;",
        "",
        f"static const {prefix}_level levels[] = {{",
    ]
    for name in levels.names:
        functions = [function.symbol for function in levels.functions_by_symbol(name).values()]
        lines += wrap(f"/* {name} */ ", functions, ",", 1, brackets="{}")
    return "\n".join(
        [*lines, "};", "", *_level_constructor(prefix, levels), *_level_queries(prefix)]
    )


def _level_constructor(prefix: str, levels: LevelFunctions) -> list[str]:
    """Return C lines with the level names and the constructor that selects a level."""
    names = ", ".join(f'"{name}"' for name in levels.names)
    return [
        f"static const char *const names[] = {{{names}}};",
        "",
        "/* Read by tools that do not load the library; weak because each of several networks in",
        " * one program defines it. */",
        "TVM_DLL extern const char __tvmrt_levels[];",
        *WEAK,
        f'const char __tvmrt_levels[] = "{",".join(levels.names)}";',
        "",
        f"static char refusal[{ERROR_TEXT_BYTES}];",
        "",
        "__attribute__((constructor)) static void choose(void) {",
        "  tvmrt_processor processor;",
        "  tvmrt_detect_processor(&processor);",
        *(["  tvmrt_request_amx_permission(&processor);"] if "v4amx" in levels.names else []),
        '  const char *forced = getenv("TVMRT_LEVEL");',
        f"  const int chosen = tvmrt_choose_level(&processor, names, {len(levels.names)}, forced,",
        "                                        refusal, sizeof(refusal));",
        f"  if (chosen >= 0) {_active_level(prefix)} = &levels[chosen];",
        "}",
        "",
    ]


def _level_queries(prefix: str) -> list[str]:
    """Return C lines that report the active level, or why no level fits."""
    return [
        f"int32_t {prefix}_no_level(void) {{",
        "  TVMAPISetLastError(refusal);",
        "  return -1;",
        "}",
        "",
        "/* Return why this processor cannot run the library, or NULL; called at load time. */",
        "TVM_DLL const char *__tvmrt_refusal(void);",
        *WEAK,
        "const char *__tvmrt_refusal(void) {",
        f"  return {_active_level(prefix)} == NULL ? refusal : NULL;",
        "}",
        "",
        *exported_head(
            f"{prefix}_get_level", ["args", "type_codes", "num_args", "resource_handle"]
        ),
        f"  if ({_active_level(prefix)} == NULL) return {prefix}_no_level();",
        "  /* a NUL-terminated text; the ABI has no const handle, the text is only read */",
        f"  out_ret_value->v_handle = (void *)(uintptr_t)names[{_active_level(prefix)} - levels];",
        "  *out_ret_tcode = kTVMOpaqueHandle;",
        "  return 0;",
        "}",
        "",
        *shared_name("get_level", f"{prefix}_get_level"),
    ]
