"""Description of the opencl plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="opencl",
    summary="regions computed by OpenCL kernels",
    devices={"opencl": "tvmrt.plugins.opencl.device:OpenCLDevice"},
)
