"""Summarise a campaign over the matrix of builds: one line for each choice on each axis."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from builds import Build
from cases import Case
from findings import Findings

AXES = ("runtime", "target", "executor", "interface", "level", "compiler")


@dataclass
class Record:
    """Result of one network in one build: ``kind`` is empty for a pass, ``refused``, or a
    finding."""

    case: Case
    build: Build
    kind: str
    text: str
    numbers: int = 0


class CampaignSummary:
    """Counts over records; findings go to their folder. ``more``: arguments that reproduce them."""

    def __init__(self, findings: Findings, more: str = "") -> None:
        self.findings, self.more = findings, more
        self.rows: dict[tuple[str, str], Counter[str]] = {}
        self.names: set[str] = set()
        self.wrong_names: set[str] = set()
        self.operators: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.found: list[dict[str, str]] = []
        self.numbers = 0

    @property
    def wrong(self) -> int:
        """Return the number of networks with a finding in a build."""
        return len(self.wrong_names)

    def add(self, records: list[Record]) -> None:
        """Count records, and print the findings among them."""
        for record in records:
            axes = [(axis, getattr(record.build, axis)) for axis in AXES]
            state = {"": "compared", "refused": "refused"}.get(record.kind, "wrong")
            for axis in [*axes, ("network", record.case.kind)]:
                self.rows.setdefault(axis, Counter())[state] += 1
            self.numbers += record.numbers
            if state == "refused":
                self.reasons[record.text[:100]] += 1
                continue
            if record.case.name not in self.names:
                self.operators.update(record.case.operators)
            self.names.add(record.case.name)
            if state == "wrong":
                self._found(record)

    def _found(self, record: Record) -> None:
        case = record.case
        self.wrong_names.add(case.name)
        seed = case.name.rpartition("-")[2]
        repeat = f"--first {seed} --count 1 --builds {record.build}{self.more}"
        about = {
            "kind": record.kind, "build": str(record.build), "graph": case.name,
            "operators": " ".join(case.operators), "text": record.text, "repeat": repeat,
        }  # fmt: skip
        self.found.append(about)
        feeds = {f"{i}:{k}": v for i, run in enumerate(case.runs) for k, v in run.feeds.items()}
        text = f"{record.build}: {record.text}"
        self.findings.add(record.kind, text, f"{case.name}", case.model, feeds, repeat)

    def judge_died(self, seed: int) -> None:
        """Report that a reference crashed the process while a network was made."""
        self.reasons["a judge ends its process"] += 1
        print(f"a judge ends its process over the network of seed {seed}; it is left out")

    def broken(self, text: str) -> None:
        """Report a batch that did not complete."""
        self.wrong_names.add(text)
        self.found.append({"kind": "broken", "text": text})
        print(f"FOUND broken: {text}", flush=True)

    def table(self) -> list[str]:
        """Return the counts by axis, as a Markdown table."""
        lines = ["| axis | choice | compared | refused | wrong |", "|---|---|---:|---:|---:|"]
        for axis in (*AXES, "network"):
            for (name, choice), row in sorted(self.rows.items()):
                if name == axis:
                    right = row["compared"] + row["wrong"]
                    lines.append(
                        f"| {axis} | `{choice}` | {right} | {row['refused']} | {row['wrong']} |"
                    )
        return lines

    def last_line(self) -> str:
        """Return the total."""
        return f"{len(self.names)} graphs, {self.wrong} wrong"

    def print(self) -> None:
        """Print the table and the total."""
        print(*self.table(), sep="\n")
        print(f"{len(self.operators)} operators, {self.numbers:,} numbers compared")
        for reason, count in self.reasons.most_common(8):
            print(f"refused {count} times: {reason}")
        if self.findings.count and self.findings.folder is not None:
            print(f"findings are kept in {self.findings.folder}")
        print(self.last_line(), flush=True)

    def write(self, path: Path) -> None:
        """Write the report: JSON for a .json file, otherwise Markdown."""
        if path.suffix == ".json":
            rows = [{"axis": a, "choice": c, **row} for (a, c), row in sorted(self.rows.items())]
            about = {"graphs": len(self.names), "wrong": self.wrong, "numbers": self.numbers,
                     "rows": rows, "found": self.found, "operators": dict(self.operators),
                     "refused": dict(self.reasons)}  # fmt: skip
            path.write_text(json.dumps(about, indent=1) + "\n")
            return
        found = [f"- {each['kind']}: `{each.get('repeat', '')}` {each['text'][:300]}"
                 for each in self.found]  # fmt: skip
        path.write_text("\n".join([*self.table(), "", self.last_line(), "", *found]) + "\n")
