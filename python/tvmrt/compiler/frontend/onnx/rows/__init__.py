"""What ONNX asks of an operator's shapes and attributes beyond types, and onnxruntime enforces.

One row an operator, in the notation of ``tvmrt.compiler.ir.contract``; ``check_row`` compares a
node with the row of its opset before it is imported. A row says what is malformed, not what tvmrt
cannot do.
"""

from .table import check_row, contract_of, rows

__all__ = ["check_row", "contract_of", "rows"]
