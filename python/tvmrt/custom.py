"""Custom operators: declared kernels and compositions of existing operators.

The public names of ``tvmrt.compiler.custom``; see the how-to page "Custom operators".
"""

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
