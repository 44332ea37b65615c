"""Operators of the domain ``com.microsoft``, as onnxruntime's optimiser and quantiser write them.

Each module declares a contract for every operator. Nodes are checked against it, because the onnx
package has no schemas for this domain.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
