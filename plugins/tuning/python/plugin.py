"""Contributions of this plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="tuning",
    summary="layers of networks measured one by one, and computed the fastest way",
    commands={"tune": "tvmrt.plugins.tuning.command:command"},
    schemas={
        "tune": "tvmrt.plugins.tuning.schemas:TUNE",
        "tuning": "tvmrt.plugins.tuning.schemas:TUNING",
    },
    options={"tuned": "tvmrt.plugins.tuning.options:TUNED"},
)
