"""Locations of the headers and sources of the package on disk, and its version.

An installed package contains them; in a source tree they are at its top. For libraries see
:mod:`tvmrt.libinfo`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

PACKAGE = os.path.dirname(os.path.realpath(__file__))
_SOURCE_ROOT = os.path.dirname(os.path.dirname(PACKAGE))

with open(os.path.join(PACKAGE, "VERSION"), encoding="ascii") as _file:
    __version__ = _file.read().strip()


def find_include_path() -> list[str]:
    """Return the include folders for a C compiler (``-I``): tvmrt's, then those of plug-ins.

    Raises
    ------
    FileNotFoundError
        If the headers are neither in the package nor in a source tree around it, or if those of a
        plug-in are missing.
    """
    return [own_include_path(), *_plugin_folders()]


def own_include_path() -> str:
    """Return tvmrt's include folder, without reading the plug-ins. FileNotFoundError if it is
    neither in the package nor in a source tree around it."""
    folders = (os.path.join(root, "include") for root in (PACKAGE, _SOURCE_ROOT))
    return _first_with("tvm/runtime/c_backend_api.h", "C headers", *folders)


def _first_with(name: str, what: str, *folders: str) -> str:
    """Return the first folder that has a file or a folder of this name."""
    for folder in folders:
        if os.path.exists(os.path.join(folder, name)):
            return folder
    raise FileNotFoundError(f"the {what} are missing from {PACKAGE}; install the package again")


def _plugin_folders() -> Iterator[str]:
    """Yield the include folders of plug-ins that bring headers of kernels."""
    from tvmrt import plugin  # it may not be complete yet when this module is imported

    for key in plugin.keys("headers"):
        folder = str(plugin.find("headers", key))
        if not os.path.isdir(os.path.join(folder, "tvm", "runtime", "kernels")):
            raise FileNotFoundError(
                f"the plug-in {plugin.owner_of('headers', key)} names {folder} for its headers "
                f"{key}, but there is no tvm/runtime/kernels in it; install the plug-in again"
            )
        yield folder


def find_firmware_path() -> str:
    """Return the folder with the sources and build files for microcontrollers. FileNotFoundError if
    it is neither in the package nor in a source tree around it.

    It has ``src_backend`` and ``src_runtime/firmware``. Of an installed package it is also a CMake
    package, a Zephyr module and a Meson subproject; a clone has these files in ``packaging``.
    """
    folders = (os.path.join(PACKAGE, "firmware"), _SOURCE_ROOT)
    return _first_with("src_backend", "sources for microcontrollers", *folders)


def find_cmake_path() -> str:
    """Return the folder with the CMake package of the firmware libraries. Raises the error of
    :func:`find_firmware_path`."""
    root = find_firmware_path()
    return os.path.join(root, "packaging" if root == _SOURCE_ROOT else "", "cmake")


def find_boards_path() -> str:
    """Return the folder ``boards``: start-up code and memory of the boards emulated by QEMU.
    FileNotFoundError if it is neither in the package nor in a source tree around it."""
    roots = (os.path.join(PACKAGE, "firmware"), os.path.join(_SOURCE_ROOT, "examples", "firmware"))
    return _first_with("serve.c", "boards", *(os.path.join(root, "boards") for root in roots))
