"""Names of ``tvm.contrib.ndk``: libraries for Android."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tvmrt.contrib import cc

__all__ = ["create_shared"]

_VARIABLE = "TVM_NDK_CC"


def create_shared(output: str, objects: cc.Objects, options: Sequence[str] | None = None) -> None:
    """Link objects to a shared library with the compiler that ``TVM_NDK_CC`` names.

    Parameters
    ----------
    output
        Path of the library.
    objects
        Objects, archives or C sources.
    options
        Options instead of ``-shared -fPIC -lm``.

    Raises
    ------
    RuntimeError
        If the variable is not set, or the compiler fails.
    """
    compiler = os.environ.get(_VARIABLE)
    if not compiler:
        raise RuntimeError(
            f"Require environment variable {_VARIABLE} to be the NDK standalone compiler"
        )
    usual = ["-shared", "-fPIC", "-lm"]
    cc.link([], output, objects, usual if options is None else options, compiler)


def _triple() -> str | None:
    """Return the target triple of the compiler in ``TVM_NDK_CC``."""
    return cc.get_target_triple_of(os.environ.get(_VARIABLE))()


create_shared.output_format = "so"  # type: ignore[attr-defined]
create_shared.get_target_triple = _triple  # type: ignore[attr-defined]
