"""Contributions of this plug-in."""

from tvmrt.plugin import Plugin

DEVICE = "onnxruntime"  # recommended in errors about unsupported operators

PLUGIN = Plugin(
    name="onnxruntime",
    summary="operators that tvmrt does not have, computed by onnxruntime",
    requires=("region_writers",),
    devices={"onnxruntime": "tvmrt.plugins.onnxruntime.device:OnnxRuntime"},
    hooks={"unknown operators": "tvmrt.plugins.onnxruntime.plugin:DEVICE"},
)
