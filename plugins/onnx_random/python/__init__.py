"""ONNX operators that generate random numbers."""
