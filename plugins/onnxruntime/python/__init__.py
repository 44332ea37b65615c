"""onnxruntime as a fallback for operators that tvmrt does not support."""
