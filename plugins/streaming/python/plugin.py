"""Description of the streaming plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="streaming",
    summary="networks over a window of a stream, computed hop by hop",
    options={"stream": "tvmrt.plugins.streaming.option:STREAM"},
)
