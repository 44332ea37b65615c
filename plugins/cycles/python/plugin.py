"""Description of the cycles plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="cycles",
    summary="estimate cycles and energy of a network on a board by a model of its core",
    schemas={"inspect-board": "tvmrt.plugins.cycles.schemas:INSPECT_BOARD"},
    hooks={"inspect board": "tvmrt.plugins.cycles.board_estimate"},
)
