"""Description of the tvmc plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="tvmc",
    summary="command lines of TVM's tvmc",
    commands={"tvmc": "tvmrt.plugins.tvmc.command:command"},
)
