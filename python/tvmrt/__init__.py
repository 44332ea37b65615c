"""Compile trained networks to plain C and run them with a small runtime of the classic TVM ABI.

``tvmrt.load`` returns a network as a function of arrays and compiles it if necessary.
``tvmrt.compile`` compiles a network to a library. All other names belong to the runtime and behave
as in ``tvm`` 0.8 to 0.18, so code written for TVM runs with ``import tvmrt as tvm``. Compiler and
runtime are imported at first use: the compiler works without a built runtime, and the runtime
never imports the compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tvmrt.libinfo import __version__

if TYPE_CHECKING:
    from tvmrt import contrib, custom, devices, error, libinfo, nd, runtime
    from tvmrt.compiler.pipeline import compile, compile_together
    from tvmrt.compiler.request import Request
    from tvmrt.error import TVMError
    from tvmrt.network.loading import load
    from tvmrt.network.network import Network
    from tvmrt.runtime import (
        DataType,
        DataTypeCode,
        Module,
        NDArray,
        Object,
        PackedFunc,
        convert,
        device_fallbacks,
        get_global_func,
        load_device_plugin,
        load_param_dict,
        register_func,
        register_object,
        save_param_dict,
    )
    from tvmrt.runtime.device import (
        Device,
        cpu,
        cuda,
        device,
        ext_dev,
        gpu,
        hexagon,
        metal,
        opencl,
        rocm,
        vpi,
        vulkan,
        webgpu,
    )

__all__ = [
    "DataType",
    "DataTypeCode",
    "Device",
    "Module",
    "NDArray",
    "Network",
    "Object",
    "PackedFunc",
    "Request",
    "TVMError",
    "__version__",
    "compile",
    "compile_together",
    "contrib",
    "convert",
    "cpu",
    "cuda",
    "custom",
    "device",
    "device_fallbacks",
    "devices",
    "error",
    "ext_dev",
    "get_global_func",
    "gpu",
    "hexagon",
    "libinfo",
    "load",
    "load_device_plugin",
    "load_param_dict",
    "metal",
    "nd",
    "opencl",
    "register_func",
    "register_object",
    "rocm",
    "runtime",
    "save_param_dict",
    "vpi",
    "vulkan",
    "webgpu",
]

_MODULES = ("contrib", "custom", "devices", "error", "libinfo", "nd", "runtime")
_MOVED_NAMES = {
    "compile": "tvmrt.compiler.pipeline",
    "compile_together": "tvmrt.compiler.pipeline",
    "load": "tvmrt.network.loading",
    "Network": "tvmrt.network.network",
    "Request": "tvmrt.compiler.request",
    "TVMError": "tvmrt.error",
}


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == module:
            raise
        from tvmrt import optional_dependencies

        raise optional_dependencies.with_install_advice(error) from error


def _module(name: str) -> Any:
    """Return a submodule of the package, including those that plug-ins install, or a function that
    a plug-in adds."""
    text = f"module 'tvmrt' has no attribute '{name}'"
    if name.startswith("__") or not name.isidentifier():
        raise AttributeError(text)
    try:
        return _import(f"tvmrt.{name}")
    except ImportError as error:
        if error.name != f"tvmrt.{name}":
            raise
    from tvmrt.plugin import find

    function = find("functions", name)
    if function is None:
        raise AttributeError(text)
    globals()[name] = function
    return function


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    if name not in __all__ or name in _MODULES:
        return _module(name)
    home = _import(_MOVED_NAMES.get(name, "tvmrt.runtime"))
    value = getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
