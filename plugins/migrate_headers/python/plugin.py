"""Description of the migrate_headers plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="migrate_headers",
    summary="old names of headers and functions in C sources found and replaced",
    commands={"migrate-headers": "tvmrt.plugins.migrate_headers.command:command"},
    schemas={"migrate-headers": "tvmrt.plugins.migrate_headers.schemas:MIGRATE_HEADERS"},
)
