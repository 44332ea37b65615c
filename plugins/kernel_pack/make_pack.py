"""Write the sources of a library of kernels for one ISA level.

The C of a network includes the kernels' headers, which define static functions and macros that
define tiles. This script writes

- PACK.c, which becomes the library: it includes copies of these headers, in FOLDER, that export
  their functions, and defines the tiles of ``tiles.py``;
- KERNELS.h for the C of networks that call the library: the types and macros of the level, and
  prototypes of the exported functions;
- NAMES.txt, the names of the exported functions, and the types of scalar ones, which the library
  has for rows, too (python/row_functions.py); PACK.d, what all depend on, for Ninja.

Usage: ``python make_pack.py LEVEL INCLUDE FOLDER PACK.c KERNELS.h NAMES.txt PACK.d COMPILER...``;
INCLUDE is the project's include folder, COMPILER a preprocessor with the flags of the level.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "python"))
import row_functions
import tiles

KERNELS = Path("tvm/runtime/kernels")
# Headers of boards, of other processors and types, of calls that a network defines itself, and
# parts of other headers.
LEFT_OUT = re.compile(
    r"kernels/board/|/(cpu_dispatch|trace|tvm_ffi|any_weights|pairs|no_low_overhead_loops)\.h"
    r"|/\w*(amx|bf16|neon|rvv|wasm)\w*\.h"
)
PART = "is a part of"
LIBC = ("math.h", "stddef.h", "stdint.h", "stdlib.h", "string.h", "stdio.h")
RUNTIME = ("c_backend_api", "metadata", "dims", "run_plan", "region")
HEADERS = (*LIBC, *(f"tvm/runtime/{name}.h" for name in RUNTIME))
# What a function of a header begins with: macros of compiler.h, or what they stand for.
STORAGE = re.compile(
    r"\b(static\s+(?:inline\b\s*)?(?:__attribute__\s*\(\([^()]*(?:\([^()]*\))*[^()]*\)\)\s*)*"
    r"|TVMRT_INLINE|TVMRT_SHARED|TVMRT_COLD|TVMRT_(?:NOINLINE|RARELY_CALLED)(?:_TIGHT)?)(?=[\s\\]|(?<=\s))"
)
# Types of vectors, which only the compiler of the library has.
VECTORS = re.compile(
    r"_[fiu]\d+(?:x|v\b)|\b__m\d+|\bVEC\b|\dx\d+(x\d)?_t\b|tvmrt_(i8|bf16)_(vec|acc)"
)
# Storage of exported functions; those of the second kind are inlined where the library calls them.
EXPORT = """\
#define TVMRT_PACK_EXPORT __attribute__((visibility("default")))
#define TVMRT_PACK_INLINE extern inline __attribute__((visibility("default"), always_inline))
"""
# Conversions that libtcc calls, as GCC's library names them.
CONVERSIONS = {
    f"__{name}": f"TVMRT_PACK_EXPORT {result} __{name}({operand} x) {{ return ({result})x; }}"
    for name, result, operand in (
        ("floatundisf", "float", "uint64_t"),
        ("floatundidf", "double", "uint64_t"),
        ("fixunssfdi", "uint64_t", "float"),
        ("fixunsdfdi", "uint64_t", "double"),
    )
}
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
STRING_OR_BRACE = re.compile(r'"(?:\\.|[^"\\])*"|[{}]')
HEAD = re.compile(r"[^;={}#]*(?:##[^;={}#]*)*\{")


def blank_comments(text: str) -> str:
    """Return the text with blanks in place of comments, so that positions stay."""
    return COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def end_of_block(text: str, begin: int) -> int:
    """Return the position after the brace that closes the one at ``begin``."""
    depth = 0
    for match in STRING_OR_BRACE.finditer(text, begin):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0:
            return match.end()
    raise SystemExit(f"a block has no end: {text[begin : begin + 80]!r}")


def functions(text: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield the positions of each function's definition: its storage, its signature, its body, its
    end."""
    end = 0
    for match in STORAGE.finditer(text):
        if match.start() < end or text.endswith("define ", 0, match.start()):
            continue
        head = HEAD.match(text, match.end())
        if head is not None and "(" in head[0]:
            end = end_of_block(text, head.end() - 1)
            yield match.start(), match.end(), head.end() - 1, end


def exported(text: str) -> str:
    """Return a header's text with exported functions."""
    parts, done = [], 0
    plain = blank_comments(text)
    for begin, signature, body, end in functions(plain):
        if not VECTORS.search(plain[signature:body]):
            is_inlined = plain.startswith("TVMRT_INLINE", begin)
            storage = "TVMRT_PACK_INLINE " if is_inlined else "TVMRT_PACK_EXPORT "
            parts += [text[done:begin], storage, text[signature:end]]
            done = end
    return "".join([*parts, text[done:]])


def declared(text: str) -> tuple[str, list[str]]:
    """Return preprocessed text with prototypes in place of functions, and the functions' names.
    Macros keep the functions that they define, unless these have vectors."""
    parts, names, done = [], [], 0
    for begin, signature, body, end in functions(text):
        line = text[text.rfind("\n", 0, begin) + 1 : begin]
        head = text[signature:body]
        has_vectors = VECTORS.search(text[signature:end] if "#define" in line else head)
        if "#define" in line and not has_vectors:
            continue
        parts.append(text[done:begin])
        done = end
        if not has_vectors and "#define" not in line:
            parts.append(f"extern {' '.join(head.split())};")
            names.append(re.findall(r"(\w+)\s*\(", head)[0])
    return "".join([*parts, text[done:]]), names


def preprocessed(command: list[str], include: Path, source: Path) -> str:
    """Return a file after the preprocessor, with the definitions of macros."""
    here = Path(__file__).parent
    for name in ("emmintrin.h", "smmintrin.h"):
        (source.parent / name).write_text("#include <immintrin.h>\n")
    folders = [here / "python" / "libc", here / "intrinsics", include, source.parent]
    arguments = ["-nostdinc", "-E", "-dD", *(f"-I{folder}" for folder in folders), str(source)]
    return _output([*command, *arguments])


def _output(command: list[str]) -> str:
    """Return what a command writes; its errors end this program."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    return result.stdout


def declarations(text: str) -> tuple[str, list[str]]:
    """Return preprocessed text with prototypes of the kernels, and their names; what the compiler
    declares by itself, and how it is to translate, is left out."""
    parts: list[str] = []
    names: list[str] = []
    for kind, lines in groupby(_lines(text), key=lambda line: line[0]):
        part = "".join(f"{line}\n" for _, line in lines)
        if kind == "kernels":
            part, more = declared(part)
            names += more
        parts.append(part)
    return "".join(parts), names


def scalar_functions(text: str) -> Iterator[list[str]]:
    """Yield the functions with operands and results of one element: names, and types of the result
    and the operands; ``text``: declarations."""
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    kind = f"(?:const )?({'|'.join(row_functions.TYPES)}|int)"
    for result, name, operands in re.findall(rf"\b{kind} (\w+)\(([^()]*)\);", text):
        found = [re.fullmatch(rf"{kind} \w+", each.strip()) for each in operands.split(",")]
        if all(found):
            kinds = [result, *(match[1] for match in found)]
            yield [name, *("int32_t" if each == "int" else each for each in kinds)]


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of preprocessed text with the kind of their file: kernels or others."""
    kind = ""
    for line in text.splitlines():
        if marker := re.match(r'# \d+ "([^"]*)"', line):
            kind = "kernels" if "runtime/kernels/" in marker[1] else "others"
            kind = "" if marker[1].startswith("<") else kind
        elif kind and line.strip() and not line.startswith(("#pragma", "#undef")):
            yield kind, line


def main(level: str, include: Path, folder: Path, outputs: list[Path], command: list[str]) -> None:
    pack, kernels, names_file, depfile = outputs
    headers = sorted((include / KERNELS).rglob("*.h"))
    included = []
    for source in headers:
        path, text = source.relative_to(include).as_posix(), source.read_text(encoding="utf-8")
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(exported(text), encoding="utf-8")
        if not LEFT_OUT.search(path) and PART not in text:
            included.append(path)
    level = level.removesuffix("_fixed")
    macros = "".join(f"#define {name} {value}\n" for name, value in tiles.MACROS[level].items())
    head = macros + "".join(f"#include <{name}>\n" for name in HEADERS)
    probe = folder / "headers.c"
    probe.write_text(head + "".join(f"#include <{name}>\n" for name in included))
    text, names = declarations(preprocessed(command, include, probe))
    kernels.write_text(text)
    defined = {**tiles.definitions(level), **CONVERSIONS}
    scalar = {each[0]: each for each in scalar_functions(text)}
    lines = [
        " ".join(scalar.get(name, (name,)))
        for name in (*names, *defined, *(name for name in scalar if name not in names))
    ]
    names_file.write_text("".join(f"{line}\n" for line in lines))
    copies = "".join(f'#include "{(folder / name).resolve().as_posix()}"\n' for name in included)
    source = folder / "pack.c"
    in_rows = [row_functions.scalar_function(n, kind, rest) for n, kind, *rest in scalar.values()]
    functions_of_rows = row_functions.definitions(in_rows, "TVMRT_PACK_EXPORT")
    source.write_text("\n".join([EXPORT + head + copies, *defined.values(), *functions_of_rows]))
    checked = ["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]  # calls of libc, as elsewhere
    flat = [*command, *checked, "-std=gnu11", "-D_POSIX_C_SOURCE=200809L", "-E", "-P"]
    # without paths, so that compiler caches find it again
    pack.write_text(_output([*flat, f"-I{include}", str(source)]))
    here = Path(__file__).parent
    folders = {header.parent for header in headers}  # so that a new header is noticed
    own = [*here.glob("*.py"), *here.glob("*/*.h"), *here.glob("python/libc/*.h")]
    depends = [*headers, *sorted(folders), *own]
    depfile.write_text(f"{pack}: {' '.join(map(str, depends))}\n")


if __name__ == "__main__":
    level_name, *paths = sys.argv[1:8]
    include_folder, copies_folder, *written = map(Path, paths)
    main(level_name, include_folder, copies_folder, written, sys.argv[8:])
