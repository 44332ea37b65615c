"""Description of the guard plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="guard",
    summary="firmware networks that detect changed weights and tensors",
    options={"guard": "tvmrt.plugins.guard.option:GUARD"},
)
