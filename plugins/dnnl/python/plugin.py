"""Description of the dnnl plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="dnnl",
    summary="regions computed by oneDNN",
    devices={"dnnl": "tvmrt.plugins.dnnl.device:OneDnnDevice"},
)
