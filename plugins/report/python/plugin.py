"""Description of the report plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="report",
    summary="all that is known of a network, and the time of its operators, on a page",
    commands={"report": "tvmrt.plugins.report.command:command"},
    schemas={"report": "tvmrt.plugins.report.schemas:REPORT"},
    hooks={
        "network report": "tvmrt.plugins.report.network_report:report",
        "operator times": "tvmrt.plugins.report.operator_times",
        "pages": "tvmrt.plugins.report.page",
    },
)
