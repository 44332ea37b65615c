"""Contributions of this plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="onnxruntime_ep",
    summary="an execution provider for onnxruntime 1.24 and later",
    commands={"onnxruntime-ep": "tvmrt.plugins.onnxruntime_ep.command:command"},
)
