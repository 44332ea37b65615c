"""ONNX operators that create and search strings."""

from pathlib import Path

HEADERS = Path(__file__).parent / "include"  # kernels
