"""Operators of ONNX that make strings and look into them."""
