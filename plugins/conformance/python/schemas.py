"""JSON schema of ``device test --json``."""

from __future__ import annotations

from tvmrt.cli.schema_types import flag, list_of, of, record, text

DEVICE_TEST = (
    "tvmrt device test --json.",
    lambda: record(
        device=text(), passed=flag(), findings=list_of(of("tvmrt.conformance.finding:Finding"))
    ),
)
