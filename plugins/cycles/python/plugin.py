"""What this plug-in adds."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="cycles",
    summary="cycles and energy of a network on a board that is not there, by a model of its core",
    hooks={"inspect board": "tvmrt.plugins.cycles.board_estimate:tell"},
)
