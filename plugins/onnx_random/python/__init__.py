"""Operators of ONNX that draw random numbers."""
