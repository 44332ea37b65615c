"""Contributions of this plug-in."""

from tvmrt.plugin import Plugin

TOLERANCES = "tvmrt.plugins.onnx_microsoft.tolerances"
PLUGIN = Plugin(
    name="onnx_microsoft",
    summary="operators of com.microsoft, as onnxruntime's optimiser and quantisers write them",
    operators={("com.microsoft", "*"): "tvmrt.plugins.onnx_microsoft.operators"},
    tolerances={("com.microsoft", "DynamicQuantizeLSTM"): f"{TOLERANCES}:STATE_OF_8_BITS"},
)
