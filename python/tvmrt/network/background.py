"""Compilation in a process of low priority, while a network already runs from the kernel pack."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt import plugin, toolchains
from tvmrt.error import TvmrtWarning

if TYPE_CHECKING:
    from tvmrt.compiler.request import Request

LOCAL_TARGETS = ("here", "native")
_STARTED: set[str] = set()  # keys of the networks that this process has had compiled
# The pipe is open until the process has all it needs, so it survives the process that started it.
_PROGRAM = """
import os, pickle, sys
os.nice(15)  # the pack is for Linux
import tvmrt
model, request, cache = pickle.load(sys.stdin.buffer)
tvmrt.load(model, request=request, cache=cache)
"""


def pack_request(requested: Request) -> Request | None:
    """Return the request with which the kernel pack answers first; None to compile at once:
    $TVMRT_COMPILE is not ``background``, the pack cannot run what is requested, or this is a
    program whose executable is not Python."""
    if os.environ.get(toolchains.COMPILE_VARIABLE) != "background":
        return None
    if requested.target not in LOCAL_TARGETS or requested.cc is not None or requested.reproducible:
        return None
    pack = plugin.find("hooks", "kernel pack")
    if pack is None or pack.why_missing() or getattr(sys, "frozen", False) or not sys.executable:
        return None
    return replace(requested, target=pack.TARGET)


def start(model: Any, requested: Request, cache: Path, key: str, name: str) -> None:
    """Compile a network into the cache, in a process that this one need not wait for; once.

    A failure is one warning. ``model``: a path, a ModelProto or bytes; ``name``: for the warning.
    """
    if key in _STARTED:
        return
    _STARTED.add(key)
    model = os.path.abspath(model) if isinstance(model, (str, os.PathLike)) else model
    job = pickle.dumps((model, replace(requested, progress=None), cache))
    environment = {
        **os.environ,
        toolchains.COMPILE_VARIABLE: "now",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, env=environment, start_new_session=True,
    )  # fmt: skip
    threading.Thread(target=_wait, args=(process, job, name), daemon=True).start()


def _wait(process: subprocess.Popen[bytes], job: bytes, name: str) -> None:
    said = process.communicate(job)[1].decode(errors="replace").strip()
    if process.returncode != 0:
        reason = said.splitlines()[-1] if said else f"its process ended with {process.returncode}"
        warnings.warn(
            f"{name} runs from the kernel pack: it could not be compiled in the background "
            f"({reason}); set {toolchains.COMPILE_VARIABLE}=never to compile no more",
            TvmrtWarning,
            stacklevel=2,
        )
