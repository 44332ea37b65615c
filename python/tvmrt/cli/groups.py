"""Help of commands with many options: in groups by what they are about."""

from __future__ import annotations

import click

FIRST = "Options"
# Titles in their order, with the options that stand below each; all others stand first.
GROUPS = {
    "The network": "shapes dims sequences signature operators tflite_rounding requantize "
    "precision weights winograd row_chains tuned module_name",
    "Where it runs": "target levels runtime executor abi params cc threads",
    "Boards": "board interface_api unpacked_api pools ram place workspace_io concurrent image_name "
    "kind profile record trace_records",
    "Devices": "devices require_device device_fallback device_options schedule mixed_precision "
    "max_error calibration",
    "Looking into it": "explain memory_plan dump_dir max_memory as_json",
}
_TITLES = {name: title for title, names in GROUPS.items() for name in names.split()}


class GroupedCommand(click.Command):
    """A command whose help has its options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options below the titles of their groups."""
        found: dict[str, list[tuple[str, str]]] = {title: [] for title in (FIRST, *GROUPS)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                found[_TITLES.get(parameter.name or "", FIRST)].append(record)
        for title, records in found.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
