"""Where headers and sources of the package lie on disk, and its version. Knows no room.

An installed package has them inside it, a source tree at its top; for libraries see
:mod:`tvmrt.libinfo`.
"""

from __future__ import annotations

import os

PACKAGE = os.path.dirname(os.path.realpath(__file__))
_SOURCE_ROOT = os.path.dirname(os.path.dirname(PACKAGE))

with open(os.path.join(PACKAGE, "VERSION"), encoding="ascii") as _file:
    __version__ = _file.read().strip()


def find_include_path() -> list[str]:
    """Return the folders to give to a C compiler as ``-I``.

    Raises
    ------
    FileNotFoundError
        If the headers are neither in the package nor in a source tree around it.
    """
    for root in (PACKAGE, _SOURCE_ROOT):
        folder = os.path.join(root, "include")
        if os.path.isfile(os.path.join(folder, "tvm", "runtime", "c_backend_api.h")):
            return [folder]
    raise FileNotFoundError(f"the C headers are not below {PACKAGE}; install the package again")


def find_firmware_path() -> str:
    """Return the folder with the sources for microcontrollers, and what build systems read there.

    It has ``src_backend`` and ``src_runtime/firmware``, and is a CMake package, a Zephyr module
    and a Meson subproject.

    Raises
    ------
    FileNotFoundError
        If it is neither in the package nor the source tree around it.
    """
    for root in (os.path.join(PACKAGE, "firmware"), _SOURCE_ROOT):
        if os.path.isdir(os.path.join(root, "src_backend")):
            return root
    raise FileNotFoundError(
        f"the sources for microcontrollers are not below {PACKAGE}; install the package again"
    )


def find_boards_path() -> str:
    """Return the folder ``boards``: start-up code and memory of the boards that QEMU plays.

    Raises
    ------
    FileNotFoundError
        If it is neither in the package nor the source tree around it.
    """
    for root in (
        os.path.join(PACKAGE, "firmware"),
        os.path.join(_SOURCE_ROOT, "examples", "firmware"),
    ):
        folder = os.path.join(root, "boards")
        if os.path.isfile(os.path.join(folder, "serve.c")):
            return folder
    raise FileNotFoundError(f"the boards are not below {PACKAGE}; install the package again")
