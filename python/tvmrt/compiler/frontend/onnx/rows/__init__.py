"""Constraints on shapes and attributes of operators beyond types, as onnxruntime enforces them.

There is one row per operator, in the notation of ``tvmrt.compiler.ir.contract``. ``check_row``
checks a node against the row of its opset before import. Rows describe malformed nodes, not the
limits of tvmrt.
"""

from .table import check_row, contract_of, rows

__all__ = ["check_row", "contract_of", "rows"]
