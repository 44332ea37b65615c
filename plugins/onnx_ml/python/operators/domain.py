"""Name of the domain."""

DOMAIN = "ai.onnx.ml"
