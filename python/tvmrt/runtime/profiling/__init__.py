"""Profiling reports: the time of each operator of a run."""

from __future__ import annotations

import csv
import io
import json
from html import escape
from typing import Any

__all__ = ["Report"]


class Report:
    """Times of the operators of one run.

    Parameters
    ----------
    text
        The JSON text that an executor's ``profile`` function returns.

    Attributes
    ----------
    calls
        One dictionary per operator, in execution order: ``name``, ``count``, and ``seconds`` as the
        total of its calls.
    device_metrics
        Metrics of each device, as in the JSON text.
    configuration
        Configuration of the run, as in the JSON text.
    events
        What devices did in the run, as they report it: one dictionary per event with ``device``,
        ``region``, ``name``, and ``start`` and ``end`` in seconds since the start of the run.
    """

    def __init__(self, text: str) -> None:
        data = json.loads(text)
        self._text = text
        self.calls: list[dict[str, Any]] = [_operator(call) for call in data["calls"]]
        self.device_metrics: dict[str, Any] = data.get("device_metrics", {})
        self.configuration: dict[str, Any] = data.get("configuration", {})
        self.events: list[dict[str, Any]] = data.get("events", [])

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Return a report from the JSON text of json()."""
        return cls(text)

    @property
    def total(self) -> float:
        """Total seconds of all operators."""
        return float(sum(call["seconds"] for call in self.calls))

    def table(self, sort: bool = True, aggregate: bool = True, col_sums: bool = True) -> str:
        """Return the report as a text table.

        Parameters
        ----------
        sort
            Whether to list the slowest operator first.
        aggregate
            Whether to merge operators of the same name into one row.
        col_sums
            Whether to add a row with the sum.
        """
        calls = _aggregate(self.calls) if aggregate else self.calls
        if sort:
            calls = sorted(calls, key=lambda call: -call["seconds"])
        width = max([len(call["name"]) for call in calls] + [len("Operator")])
        total = self.total or 1.0
        lines = [f"{'Operator':<{width}}  {'Count':>6}  {'Time (us)':>12}  {'Percent':>7}"]
        for call in calls:
            share = 100 * call["seconds"] / total
            lines.append(
                f"{call['name']:<{width}}  {call['count']:>6}  "
                f"{call['seconds'] * 1e6:>12.2f}  {share:>7.2f}"
            )
        if col_sums:
            lines.append(f"{'Sum':<{width}}  {'':>6}  {self.total * 1e6:>12.2f}")
        return "\n".join(lines)

    def csv(self) -> str:
        """Return the report as comma-separated values."""
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=["name", "count", "seconds"])
        writer.writeheader()
        writer.writerows(self.calls)
        return text.getvalue()

    def json(self) -> str:
        """Return the JSON text of the report."""
        return self._text

    def __str__(self) -> str:
        times = (
            f"{e['device']}: {e['name']} from {e['start'] * 1e6:.2f} to {e['end'] * 1e6:.2f} us"
            for e in self.events
        )
        return "\n".join([self.table(), *times])

    def __repr__(self) -> str:
        return f"<profile of {len(self.calls)} operators, {self.total * 1e6:.1f} us>"

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks, with the slowest operator first."""
        return f"<pre>{escape(str(self))}</pre>"


def _operator(call: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": call["Name"]["string"],
        "count": int(call["Count"]["count"]),
        "seconds": call["Duration (us)"]["microseconds"] / 1e6,
    }


def _aggregate(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for call in calls:
        row = rows.setdefault(call["name"], {"name": call["name"], "count": 0, "seconds": 0.0})
        row["count"] += call["count"]
        row["seconds"] += call["seconds"]
    return list(rows.values())
