"""Reports of where the time of a run goes."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

__all__ = ["Report"]


class Report:
    """Times of the operators of one run.

    Parameters
    ----------
    data
        What an executor's ``profile`` function returns: a JSON text or a mapping with the key
        ``calls``, a list of operators with ``name``, ``count`` and ``seconds``.
    """

    def __init__(self, data: Any) -> None:
        data = json.loads(str(data)) if isinstance(data, (str, bytes, bytearray)) else data
        self.calls: list[dict[str, Any]] = [_plain(call) for call in data["calls"]]

    @property
    def total(self) -> float:
        """Seconds of all operators together."""
        return sum(call["seconds"] for call in self.calls)

    def table(self, sort: bool = True) -> str:
        """Return the report as text, the slowest operator first unless `sort` is false."""
        calls = sorted(self.calls, key=lambda call: -call["seconds"]) if sort else self.calls
        width = max([len(call["name"]) for call in calls] + [len("Operator")])
        total = self.total or 1.0
        lines = [f"{'Operator':<{width}}  {'Count':>6}  {'Time (us)':>12}  {'Percent':>7}"]
        for call in calls:
            share = 100 * call["seconds"] / total
            lines.append(
                f"{call['name']:<{width}}  {call['count']:>6}  "
                f"{call['seconds'] * 1e6:>12.2f}  {share:>7.2f}"
            )
        return "\n".join([*lines, f"{'Total':<{width}}  {'':>6}  {self.total * 1e6:>12.2f}"])

    def csv(self) -> str:
        """Return the report as comma-separated values."""
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=["name", "count", "seconds"])
        writer.writeheader()
        writer.writerows(self.calls)
        return text.getvalue()

    def json(self) -> str:
        """Return the report as JSON."""
        return json.dumps({"calls": self.calls})

    def __str__(self) -> str:
        return self.table()


def _plain(call: Any) -> dict[str, Any]:
    return {
        "name": str(call["name"]),
        "count": int(call["count"]),
        "seconds": float(call["seconds"]),
    }
