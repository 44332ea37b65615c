"""Constraints on shapes and attributes of operators beyond types, as onnxruntime enforces them.

There is one row per operator, in the notation of ``tvmrt.compiler.ir.contract``.
``check_constraints`` checks a node against the row of its opset before import. Rows describe
malformed nodes, not the limits of tvmrt.
"""

from .lookup import check_constraints, contract_of, contracts

__all__ = ["check_constraints", "contract_of", "contracts"]
