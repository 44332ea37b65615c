"""Reference page of the operators of onnxruntime's domain: their names from their contracts, in
the text of ``microsoft-operators.md.in``."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tvmrt.plugins.onnx_microsoft.operators import domain, unsupported_operators


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def page() -> str:
    """Return the page's text."""
    refused = defaultdict(list)
    for name, reason in sorted(unsupported_operators.REASONS.items()):
        refused[reason].append(name)
    rows = [f"| {_names(names)} | {reason} |" for reason, names in refused.items()]
    text = Path(__file__).with_name("microsoft-operators.md.in").read_text(encoding="utf-8")
    supported = _names(list(domain.contracts()))
    return text.format(supported=supported, unsupported="\n".join(rows))


PAGES = {"microsoft-operators.md": page}
