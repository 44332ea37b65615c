"""Modules of TVM that are not here, with what to use instead; importing one of them says so."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_COMPILER = "tvmrt.compile('network.onnx') takes the network as it was exported"
_SCRIPTS = "operators of one's own are written in C or composed: tvmrt.custom"
_TUNER = "kernels are chosen by the compiler, there is nothing to tune"
INSTEAD = {
    "auto_scheduler": _TUNER,
    "IRModule": _COMPILER,
    "autotvm": _TUNER,
    "build": _COMPILER,
    "contrib.download": "urllib.request.urlretrieve(url, path) gets a file",
    "contrib.pipeline_executor": "tvmrt.compile_together() puts several networks into one library",
    "driver": "the command 'tvmrt' compiles, runs and inspects; tvmrt.compile() in Python",
    "lower": _COMPILER,
    "meta_schedule": _TUNER,
    "micro": "'tvmrt compile NETWORK -o net.tar --target cortex-m4' writes C for boards",
    "relax": _COMPILER,
    "relay": _COMPILER,
    "runtime.vm": "networks are compiled for the graph or the AOT executor, not for a machine",
    "script": _SCRIPTS,
    "target": "the processor is a name: tvmrt.compile('network.onnx', target='cortex-m4')",
    "te": _SCRIPTS,
    "tir": _SCRIPTS,
    "topi": _SCRIPTS,
}


def answer(name: str) -> str | None:
    """The sentence for a name below the package; None for any that is none of TVM's."""
    instead = INSTEAD.get(name)
    return None if instead is None else f"tvm.{name} is not part of tvmrt; {instead}"


class Finder:
    """Asked by the import system for what no file has."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise ImportError with the sentence for a module of TVM; None for any other."""
        package, _, name = fullname.partition(".")
        text = answer(name) if package == __package__ else None
        if text is not None:
            raise ImportError(text, name=fullname)
        return None


def install() -> None:
    """Let the import system ask, after all others."""
    if Finder not in sys.meta_path:
        sys.meta_path.append(Finder)
