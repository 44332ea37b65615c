"""What this plug-in adds."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="onnxruntime",
    summary="operators that tvmrt does not have, computed by onnxruntime",
    requires=("region_writers",),
    devices={"onnxruntime": "tvmrt.plugins.onnxruntime.device:OnnxRuntime"},
)
