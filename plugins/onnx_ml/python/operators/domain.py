"""The name of the domain."""

DOMAIN = "ai.onnx.ml"
