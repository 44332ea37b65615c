"""``tvmrt migrate-headers``: list or rewrite old names and includes in C sources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click

from tvmrt.cli import console, options
from tvmrt.compiler.export.atomic import replacing

# Names removed from the split headers, and their replacements; the old ones still compile.
RENAMED = {
    "TVMBackendPackedCFunc": "TVMCPackedFunc",
    "TVMPackedCFunc": "TVMRuntimeCPackedFunc",
    "TVMAPISetLastError": "TVMPackedFuncSetLastError",
}
MOVED_HEADERS = {"tvm/runtime/metadata_types.h": "tvm/runtime/metadata.h"}
RUNTIME_HEADER = "tvm/runtime/c_runtime_api.h"
BACKEND_HEADER = "tvm/runtime/c_backend_api.h"
PACKED_HEADER = "tvm/runtime/c_packed_func.h"
RPC_HEADERS = ("tvm/runtime/crt/rpc_common/",)
SUFFIXES = (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp")

# Comments and literals are matched first, so that names inside them are skipped.
_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[A-Za-z_]\w*', re.DOTALL
)
# A function with its body, a type, or a macro.
_DEFINITION = (
    r"\b%s\s*\((?:[^;{}()]|\([^()]*\))*\)\s*\{"
    r"|\btypedef\b[^;{}]*(?:\(\s*\*\s*%s\s*\)|\b%s\s*;)"
    r"|#\s*define\s+%s\b"
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
# A user's class derived from a TVM class, in files that include TVM's headers.
_BASE = re.compile(
    r"\b(?:public|protected|private)\s+"
    r"((?:(?:tvm::)?runtime::|tvm::)?(?:ModuleNode|NDArray::Container|NDArray|Object))\b"
)
DERIVED = {
    "ModuleNode": "its virtual functions are C++ of TVM's: tvm/runtime/module_plugin.h makes "
    "a module of functions",
    "Object": "its virtual functions and types are C++ of TVM's library: pass a module or a tensor",
    "NDArray": "tensors cross a C interface, which keeps no class of one's own",
}


@dataclass(frozen=True)
class Use:
    """One finding: its position, the old text, the replacement, and the reason."""

    file: str
    line: int
    old: str
    new: str
    reason: str


@click.command("migrate-headers")
@click.argument("paths", nargs=-1, required=True, type=options.PATH, metavar="PATH...")
@click.option("--rewrite", is_flag=True, help="Rewrite the files instead of listing the findings.")
@console.json_option
def command(paths: Sequence[Path], rewrite: bool, as_json: bool) -> None:
    """List old names and includes of the C API in files or folders of C and C++ sources.

    Old names keep working; the list shows what to change for the split headers.
    """
    uses = []
    texts = {
        path: path.read_text(encoding="utf-8", errors="surrogateescape") for path in _sources(paths)
    }
    own = frozenset().union(*map(defined_in, texts.values()))
    for path, text in texts.items():
        found = list(find_uses(text, str(path), own))
        if rewrite and any(use.new for use in found):
            with replacing(path) as aside:
                aside.write_text(
                    rewrite_text(text, own), encoding="utf-8", errors="surrogateescape"
                )
        uses += found
    if as_json:
        console.print_json("migrate-headers", {"rewritten": rewrite, "uses": uses})
    else:
        _print(uses, rewrite)


def _print(uses: Sequence[Use], rewrite: bool) -> None:
    if not uses:
        click.echo("nothing to change")
    better = [(f"{u.file}:{u.line}", u.old, u.new, u.reason) for u in uses if u.new]
    absent = [(f"{u.file}:{u.line}", u.old, u.reason) for u in uses if not u.new]
    if better:
        columns = ["location", "old", "new", "reason"]
        console.print_table("rewritten" if rewrite else "old names", columns, better, left=columns)
    if absent:
        columns = ["location", "old", "reason"]
        console.print_table("has no replacement", columns, absent, left=columns)


def _sources(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
        elif path.is_file():
            yield path
        else:
            raise FileNotFoundError(f"{path} is neither a file nor a folder; check the path")


def defined_in(text: str) -> frozenset[str]:
    """Return the old names that a source defines itself, such as a board's runtime functions."""
    plain = _TOKEN.sub(lambda m: m.group() if m.group()[0].isidentifier() else " ", text)
    return frozenset(name for name in RENAMED if re.search(_DEFINITION % (4 * (name,)), plain))


def find_uses(text: str, file: str = "", own: frozenset[str] = frozenset()) -> Iterator[Use]:
    """Yield the old names and includes of one source in order, with their replacements. Missing
    headers and unsupported base classes have none. Names that the sources define themselves are
    skipped."""
    found = []
    own |= defined_in(text)
    for match in _TOKEN.finditer(text):
        new = None if match.group() in own else RENAMED.get(match.group())
        if new:
            found.append((match.start(), match.group(), new, "renamed"))
    for match in _INCLUDE.finditer(text):
        new, why = _better_header(match.group(1), text)
        why = why or _obstacle(match.group(1))
        if why:
            found.append((match.start(1), match.group(1), new, why))
    found += [(at, base, "", why) for at, base, why in _bases(text)]
    for at, old, new, why in sorted(found):
        yield Use(file, text.count("\n", 0, at) + 1, old, new, why)


def _bases(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield position and name of each TVM base class, and why it is not supported."""
    if not any(match.group(1).startswith("tvm/") for match in _INCLUDE.finditer(text)):
        return
    plain = _TOKEN.sub(
        lambda m: m.group() if m.group()[0].isidentifier() else " " * len(m.group()), text
    )
    for match in _BASE.finditer(plain):
        name = match.group(1).removeprefix("tvm::").removeprefix("runtime::").split("::")[0]
        yield match.start(1), match.group(1), DERIVED[name]


def rewrite_text(text: str, own: frozenset[str] = frozenset()) -> str:
    """Return the source with new names and includes; see find_uses()."""
    own |= defined_in(text)

    def header(match: re.Match) -> str:
        new, _ = _better_header(match.group(1), text)
        return match.group().replace(match.group(1), new) if new else match.group()

    changed = _INCLUDE.sub(header, text)

    def name(match: re.Match) -> str:
        return match.group() if match.group() in own else RENAMED.get(match.group(), match.group())

    return _TOKEN.sub(name, changed)


def _obstacle(header: str) -> str:
    """Return why a header of TVM cannot be included; "" for tvmrt's and others' headers."""
    from tvmrt.libinfo import find_include_path

    if header.startswith(RPC_HEADERS):
        return (
            "the public header for RPC on boards is tvm/runtime/crt/microtvm_rpc_server.h; its "
            "parts are internal"
        )
    if not header.startswith(("tvm/", "dmlc/")):
        return ""
    if any((Path(folder) / header).is_file() for folder in find_include_path()):
        return ""
    return "tvmrt has no such header: it is of TVM's compiler or of its C++ objects"


def _better_header(header: str, text: str) -> tuple[str, str]:
    """Return the header that suffices for the source, or "" if the included one is right."""
    if header in MOVED_HEADERS:
        return MOVED_HEADERS[header], "renamed"
    if header != RUNTIME_HEADER:
        return "", ""
    used = {m.group() for m in _TOKEN.finditer(text)}
    if used & declared_in(RUNTIME_HEADER):
        return "", ""
    if used & declared_in(BACKEND_HEADER):
        return BACKEND_HEADER, "nothing of the runtime's API is used"
    return PACKED_HEADER, "only the calling convention is used"


@cache
def declared_in(header: str) -> frozenset[str]:
    """Return the names that a tvmrt header declares: functions, types, macros, enumerators."""
    from tvmrt.libinfo import find_include_path

    text = (Path(find_include_path()[0]) / header).read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    names = set(re.findall(r"\b(\w+)\s*\(", text))
    names |= set(re.findall(r"typedef[^;{]*?\b(\w+)\s*;", text))
    names |= set(re.findall(r"\}\s*(\w+)\s*;", text))
    names |= set(re.findall(r"\(\s*\*\s*(\w+)\s*\)", text))
    names |= set(re.findall(r"^\s*#\s*define\s+(\w+)", text, re.MULTILINE))
    return frozenset(n for n in names if n.startswith(("TVM", "kTVM", "FTVM", "tvm")))
