"""Operators of the ONNX domain ``ai.onnx.ml``."""
