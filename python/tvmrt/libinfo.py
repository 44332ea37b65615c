"""Locations of the package's parts on disk. Only looking for libraries of a build folder loads the
runtime, so the compiler may use this module.

An installed package has its libraries in its folder ``lib``. In a source tree they are in a build
folder, which is known once the runtime is loaded.
"""

from __future__ import annotations

import os

from tvmrt.install_paths import (
    PACKAGE,
    __version__,
    find_boards_path,
    find_cmake_path,
    find_firmware_path,
    find_include_path,
    own_include_path,
)

__all__ = [
    "__version__",
    "find_boards_path",
    "find_cmake_path",
    "find_firmware_path",
    "find_include_path",
    "find_lib_path",
    "own_include_path",
]

_BUILD_FOLDERS = ("src_runtime", "src_backend", os.path.join("src_runtime", "firmware"))


def find_lib_path(name: str = "libtvm_runtime.so") -> list[str]:
    """Return the path of a library of the package in a list, as ``tvm._ffi.libinfo`` does.

    Parameters
    ----------
    name
        ``libtvm_runtime.so``, ``libtvm_backend.a`` or ``libtvm_firmware.a``.

    Raises
    ------
    FileNotFoundError
        If there is no such library; the text lists where it was looked for.
    """
    inside = os.path.join(PACKAGE, "lib", name)
    if os.path.isfile(inside):
        return [inside]
    candidates = _in_build_folder(name)
    for path in candidates:
        if os.path.isfile(path):
            return [path]
    folders = ", ".join(os.path.dirname(path) for path in (inside, *candidates))
    raise FileNotFoundError(f"{name} is not in {folders}; install the package again")


def _in_build_folder(name: str) -> list[str]:
    from tvmrt.runtime import _library

    build = os.path.dirname(os.path.dirname(os.path.realpath(_library.PATH)))
    return [os.path.join(build, subfolder, name) for subfolder in _BUILD_FOLDERS]
