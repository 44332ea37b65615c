"""Description of the proof plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="proof",
    summary="firmware networks whose C Frama-C proves free of undefined behaviour",
    options={"proof": "tvmrt.plugins.proof.option:PROOF"},
)
