"""C compilers of this machine: how every part of tvmrt finds one.

The ziglang package (extras ``cc`` and ``cross``) brings clang with the C libraries of many systems.
It is used if no other compiler is installed.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

COMPILE_VARIABLE = "TVMRT_COMPILE"  # whether networks that run here are compiled
SYSTEM_COMPILERS = ("cc", "gcc", "clang")
INSTALL_CC = "pip install 'tvmrt[cc]'"
INSTALL_CROSS = "pip install 'tvmrt[cross]'"
# The triple of a system's own compiler may differ from zig's name of the system.
ZIG_TRIPLES = {"x86_64-w64-mingw32": "x86_64-windows-gnu"}
# By default zig compiles for this processor alone, adds debug information with paths, reserves a
# register for frames, and traps undefined behaviour without -O. Later flags replace these.
_ZIG_FLAGS = ("-g0", "-fomit-frame-pointer", "-fno-sanitize=undefined")
_ZIG_EVERY_PROCESSOR = "-mcpu=baseline"
_ZIG_LOCAL, _ZIG_GLOBAL = "ZIG_LOCAL_CACHE_DIR", "ZIG_GLOBAL_CACHE_DIR"


def split_words(text: str, source: str) -> list[str]:
    """Return the words of a text, which are quoted as in a shell.

    Raises ValueError that names ``source``, an option or a variable, for an open quotation mark.
    """
    import shlex  # keeps loading a compiled network fast

    try:
        return shlex.split(text)
    except ValueError as error:
        raise ValueError(f"{source} is {text!r}: {error}; correct the quotation") from None


def words_of(command: str, source: str) -> list[str]:
    """Return the words of a command; a relative path of its program becomes absolute, because
    compilers run in other folders. Raises ValueError like split_words(), or without words."""
    words = split_words(command, source)
    if not words:
        raise ValueError(f"{source} is {command!r}; give a command, or omit it")
    program = os.path.abspath(words[0]) if os.path.dirname(words[0]) else words[0]
    return [program, *words[1:]]


def named_by_environment() -> str | None:
    """Return the command in the environment variable CC; None if it is unset or blank."""
    return os.environ.get("CC", "").strip() or None


def is_preferred() -> bool:
    """Return whether there is a C compiler and $TVMRT_COMPILE does not say what to use."""
    is_open = os.environ.get(COMPILE_VARIABLE, "auto") in ("auto", "background")
    return is_open and bool(named_by_environment() or installed())


def installed(triple: str = "") -> list[str]:
    """Return the command of an installed C compiler for this system, or for another one named by a
    triple; empty if there is none."""
    names = (f"{triple}-gcc",) if triple else SYSTEM_COMPILERS
    found = next((name for name in names if shutil.which(name)), None)
    return [found] if found else zig(triple)


def zig(triple: str = "") -> list[str]:
    """Return the command of the ziglang package's compiler; empty if it is not installed."""
    if zig_package() is None:
        return []
    return completed([sys.executable, "-m", "ziglang", "cc"], triple)


def zig_package() -> Path | None:
    """Return the file of the ziglang package; None if it is not installed."""
    from importlib.util import find_spec  # keeps loading a compiled network fast

    spec = find_spec("ziglang")
    return None if spec is None else Path(str(spec.origin))


def is_zig(command: Sequence[str]) -> bool:
    """Return whether a command calls zig, from the package or installed otherwise."""
    return any(map(_names_zig, command))


def _names_zig(word: str) -> bool:
    return word == "ziglang" or Path(word).stem == "zig"


def zig_tool(command: Sequence[str], tool: str) -> list[str]:
    """Return the command of another tool, such as ``ar``, of the zig that a command calls."""
    end = next(i for i, word in enumerate(command, 1) if _names_zig(word))
    return [*command[:end], tool]


def name_of(command: Sequence[str]) -> str:
    """Return the name of a compiler for messages."""
    return "zig" if is_zig(command) else command[0]


def completed(command: Sequence[str], triple: str = "") -> list[str]:
    """Return the command, for zig with flags that let it behave like other compilers, and compile
    for the system that a triple names, if the command names none."""
    if not is_zig(command):
        return list(command)
    flags = [flag for flag in _ZIG_FLAGS if flag not in command]
    is_targeted = any(word.startswith(("-target", "--target")) for word in command)
    target = ZIG_TRIPLES.get(triple, triple) or _own_zig_triple()
    if target and not is_targeted:
        flags += ["-target", target]
    if not (triple or is_targeted or any(w.startswith(("-mcpu", "-march")) for w in command)):
        flags.append(_ZIG_EVERY_PROCESSOR)
    return [*command, *flags]


def _own_zig_triple() -> str:
    """Return a triple with this system's C library on Linux, which zig would find from a program of
    the system: some containers have none."""
    system = getattr(sys.implementation, "_multiarch", "").split("-")
    return f"native-native-{system[-1]}" if system[1:2] == ["linux"] else ""


def environment(command: Sequence[str], folder: Path) -> Mapping[str, str]:
    """Return the variables for a compiler in a temporary folder.

    Its temporary files go there, since a compiler that is ended leaves them; zig's objects, too,
    which it would keep. Its C libraries stay in the user's cache folder, if that is writable.

    Raises OSError if the user named a cache folder that is not writable: zig would try forever.
    """
    variables = {**os.environ, "TMPDIR": str(folder)}
    if not is_zig(command):
        return variables
    local = str(folder / "zig-cache")
    given = {name: os.environ[name] for name in (_ZIG_LOCAL, _ZIG_GLOBAL) if os.environ.get(name)}
    for name, path in given.items():
        if not _is_writable(folder / path):  # zig takes a relative path from the folder
            raise OSError(
                f"it cannot write to its cache folder {path}; set {name} to another one, or "
                "unset it"
            )
    variables |= {_ZIG_LOCAL: local, **given}
    if _ZIG_GLOBAL not in given and not _has_cache_folder():
        variables[_ZIG_GLOBAL] = local
    return variables


def _has_cache_folder() -> bool:
    """Return whether zig can use its default cache folder, or create it."""
    if sys.platform == "win32":
        return True
    base = os.environ.get("XDG_CACHE_HOME")
    if not base and "HOME" not in os.environ:
        return False
    return _is_writable(Path(base) / "zig" if base else Path.home() / ".cache" / "zig")


def _is_writable(folder: Path) -> bool:
    """Return whether files can be created in a folder, which is created if it is missing."""
    from tempfile import TemporaryFile  # keeps loading a compiled network fast

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
