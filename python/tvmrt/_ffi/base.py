"""Names of ``tvm._ffi.base``."""

from __future__ import annotations

from tvmrt.error import TVMError, register_error
from tvmrt.libinfo import __version__
from tvmrt.runtime._library import check as check_call

__all__ = ["TVMError", "__version__", "check_call", "py_str", "register_error"]


def py_str(text: bytes) -> str:
    """Decode UTF-8 text from C."""
    return text.decode("utf-8")
