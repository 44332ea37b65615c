"""ONNX operators that create and search strings."""
