"""Custom operators: declared kernels and compositions of existing operators.

The public names of ``tvmrt.compiler.custom``; see the how-to page "Custom operators".
"""

import sys

from tvmrt.compiler.custom import (
    C,
    Catalogue,
    Composed,
    GraphBuilder,
    Instance,
    Kernel,
    OpenCL,
    Operator,
    Tensor,
    TensorType,
    UnsupportedNode,
    Value,
    composed,
    gather,
    installed_operators,
    load_operators,
)
from tvmrt.deprecation import renamed

__all__ = [
    "C",
    "Catalogue",
    "Composed",
    "GraphBuilder",
    "Instance",
    "Kernel",
    "OpenCL",
    "Operator",
    "Tensor",
    "TensorType",
    "UnsupportedNode",
    "Value",
    "composed",
    "gather",
    "installed_operators",
    "load_operators",
]

__getattr__ = renamed(globals(), {"Declined": "UnsupportedNode"})

# Pickles of operators from versions up to 0.2 refer to functions of these modules.
_HOME = "tvmrt.compiler.custom"
for _name in ("operator", "sources", "catalogue"):
    sys.modules[f"{__name__}.{_name}"] = sys.modules[f"{_HOME}.{_name}"]
