"""Description of the cmsis_nn plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="cmsis_nn",
    summary="int8 layers of boards by calls of Arm's CMSIS-NN",
    devices={"cmsis-nn": "tvmrt.plugins.cmsis_nn.device:CmsisNN"},
)
