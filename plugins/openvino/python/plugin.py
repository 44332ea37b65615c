"""Contributions of this plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="openvino",
    summary="regions computed by OpenVINO",
    requires=("region_writers",),
    devices={"openvino": "tvmrt.plugins.openvino.device:OpenVinoDevice"},
)
