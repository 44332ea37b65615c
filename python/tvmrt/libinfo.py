"""Where the parts of the package lie on disk. Loads nothing, so the compiler may use it.

An installed package has ``lib`` and ``include`` inside it. A source tree has ``include`` at its top
and the libraries in a build folder, whose place is known once the runtime is loaded.
"""

from __future__ import annotations

import os

_ROOMS = ("src_runtime", "src_backend", os.path.join("src_runtime", "firmware"))
_PACKAGE = os.path.dirname(os.path.realpath(__file__))
_SOURCE_ROOT = os.path.dirname(os.path.dirname(_PACKAGE))

with open(os.path.join(_PACKAGE, "VERSION"), encoding="ascii") as _file:
    __version__ = _file.read().strip()


def find_include_path() -> list[str]:
    """Return the folders to give to a C compiler as ``-I``.

    Raises
    ------
    FileNotFoundError
        If the headers are neither in the package nor in a source tree around it.
    """
    for root in (_PACKAGE, _SOURCE_ROOT):
        folder = os.path.join(root, "include")
        if os.path.isfile(os.path.join(folder, "tvm", "runtime", "c_backend_api.h")):
            return [folder]
    raise FileNotFoundError(f"the C headers are not below {_PACKAGE}; install the package again")


def find_firmware_path() -> str:
    """Return the folder with the sources for microcontrollers, and what build systems read there.

    It has ``src_backend`` and ``src_runtime/firmware``, and is a CMake package, a Zephyr module
    and a Meson subproject.

    Raises
    ------
    FileNotFoundError
        If it is neither in the package nor the source tree around it.
    """
    for root in (os.path.join(_PACKAGE, "firmware"), _SOURCE_ROOT):
        if os.path.isdir(os.path.join(root, "src_backend")):
            return root
    raise FileNotFoundError(
        f"the sources for microcontrollers are not below {_PACKAGE}; install the package again"
    )


def find_boards_path() -> str:
    """Return the folder ``boards``: start-up code and memory of the boards that QEMU plays.

    Raises
    ------
    FileNotFoundError
        If it is neither in the package nor the source tree around it.
    """
    for root in (
        os.path.join(_PACKAGE, "firmware"),
        os.path.join(_SOURCE_ROOT, "examples", "firmware"),
    ):
        folder = os.path.join(root, "boards")
        if os.path.isfile(os.path.join(folder, "serve.c")):
            return folder
    raise FileNotFoundError(f"the boards are not below {_PACKAGE}; install the package again")


def find_lib_path(name: str = "libtvm_runtime.so") -> list[str]:
    """Return the path of a library of the package, in a list as ``tvm._ffi.libinfo`` does.

    Parameters
    ----------
    name
        ``libtvm_runtime.so``, ``libtvm_backend.a`` or ``libtvm_firmware.a``.

    Raises
    ------
    FileNotFoundError
        If there is no such library; the text lists where it was looked for.
    """
    inside = os.path.join(_PACKAGE, "lib", name)
    if os.path.isfile(inside):
        return [inside]
    candidates = _in_build_folder(name)
    for path in candidates:
        if os.path.isfile(path):
            return [path]
    places = ", ".join(os.path.dirname(path) for path in (inside, *candidates))
    raise FileNotFoundError(f"{name} is not in {places}; install the package again")


def _in_build_folder(name: str) -> list[str]:
    from tvmrt.runtime import _library

    build = os.path.dirname(os.path.dirname(os.path.realpath(_library.PATH)))
    return [os.path.join(build, room, name) for room in _ROOMS]
