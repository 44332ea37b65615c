"""Description of the ethos_u plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="ethos_u",
    summary="regions for Arm's Ethos-U processors, compiled by Vela",
    requires=("region_writers",),
    devices={"ethos-u": "tvmrt.plugins.ethos_u.device:EthosU"},
)
