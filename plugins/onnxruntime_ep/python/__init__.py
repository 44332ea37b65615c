"""An execution provider for onnxruntime: its sessions run networks compiled by tvmrt."""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections.abc import Mapping
from typing import Any

from tvmrt.error import suggestion
from tvmrt.libinfo import find_lib_path

__all__ = ["NAME", "add_to", "digests", "library_path", "register"]

NAME = "tvmrt"
"""Name of the execution provider, and the default name of its registration."""
MIN_VERSION = (1, 24)
OPTIONS = ("dims", "min_nodes", "target", "command", "allow_compiled", "idle_executors")
_TEXT = ctypes.c_char_p
_LOCK = threading.Lock()  # onnxruntime refuses a second registration of a name


@ctypes.CFUNCTYPE(ctypes.c_int, _TEXT, _TEXT, _TEXT, ctypes.c_int, _TEXT, _TEXT, _TEXT)
def _compile(*values: Any) -> int:
    from tvmrt.plugins.onnxruntime_ep.libraries import compile_for_provider

    return compile_for_provider(*values)


def library_path() -> str:
    """Return the path of the library for ``register_execution_provider_library``.

    Raises RuntimeError if the plug-in was not built.
    """
    try:
        return find_lib_path("libtvmrt_onnxruntime_ep.so")[0]
    except FileNotFoundError:
        raise RuntimeError(
            "libtvmrt_onnxruntime_ep.so was not built; build tvmrt with the plug-in onnxruntime_ep"
        ) from None


def register(name: str = NAME) -> list[Any]:
    """Register the execution provider in onnxruntime, once per process, and return its devices.

    Sessions compile networks in this process, unless they have the option ``command``.

    Raises
    ------
    ImportError
        If the package ``onnxruntime`` is missing.
    RuntimeError
        If onnxruntime is older than 1.24.
    """
    import onnxruntime

    if tuple(map(int, onnxruntime.__version__.split(".")[:2])) < MIN_VERSION:
        raise RuntimeError(
            "tvmrt needs onnxruntime 1.24 or later; this is onnxruntime "
            f"{onnxruntime.__version__}: pip install -U onnxruntime"
        )
    with _LOCK:
        devices = _devices()
        if not devices:
            path = library_path()
            ctypes.CDLL(path).tvmrt_onnxruntime_ep_set_compiler(_compile)
            onnxruntime.register_execution_provider_library(name, path)
            devices = _devices()
    return devices


def add_to(options: Any, values: Mapping[str, str | int] | None = None) -> None:
    """Let the sessions of an ``onnxruntime.SessionOptions`` use tvmrt.

    Parameters
    ----------
    options
        Changed in place.
    values
        Options of the provider by name: ``dims``, ``min_nodes``, ``target``, ``command``,
        ``allow_compiled``, ``idle_executors``.

    Raises
    ------
    ValueError
        If there is no option of a name.
    """
    texts = {name: str(value) for name, value in (values or {}).items()}
    for name in texts:
        if name not in OPTIONS:
            hint = suggestion(str(name).lower(), OPTIONS)
            raise ValueError(f"tvmrt has no provider option {name!r}; {hint}")
    options.add_provider_for_devices(register(), texts)


def digests(model: str | os.PathLike[str]) -> str:
    """Return the value of ``allow_compiled`` that permits the libraries of a compiled model, and no
    others: the SHA-256 of each, such as ``"sha256:0b1f...,sha256:77ac..."``.

    Call it where the model is compiled, since a changed file has other digests. Raises ValueError
    if the file has no libraries of tvmrt.
    """
    import onnx

    found = []
    for node in onnx.load(os.fspath(model), load_external_data=False).graph.node:
        texts = {each.name: each.s for each in node.attribute}
        if node.op_type == "EPContext" and texts.get("source") == NAME.encode():
            library = texts.get("ep_cache_context", b"")
            found.append("sha256:" + hashlib.sha256(library).hexdigest())
    if not found:
        raise ValueError(f"{os.fspath(model)} has no EPContext node of tvmrt")
    return ",".join(dict.fromkeys(found))


def _devices() -> list[Any]:
    import onnxruntime

    return [each for each in onnxruntime.get_ep_devices() if each.ep_name == NAME]
