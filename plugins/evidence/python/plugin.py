"""Description of the evidence plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="evidence",
    summary="a folder with which others check a compiled firmware network",
    options={
        "evidence": "tvmrt.plugins.evidence.option:EVIDENCE",
        "evidence_inputs": "tvmrt.plugins.evidence.option:INPUTS",
        "evidence_key": "tvmrt.plugins.evidence.option:KEY",
    },
    hooks={"verify folder": "tvmrt.plugins.evidence.verify:verify_folder"},
)
