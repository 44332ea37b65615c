"""JSON schema of ``migrate-headers --json``."""

from __future__ import annotations

from tvmrt.cli.schema_types import flag, integer, list_of, record, text

MIGRATE_HEADERS = record(
    "tvmrt migrate-headers --json.",
    rewritten=flag(),
    uses=list_of(record(file=text(), line=integer(), old=text(), new=text(), reason=text())),
)
