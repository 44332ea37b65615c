"""JSON schema of ``migrate-headers --json``."""

from __future__ import annotations

from tvmrt.cli.schema_types import flag, list_of, record, text, whole

MIGRATE_HEADERS = record(
    "tvmrt migrate-headers --json.",
    rewritten=flag(),
    uses=list_of(record(file=text(), line=whole(), old=text(), new=text(), reason=text())),
)
