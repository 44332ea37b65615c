"""A firmware network as one C file and its header, which need only the C standard library."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tvmrt.compiler.sdk.codegen import firmware_header_name, module_name_of
from tvmrt.compiler.sdk.export import runtime_headers
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import compile_call, option
from tvmrt.plugin import Exporter
from tvmrt.plugins.single_file.items import (
    CONDITIONALS,
    Item,
    Macros,
    items_of,
    macros_of,
    plain,
    words,
)
from tvmrt.plugins.single_file.preprocess import Preprocessor
from tvmrt.plugins.single_file.reachable import needed

_OWN = ("TVM", "tvm", "DLPACK", "DMLC", "CUSTOM_")  # macros that only these texts define
# Macros of compilers for instructions that a board has or lacks, by their names in the target.
_INSTRUCTIONS = {
    "dsp": ("__ARM_FEATURE_DSP", "__ARM_FEATURE_SIMD32"),
    "mve": ("__ARM_FEATURE_MVE",),
    "rvv": ("__riscv_zve32x", "__riscv_v"),
}
# Headers of C11, by their names without .h.
_STANDARD = {
    *"assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp".split(),
    *"signal stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn".split(),
    *"string tgmath threads time uchar wchar wctype".split(),
}
_LIBRARY = {"math.h", "stddef.h", "stdint.h", "string.h"}
_SYMBOL = re.compile(r"\n[ \t]*TVM\w+_SYMBOL\(\"\w+\"\)")
_GUARD = re.compile(r"^TVM\w+_GUARD\(\w+\);\n", re.MULTILINE)
_CODES = "tvm/runtime/error_codes.h"
# Guards of the library's headers of codes, under both of their paths, and of TVM's.
_CODE_GUARDS = ("TVM_RUNTIME_ERROR_CODES_H_", "TVM_RUNTIME_CRT_ERROR_CODES_H_")
_OPEN = '#ifdef __cplusplus\nextern "C" {\n#endif\n'
_CLOSE = "\n#ifdef __cplusplus\n}\n#endif\n"
_PRAGMA = """#if defined(__clang__) /* processors need different functions and vectors */
#pragma clang diagnostic ignored "-Wunused-function"
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
"""
# tcc cannot negate an infinite constant; the product of finite ones has a sign of its own.
_INFINITY = "#ifdef __TINYC__\n#undef INFINITY\n#define INFINITY 1e300 * 1e300\n#endif\n\n"
# A member or an element of a constant.
_INFINITE = re.compile(r"(?:\.\w+ = |^ +(?:[-+.\w]+, )*)-INFINITY", re.MULTILINE)
# Rows of numbers in a table. Tables with more than one of the long lines get them.
_ROWS = re.compile(r"(?:^  [-+.\w, ]+,\n){11,}", re.MULTILINE)
_ROWS_PER_LINE = 10
# Functions of the runtime; names of its macros have no small letters.
_RUNTIME = re.compile(r"(?:TVM|StackMemoryManager_)\w*[a-z]\w*")
_FIRST = "#include <stddef.h>\n#include <stdint.h>\n"
# Files of an archive that the two files leave out, by the end of their names.
_OPTIONAL = ("_checked.c", "_step.c", "_metadata.c", "_system_lib.c")


class SingleFile(Exporter):
    """Writes ``net.c`` and ``net.h``."""

    def defaults(self, name: str) -> dict[str, Any]:
        """Return options for plain C without processor-specific instructions; the functions are
        named after the file."""
        return {
            "target": "cortex-m0plus", "runtime": "crt", "executor": "aot", "unpacked_api": True,
            "interface_api": "c",
            "module_name": module_name_of(Path(name).stem),
        }  # fmt: skip

    def files(self, library: Any, name: str) -> dict[str, str]:
        """Return the texts of both files.

        Raises ValueError for a network without the C interface, and UnsupportedError for one that
        needs more than the C standard library.
        """
        _check(library, name)
        sources, target = library.sources, library.target
        texts = {k: v for k, v in sources.files.items() if not k.endswith(_OPTIONAL)}
        own = firmware_header_name(sources.prefix)
        public = f"{Path(name).stem}.h"
        declared = _SYMBOL.sub("", texts.pop(own))
        headers = {k: texts.pop(k) for k in [*texts] if k.endswith(".h")}
        headers.update(runtime_headers([*texts.values(), *headers.values()], target))
        codes = headers[_CODES]
        headers[_CODES] = ""  # the public header has them
        joined = Preprocessor(headers, _OWN, _absent_instructions(target.board))
        # operators first: they choose the forms of the kernels
        for text in sorted(texts, key=lambda key: (not re.search(r"_lib[1-9]", key), key)):
            joined.add(_GUARD.sub("", texts[text]))
        _check_includes(joined.system.keys() - {own})
        includes = "".join(f"#include <{each}>\n" for each in sorted(joined.system.keys() - {own}))
        body = _body(joined.text, set(re.findall(rf"\b({sources.prefix}_\w+)\(", declared)))
        header = _header(declared, codes, body)
        start = f'{_title(texts)}#include "{public}"\n{includes}\n{_PRAGMA}'
        return {name: f"{start}\n{body}", public: header}


def _check(library: Any, name: str) -> None:
    if re.search(r'["\\\n]', name):
        raise ValueError(f"{name!r}: C cannot include a header of this name; choose another name")
    if (header := Path(name).stem.lower()) in _STANDARD:
        raise ValueError(
            f"{name}: its header would be {header}.h, which C code would include instead of the C "
            "library's; choose another name"
        )
    options, sources = library.options, library.sources
    if not options.firmware or options.interface_api != "c":
        raise ValueError(
            f"{name}: a .c file needs a network for a board, with {option('interface_api', 'c')}; "
            f"for example {compile_call(name, target='cortex-m0plus', interface_api='c')}"
        )
    if options.traced:
        raise UnsupportedError(f"{name}: profile and record need a folder or a .tar, not a .c file")
    if sources.objects or any(sources.flags.values()) or sources.vendors:
        raise UnsupportedError(
            f"{name}: devices or custom operators of the network need objects, compiler options or "
            "libraries, which a .c file cannot have; write a folder or a .tar"
        )


def _check_includes(names: Iterable[str]) -> None:
    if more := sorted(set(names) - _LIBRARY):
        raise UnsupportedError(
            f"operators of the network need {', '.join(f'<{each}>' for each in more)}, which a .c "
            "file does not include; write a folder or a .tar"
        )


def _check_functions(code: Sequence[Item]) -> None:
    """Raise UnsupportedError if foreign C code calls functions of the runtime, which are declared
    here and not defined."""
    functions = [(item.names, "{" in item.text) for item in code if "(" in plain(item.text)]
    defined = {name for names, has_body in functions if has_body for name in names}
    named = {name for names, _ in functions for name in names if _RUNTIME.fullmatch(name)}
    if more := sorted(named - defined):
        raise UnsupportedError(
            f"operators of the network call {', '.join(f'{name}()' for name in more)} of the "
            "runtime, which a .c file does not contain; write a folder, a .tar or a .a"
        )


def _absent_instructions(board: Collection[str] | None) -> tuple[str, ...]:
    """Return the compilers' macros for instructions that a board lacks; none for a host."""
    lacking = _INSTRUCTIONS.keys() - board if board is not None else ()
    return tuple(macro for each in lacking for macro in _INSTRUCTIONS[each])


def _title(texts: Mapping[str, str]) -> str:
    """Return the comment at the top of the generated files."""
    return next(iter(texts.values())).split("*/", 1)[0] + "*/\n"


def _header(text: str, error_codes: str, body: str) -> str:
    """Return the public header: declarations that the C file uses, and macros about them."""
    start, text = text.split(_OPEN, 1)
    text, end = text.rsplit(_CLOSE, 1)
    macros, used = macros_of(text), words(body)
    items = items_of(text, macros)
    functions = {name for each in items if "(" in plain(each.text) for name in each.names}
    absent = re.compile("|".join(rf"\b{name}\(" for name in functions - used) or r"(?!)")
    roots = {
        name
        for each in items
        for name in each.names
        if name in used or (_is_constant(name, macros) and not absent.search(each.text))
    }
    declarations = _joined(items, needed(items, macros, roots))
    start = start.split(_FIRST, 1)[0] + _FIRST
    return f"{start}\n{_OPEN}\n{declarations}{_CLOSE}\n{_error_codes(error_codes)}{end}"


def _is_constant(name: str, macros: Macros) -> bool:
    return any(macro.parameters is None for macro in macros.get(name, ()))


def _error_codes(text: str) -> str:
    """Return the runtime's header of error codes as a part of another header.

    It is complete, because the first header with these guards serves all later ones.
    """
    inner = text.split(f"#define {_CODE_GUARDS[0]}\n", 1)[1].rsplit("#endif", 1)[0].strip()
    absent = " && ".join(f"!defined({guard})" for guard in _CODE_GUARDS)
    defined = "".join(f"#define {guard}\n" for guard in _CODE_GUARDS)
    return f"/* Error codes, as in {_CODES}. */\n#if {absent}\n{defined}\n{inner}\n\n#endif\n"


def _body(text: str, roots: Iterable[str]) -> str:
    """Return the items of a text that the roots need."""
    macros = macros_of(text)
    items = items_of(text, macros)
    kept = needed(items, macros, roots) - _repeated(items)
    _check_functions([item for i, item in enumerate(items) if i in kept and item.kind == "code"])
    text = _with_long_rows(_joined(items, kept))
    if match := _INFINITE.search(text):
        table = text.rindex("\n\n", 0, match.start()) + 2
        return text[:table] + _INFINITY + text[table:]
    return text


def _with_long_rows(text: str) -> str:
    """Return a text whose long tables have ten rows of numbers in a line, to leave the code."""

    def joined(match: re.Match[str]) -> str:
        rows = [row.strip() for row in match.group().splitlines()]
        groups = (rows[i : i + _ROWS_PER_LINE] for i in range(0, len(rows), _ROWS_PER_LINE))
        return "".join(f"  {' '.join(group)}\n" for group in groups)

    return _ROWS.sub(joined, text)


def _repeated(items: Sequence[Item]) -> set[int]:
    """Return the positions of items that an earlier file has, too, such as tables of offsets."""
    code = [i for i, item in enumerate(items) if item.kind == "code" and not item.conditions]
    first: dict[str, int] = {}
    return {i for i in code if first.setdefault(items[i].text, i) != i}


def _joined(items: Sequence[Item], indices: Collection[int]) -> str:
    """Return the kept items in order."""
    parts: list[str] = []
    previous: Item | None = None
    for item in (each for i, each in enumerate(items) if i in indices):
        close = previous is not None and _belong_together(previous, item)
        parts.append(("" if close or previous is None else "\n") + item.text)
        previous = item
    return "\n".join(parts) + "\n"


def _belong_together(previous: Item, item: Item) -> bool:
    """Return whether no blank line separates two items."""
    return (
        previous.kind in CONDITIONALS[:3]
        or item.kind in ("endif", "else", "elif")
        or (previous.kind == item.kind == "define" and item.text.count("\n") < 2)
    )
