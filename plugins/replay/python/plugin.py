"""Description of the replay plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="replay",
    summary="a board's record of its runs, compared with a run on this machine",
    commands={"replay": "tvmrt.plugins.replay.command:command"},
    schemas={"replay": "tvmrt.plugins.replay.command:SCHEMA"},
)
