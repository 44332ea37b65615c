"""Custom operators: kernels, declared once with up to three bodies, and compositions.

The how-to page "Custom operators" is an introduction. Nothing is registered globally: a network
gets operators by ``tvmrt.compile(operators=...)``, by installed wheels, or in a
:class:`GraphBuilder`.
"""

from tvmrt.compiler.ir import TensorType, Value

from .bodies import C, OpenCL
from .catalogue import Catalogue, OperatorSource, gather, installed_operators, load_operators
from .composed import Composed, composed
from .graph_builder import GraphBuilder
from .kernel import Kernel
from .operand import Tensor
from .operator import Instance, Operator, UnsupportedNode

__all__ = [
    "C", "Catalogue", "Composed", "GraphBuilder", "Instance", "Kernel", "OpenCL", "Operator",
    "OperatorSource", "Tensor", "TensorType", "UnsupportedNode", "Value", "composed", "gather",
    "installed_operators", "load_operators",
]  # fmt: skip
