"""Contributions of this plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="region_writers",
    summary="regions of networks written as ONNX models and as .tflite files",
)
