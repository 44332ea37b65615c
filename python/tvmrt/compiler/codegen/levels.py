"""Operators for several levels of processors: a function for each, and a table by level.

The functions of a level lie in files of their own, compiled for that level alone. What everybody
calls is compiled for all processors of the family: it passes the call on to the function of the
level in use, which is chosen when the library is loaded. All functions of an operator take the same
parameters, and so the constants that any of them reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tvmrt.compiler.ir.program import Buffer, Step

from .c.function import finish_function, signature, write_function
from .c.packed import WEAK, exported_head, shared_name
from .c.text import broken, wrap
from .c.writer import Common, Function, FunctionWriter, Parameter
from .target import Target

# What the compiler defines where it is told the flags of a level.
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
NAMES = (
    "level",
    "level_in_use",
    "no_level",
    "levels",
    "get_level",
)  # what follows the prefix in symbols
TEXT_BYTES = 512  # of the sentence that says why no level fits


@dataclass
class Levels:
    """The functions of every level by the operator's symbol, and the names of levels, the narrowest
    first. A level may have a function of one before it."""

    names: list[str]
    by_level: dict[str, dict[str, Function]] = field(default_factory=dict)

    def add(self, function: Function, own: Sequence[Function]) -> None:
        """An operator: the function that everybody calls, and that of each level."""
        for name, each in zip(self.names, own):
            self.by_level.setdefault(name, {})[function.symbol] = each

    def own(self, name: str) -> list[Function]:
        """The functions that are printed for a level."""
        number = self.names.index(name)
        before = {f.symbol for n in self.names[:number] for f in self.of(n).values()}
        return [f for f in self.of(name).values() if f.symbol not in before]

    def of(self, name: str) -> dict[str, Function]:
        """A level's functions, by the symbol of the one that everybody calls."""
        return self.by_level.get(name, {})


def print_levels(
    prefix: str, symbol: str, names: Sequence[str], step: Step, common: Common, target: Target
) -> tuple[Function, list[Function]]:
    """The function that everybody calls, and that of each level, which have these ``names``."""
    writers = {}
    for level, name in reversed(list(zip(target.levels, names))):  # the widest names the weights
        own = replace(step, lowering=step.levels[level.name])
        writers[level.name] = write_function(name, own, common)
    ordered = [writers[level.name] for level in target.levels]
    same = _same(ordered, target.levels)
    constants = _joined(reversed(ordered))
    for writer in ordered:
        writer.take_constants(constants)
    functions = [finish_function(writer) for writer in ordered]
    dispatcher = _dispatcher(prefix, symbol, step, functions[-1].parameters)
    return dispatcher, [functions[i] for i in same]


def _joined(writers) -> list[Buffer]:
    """The constants that any of them reads."""
    return list(dict.fromkeys(buffer for writer in writers for buffer in writer.constants))


def _same(writers: Sequence[FunctionWriter], levels: Sequence[Target]) -> list[int]:
    """For each level the number of the first whose function does as well."""
    found: list[int] = []
    for i, (writer, level) in enumerate(zip(writers, levels)):
        likes = (j for j in found if _alike(writers[j], levels[j], writer, level))
        found.append(next(likes, i))
    return found


def _alike(a: FunctionWriter, one: Target, b: FunctionWriter, other: Target) -> bool:
    """Whether the code for a narrower level is as good: the text is the same, and so is all of the
    target that it asks for."""
    if any(getattr(one, name) != getattr(other, name) for name in a.asks):
        return False
    return _content(a) == _content(b)


def _content(f: FunctionWriter) -> tuple:
    """What is printed, with numbers in place of the symbols that it brings."""
    numbers = {name: f"*{i}*" for i, name in enumerate((f.symbol, *f.statics))}
    symbols = sorted(numbers, key=len, reverse=True)  # one begins those that are named after it
    texts = []
    for printed in (*f.definitions, *f.helpers, *f.lines, *f.lines_behind):
        text = str(printed)
        for symbol in symbols:
            text = text.replace(symbol, numbers[symbol])
        texts.append(text)
    return texts, f.parallel_extent, f.macros, f.includes, f.constants


def _dispatcher(prefix: str, symbol: str, step: Step, parameters: list[Parameter]) -> Function:
    """The function that passes a call on."""
    used = _in_use(prefix)
    lines = [
        *signature(symbol, parameters, " {"),
        f"  if ({used} == NULL) return {prefix}_no_level();",
        *wrap(f"return {used}->{symbol}", [p.name for p in parameters], ";", 1),
        "}",
    ]
    return Function(symbol, step, parameters, "\n".join(lines))


def _in_use(prefix: str) -> str:
    return f"{prefix}_level_in_use"


def declarations(prefix: str, levels: Levels) -> list[str]:
    """Lines of the header: the functions of all levels, a table of them, and the one in use."""
    lines = []
    for name in levels.names:
        lines += [f"/* For {name}. */"]
        for function in levels.own(name):
            lines += signature(function.symbol, function.parameters, ";", "TVMGEN_LOCAL int32_t")
    lines += ["", "/* The operators as one level has them. */", "typedef struct {"]
    for symbol, function in levels.of(levels.names[-1]).items():
        lines += signature(f"(*{symbol})", function.parameters, ";", depth=1)
    return [
        *lines,
        f"}} {prefix}_level;",
        "",
        "/* Of the level in use, which is chosen when the library is loaded; NULL if none fits. */",
        f"extern TVMGEN_LOCAL const {prefix}_level *{_in_use(prefix)};",
        "/* Says why none fits; returns -1. */",
        f"TVMGEN_LOCAL int32_t {prefix}_no_level(void);",
        "",
    ]


def head(level: Target) -> str:
    """The beginning of a level's file: how it is compiled."""
    missing = f"defined(__GNUC__) && !defined({_DEFINED[level.name]})"
    lines = [
        f"/* For {level.name}: compile with",
        *broken(" ".join(level.flags), 93, " * ", " * "),
        " */",
        *_pragma(level, missing),
        f"#if {missing}",
        f'#error "This file is for {level.name}; its first lines have the flags that it needs."',
        "#endif",
        "",
    ]
    return "\n".join(lines)


def _pragma(level: Target, missing: str) -> list[str]:
    """Lines by which GCC is told the flags where its command does not have them; flags that are no
    names of instructions have no such form."""
    if not level.flags or any(not f.startswith("-m") or "-march=" in f for f in level.flags):
        return []
    names = " ".join(flag[2:] for flag in level.flags)
    rows = broken(names, 70)
    return [
        f"#if {missing} && !defined(__clang__)",
        *(f'#pragma GCC target("{row.replace(" ", ",")}")' for row in rows),
        "#endif",
    ]


def print_choice(prefix: str, levels: Levels) -> str:
    """The file that chooses a level, and answers who asks for it."""
    lines = [
        "#include <stddef.h>",
        "",
        "#include <tvm/runtime/c_backend_api.h>",
        "#include <tvm/runtime/c_runtime_api.h>",
        "#include <tvm/runtime/kernels/levels.h>",
        "",
        f'#include "{prefix}_ops.h"',
        "",
        f"const {prefix}_level *{_in_use(prefix)} = NULL;",
        "",
        f"static const {prefix}_level levels[] = {{",
    ]
    for name in levels.names:
        functions = [function.symbol for function in levels.of(name).values()]
        lines += wrap("", functions, ",", 1, brackets="{}")
    return "\n".join([*lines, "};", "", *_choice(prefix, levels), *_answers(prefix)])


def _choice(prefix: str, levels: Levels) -> list[str]:
    """Lines of C: the names of the levels, and what chooses one when the library is loaded."""
    names = ", ".join(f'"{name}"' for name in levels.names)
    return [
        f"static const char *const names[] = {{{names}}};",
        "",
        "/* What a tool reads that does not load the library; weak, as each of several networks in",
        " * one program has it. */",
        "TVM_DLL extern const char __tvmrt_levels[];",
        *WEAK,
        f'const char __tvmrt_levels[] = "{",".join(levels.names)}";',
        "",
        f"static char refusal[{TEXT_BYTES}];",
        "",
        "__attribute__((constructor)) static void choose(void) {",
        "  tvmrt_processor processor;",
        "  tvmrt_processor_ask(&processor);",
        *(["  tvmrt_processor_permit(&processor);"] if "v4amx" in levels.names else []),
        '  const char *forced = getenv("TVMRT_LEVEL");',
        f"  const int chosen = tvmrt_level_choose(&processor, names, {len(levels.names)}, forced,",
        "                                        refusal, sizeof(refusal));",
        f"  if (chosen >= 0) {_in_use(prefix)} = &levels[chosen];",
        "}",
        "",
    ]


def _answers(prefix: str) -> list[str]:
    """Lines of C: what says which level is in use, or why none is."""
    return [
        f"int32_t {prefix}_no_level(void) {{",
        "  TVMAPISetLastError(refusal);",
        "  return -1;",
        "}",
        "",
        "/* Why the library cannot be used here, NULL if it can; asked by who loads it. */",
        "TVM_DLL const char *__tvmrt_refusal(void);",
        *WEAK,
        "const char *__tvmrt_refusal(void) {",
        f"  return {_in_use(prefix)} == NULL ? refusal : NULL;",
        "}",
        "",
        *exported_head(
            f"{prefix}_get_level", ["args", "type_codes", "num_args", "resource_handle"]
        ),
        f"  if ({_in_use(prefix)} == NULL) return {prefix}_no_level();",
        "  /* a text that ends with 0; the ABI has no const handle, nobody writes through it */",
        f"  out_ret_value->v_handle = (void *)(uintptr_t)names[{_in_use(prefix)} - levels];",
        "  *out_ret_tcode = kTVMOpaqueHandle;",
        "  return 0;",
        "}",
        "",
        *shared_name("get_level", f"{prefix}_get_level"),
    ]
