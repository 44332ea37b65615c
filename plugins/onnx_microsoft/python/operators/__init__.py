"""Operators of the domain ``com.microsoft``, as onnxruntime's optimiser and quantiser write them.

Each module has a row for every operator, its contract; a node is compared with it, for the onnx
package knows nothing of these.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
