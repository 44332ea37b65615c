"""What this plug-in adds."""

from tvmrt.plugin import Plugin

DEVICE = "onnxruntime"  # named where the compiler knows no operator of a node

PLUGIN = Plugin(
    name="onnxruntime",
    summary="operators that tvmrt does not have, computed by onnxruntime",
    requires=("region_writers",),
    devices={"onnxruntime": "tvmrt.plugins.onnxruntime.device:OnnxRuntime"},
    hooks={"unknown operators": "tvmrt.plugins.onnxruntime.plugin:DEVICE"},
)
