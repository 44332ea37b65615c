"""Contributions of this plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="onnx_ml",
    summary="operators of ai.onnx.ml: tree ensembles, linear and support vector models, encoders",
    requires=("onnx_text",),
    operators={("ai.onnx.ml", "*"): "tvmrt.plugins.onnx_ml.operators"},
)
