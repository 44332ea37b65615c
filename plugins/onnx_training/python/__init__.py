"""ONNX operators used in training."""
