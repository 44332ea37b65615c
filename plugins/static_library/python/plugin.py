"""Description of the static_library plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="static_library",
    summary="networks as a static library and its header, as compilers based on TVM write them",
    exporters={".a": "tvmrt.plugins.static_library.writer:StaticLibrary"},
)
