"""What this plug-in adds."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="cycles",
    summary="estimate cycles and energy of a network on a board by a model of its core",
    hooks={"inspect board": "tvmrt.plugins.cycles.board_estimate:tell"},
)
