"""Operators of ONNX that networks have while they are trained."""
