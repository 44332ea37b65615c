"""Names of ``tvm._ffi.libinfo``."""

from __future__ import annotations

from tvmrt.libinfo import __version__, find_include_path, find_lib_path

__all__ = ["__version__", "find_include_path", "find_lib_path"]
