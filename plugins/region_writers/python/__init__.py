"""Writers of regions as ONNX models and ``.tflite`` files."""
