"""Where the parts of the package lie on disk. Loads nothing, so the compiler may use it.

An installed package has ``lib`` and ``include`` inside it. A source tree has ``include`` at its top
and the libraries in a build folder, whose place is known once the runtime is loaded.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_SOURCE_ROOT = _PACKAGE.parent.parent

__version__ = (_PACKAGE / "VERSION").read_text().strip()


def find_include_path() -> list[str]:
    """Return the folders to give to a C compiler as ``-I``.

    Raises
    ------
    FileNotFoundError
        If the headers are neither in the package nor in a source tree around it.
    """
    for folder in (_PACKAGE / "include", _SOURCE_ROOT / "include"):
        if (folder / "tvm" / "runtime" / "c_backend_api.h").is_file():
            return [str(folder)]
    raise FileNotFoundError(f"the C headers are not below {_PACKAGE}; install the package again")


def find_lib_path(name: str = "libtvm_runtime.so") -> list[str]:
    """Return the path of a library of the package, in a list as ``tvm._ffi.libinfo`` does.

    Parameters
    ----------
    name
        ``libtvm_runtime.so`` or ``libtvm_backend.a``.

    Raises
    ------
    FileNotFoundError
        If there is no such library; the text lists where it was looked for.
    """
    candidates = [_PACKAGE / "lib" / name, *_in_build_folder(name)]
    found = [str(path) for path in candidates if path.is_file()]
    if not found:
        places = ", ".join(str(path.parent) for path in candidates)
        raise FileNotFoundError(f"{name} is not in {places}; install the package again")
    return found[:1]


def _in_build_folder(name: str) -> list[Path]:
    from tvmrt.runtime import _library

    build = Path(_library.PATH).resolve().parent.parent
    return [build / "src_runtime" / name, build / "src_backend" / name]
