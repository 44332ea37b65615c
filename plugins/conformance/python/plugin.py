"""Description of the conformance plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="conformance",
    summary="tests that every device must pass",
    commands={"device test": "tvmrt.plugins.conformance.command:command"},
    schemas={"device-test": "tvmrt.plugins.conformance.schemas:DEVICE_TEST"},
)
