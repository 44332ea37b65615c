"""JSON schema of ``device test --json``."""

from __future__ import annotations

from tvmrt.cli.schema_types import flag, list_of, record, text

FINDING = record(check=text(), subject=text(), passed=flag(), detail=text())

DEVICE_TEST = record(
    "tvmrt device test --json.", device=text(), passed=flag(), findings=list_of(FINDING)
)  # fmt: skip
