"""JSON schema of ``migrate-headers --json``."""

from __future__ import annotations

from tvmrt.cli.schema_types import flag, list_of, of, record

MIGRATE_HEADERS = (
    "tvmrt migrate-headers --json.",
    lambda: record(rewritten=flag(), uses=list_of(of("tvmrt.plugins.migrate_headers.command:Use"))),
)
