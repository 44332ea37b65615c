"""Description of the examplejson plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="examplejson",
    summary="an example of a device: a graph format with a runtime of its own",
    devices={"examplejson": "tvmrt.plugins.examplejson.device:ExampleJson"},
)
