"""Description of the quantize plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="quantize",
    summary="int8 networks from float32 ones and example inputs, with the error of each layer",
    commands={"quantize": "tvmrt.plugins.quantize.command:command"},
    functions={"quantize": "tvmrt.plugins.quantize.quantization:quantize"},
    schemas={"quantize": "tvmrt.plugins.quantize.command:SCHEMA"},
)
