"""Regions of networks written as ONNX models and as .tflite files."""
