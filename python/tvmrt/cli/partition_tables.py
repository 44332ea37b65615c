"""Tables of a partitioned network: its nodes, its regions, and tensors at region boundaries."""

from __future__ import annotations

from typing import Any

from tvmrt.cli import console


def print_partition(summary: Any) -> None:
    """Print the device of each ONNX node, and why no other device takes it."""
    rows = [(row.name, row.op_type, row.device, row.reason) for row in summary.nodes]
    columns = ("node", "operator", "device", "reason")
    console.print_table("nodes", columns, rows, columns)
    if summary.regions:
        _print_regions(summary)
        _print_boundaries(summary)


def _print_regions(summary: Any) -> None:
    rows = [
        (
            row.symbol,
            row.device,
            len(row.onnx_nodes),
            ", ".join(dict.fromkeys(row.operators)),
            console.format_bytes(row.input_bytes),
            console.format_bytes(row.output_bytes),
            console.format_bytes(row.weights_bytes),
            row.precision or "-",
            "-" if row.error is None else f"{row.error:.2g}",
            row.note or row.code,
        )
        for row in summary.regions
    ]
    left = ("region", "device", "operators", "precision", "code")
    columns = (
        "region", "device", "nodes", "operators", "in", "out", "weights", "precision", "error",
        "code",
    )  # fmt: skip
    console.print_table("regions", columns, rows, left)


def _print_boundaries(summary: Any) -> None:
    rows = [
        (
            row.tensor,
            row.source,
            row.target,
            console.format_bytes(row.nbytes),
            _how(row),
        )
        for row in summary.borders
    ]
    columns = ("tensor", "from", "to", "bytes", "how")
    console.print_table("region boundaries", columns, rows, ("tensor", "from", "to", "how"))


def _how(row: Any) -> str:
    if row.stays_in:
        return f"stays in {row.stays_in}'s memory"
    return "copied to another layout" if row.copied else "in place"


def boundary_text(summary: Any) -> str:
    """Summarise the tensors that cross region boundaries."""
    crossing = [row for row in summary.borders if not row.stays_in]
    staying = [row for row in summary.borders if row.stays_in]
    copied = [row for row in crossing if row.copied]
    text = f"{len(summary.regions)}, {len(crossing)} tensors of "
    text += f"{console.format_bytes(sum(row.nbytes for row in crossing))} cross region boundaries"
    if staying:
        nbytes = console.format_bytes(sum(row.nbytes for row in staying))
        text += f", {len(staying)} of {nbytes} stay on their device"
    if copied:
        nbytes = console.format_bytes(sum(row.nbytes for row in copied))
        text += f", {len(copied)} ({nbytes}) are copied to another layout"
    return text
