"""Modules and names of TVM that tvmrt lacks; importing one raises an error with a replacement."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_COMPILER = "tvmrt.compile('network.onnx') takes the network as it was exported"
_SCRIPTS = "operators of one's own are written in C or composed: tvmrt.custom"
_TUNER = "kernels are chosen by the compiler, there is nothing to tune"
_LIBRARIES = "other libraries are devices: tvmrt.compile(model, devices=[...]); 'tvmrt device list'"
_BOARDS = 'tvmrt.compile("net.onnx", target="cortex-m4").export("net.tar") writes C for boards'
_MACHINE = "networks are compiled for the graph or the AOT executor, not for a machine"
_PIPELINE = "devices work at the same time by tvmrt.compile(..., devices=[...], schedule='async')"
INSTEAD = {
    "arith": _SCRIPTS,
    "auto_scheduler": _TUNER,
    "autotvm": _TUNER,
    "build": _COMPILER,
    "context": "tvmrt.device() is its name since 0.8",
    "contrib.cblas": _SCRIPTS,
    "contrib.coreml_runtime": _LIBRARIES,
    "contrib.cuda_graph": _LIBRARIES,
    "contrib.cutlass": _LIBRARIES,
    "contrib.dnnl": _LIBRARIES,
    "contrib.download": "urllib.request.urlretrieve(url, path) gets a file",
    "contrib.emcc": "tvmrt.contrib.cc links by any C compiler: cc='emcc'",
    "contrib.hexagon": _LIBRARIES,
    "contrib.micro": _BOARDS,
    "contrib.mkl": _SCRIPTS,
    "contrib.nvcc": _LIBRARIES,
    "contrib.peak": "the command 'tvmrt bench' measures the peaks of the machine",
    "contrib.pipeline_executor": _PIPELINE,
    "contrib.pipeline_executor_build": _PIPELINE,
    "contrib.popen_pool": "concurrent.futures runs functions in other processes",
    "contrib.random": _SCRIPTS,
    "contrib.relay_viz": "'tvmrt report NETWORK -o page.html' draws the graph",
    "contrib.sort": _SCRIPTS,
    "contrib.tflite_runtime": "tvmrt.load('network.tflite') takes such files",
    "contrib.torch": "networks of tvmrt.load() take tensors of torch as they are",
    "contrib.util": "tvmrt.contrib.utils is its name since 0.8",
    "contrib.xcode": "tvmrt.contrib.cc links with the machine's compiler",
    "dlight": _TUNER,
    "driver": "the command 'tvmrt' compiles, runs and inspects; tvmrt.compile() in Python",
    "instrument": _COMPILER,
    "IRModule": _COMPILER,
    "lower": _COMPILER,
    "meta_schedule": _TUNER,
    "micro": _BOARDS,
    "parser": _COMPILER,
    "relax": _COMPILER,
    "relay": _COMPILER,
    "runtime.disco": _MACHINE,
    "runtime.Module.export_library": "tvmrt.compile('network.onnx') gives what has it; a module "
    "that was loaded is its file, which can be copied",
    "runtime.profiler_vm": _MACHINE,
    "runtime.relax_vm": _MACHINE,
    "runtime.vm": _MACHINE,
    "script": _SCRIPTS,
    "target": "the processor is a name: tvmrt.compile('network.onnx', target='cortex-m4')",
    "te": _SCRIPTS,
    "tir": _SCRIPTS,
    "topi": _SCRIPTS,
}


def error_text(name: str) -> str | None:
    """Return the error text for a name of TVM; None for other names."""
    instead = INSTEAD.get(name)
    return None if instead is None else _sentence(name, instead)


def _sentence(name: str, instead: str) -> str:
    return f"tvm.{name} is not part of tvmrt; {instead}"


def full_error_text(name: str) -> str | None:
    """Return the error text for a name of TVM, including texts of plug-ins; None for others."""
    text = error_text(name)
    if text is not None or name.partition(".")[0] in ("plugin", "plugins"):
        return text  # these modules read the plug-ins
    from tvmrt import plugin  # rarely needed

    instead = plugin.instead(name)
    return None if instead is None else _sentence(name, instead)


class Finder:
    """A meta path finder for modules that no file provides."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise ImportError with advice for a module of TVM; return None for other modules."""
        package, _, name = fullname.partition(".")
        if package != __package__:
            return None
        text = full_error_text(name)
        if text is not None:
            raise ImportError(text, name=fullname)
        return None


def install() -> None:
    """Install the finder after all others."""
    if Finder not in sys.meta_path:
        sys.meta_path.append(Finder)
