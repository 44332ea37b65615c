"""Run the C of a firmware network on this machine, recording as on the board."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt.compiler.sdk.codegen import get_target
from tvmrt.compiler.sdk.export import build_library
from tvmrt.plugins.replay import dump

if TYPE_CHECKING:
    import numpy as np

    from tvmrt.compiler.sdk.export import CompiledLibrary

NAME = "replay"  # module name of the network in its C code

_CALLS = f"""\
#include <tvm/runtime/c_backend_api.h>
#include "tvmgen_{NAME}.h"

uint32_t tvmrt_platform_cycles(void) {{ return 0; }}

TVM_DLL int32_t replay_run(void *inputs, void *outputs) {{
  return tvmgen_{NAME}_run(inputs, outputs);
}}

TVM_DLL const void *replay_trace(uint32_t *num_bytes) {{
  *num_bytes = (uint32_t)sizeof(tvmgen_{NAME}_trace);
  return &tvmgen_{NAME}_trace;
}}
"""


def run(
    library: CompiledLibrary, inputs: Mapping[str, np.ndarray], folder: Path, cc: str | None
) -> dump.Dump:
    """Build a network compiled with the C interface and recording, run it once, return the dump.

    Raises CompileError without a C compiler, ValueError if the network returns an error.
    """
    sources = folder / "sources"
    library.export(sources)
    (sources / "calls.c").write_text(_CALLS)
    target = library.target if library.target.name in ("native", "host") else get_target("host")
    shared = folder / "network.so"
    build_library(sorted(sources.glob("*.c")), shared, target, cc)
    return _call(ctypes.CDLL(str(shared)), library.summary, inputs)


def _call(code: ctypes.CDLL, summary: Any, inputs: Mapping[str, np.ndarray]) -> dump.Dump:
    import numpy as np

    given = [np.ascontiguousarray(inputs[t.name]) for t in summary.inputs]
    room = [np.zeros(max(t.nbytes, 1), np.uint8) for t in summary.outputs]
    structs = [_struct(arrays) for arrays in (given, room)]
    status = code.replay_run(*structs)
    if status != 0:
        raise ValueError(f"the network fails on this machine with error code {status}")
    size = ctypes.c_uint32()
    code.replay_trace.restype = ctypes.c_void_p
    data = ctypes.string_at(code.replay_trace(ctypes.byref(size)), size.value)
    return dump.parse(data, "the host's own trace")


def _struct(arrays: list[np.ndarray]) -> ctypes.Array:
    """Return a C struct with one pointer per array."""
    pointers = [array.ctypes.data for array in arrays] or [None]
    return (ctypes.c_void_p * len(pointers))(*pointers)
