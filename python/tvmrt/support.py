"""Names of ``tvm.support``."""

from __future__ import annotations

import platform
import sys

__all__ = ["describe", "libinfo"]


def libinfo() -> dict[str, str]:
    """Describe the library by those keys of TVM that apply to tvmrt."""
    from tvmrt.libinfo import __version__, find_lib_path

    return {
        "TVM_VERSION": __version__,
        "LIBRARY": find_lib_path("libtvm_runtime.so")[0],
        "USE_LLVM": "OFF",
        "USE_CUDA": "OFF",
        "USE_RPC": "OFF",
        "USE_SORT": "ON",
        "USE_RANDOM": "ON",
        "USE_GRAPH_EXECUTOR": "ON",
        "USE_AOT_EXECUTOR": "ON",
    }


def describe() -> None:
    """Print library, Python and machine for bug reports."""
    print(f"Python Environment\n  {sys.version}")
    print(f"System\n  {platform.platform()}")
    for name, value in libinfo().items():
        print(f"  {name}: {value}")
