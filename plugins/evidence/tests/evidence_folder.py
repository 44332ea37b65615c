"""Networks and folders of evidence for tests."""

from __future__ import annotations

from pathlib import Path

import tvmrt
from tvmrt.plugins.evidence.verify import verify_folder

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
FIRMWARE = {"runtime": "crt", "executor": "aot", "interface_api": "c", "unpacked_api": True}


def make_evidence(name, folder, target="host", **options):
    """Compile a network of the digits example; return its folder of evidence."""
    tvmrt.compile(
        str(DIGITS / f"{name}.onnx"), evidence=folder, target=target, **FIRMWARE, **options
    )
    return folder


def wrong_rows(folder, **options):
    """Return the rows of ``tvmrt verify`` that are wrong, as text."""
    rows, _ = verify_folder(folder, options)
    return [
        f"{row.part}: {row.tensor} {row.verdict.problem}" for row in rows if not row.verdict.right
    ]
