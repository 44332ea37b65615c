"""Description of the single_file plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="single_file",
    summary="networks as one C file and its header",
    exporters={".c": "tvmrt.plugins.single_file.writer:SingleFile"},
)
