"""Names of ``tvm._ffi.base``."""

from __future__ import annotations

from tvmrt.error import TVMError, register_error
from tvmrt.libinfo import __version__

__all__ = ["TVMError", "__version__", "register_error"]
