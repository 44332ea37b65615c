"""Processor time of each test, and the limits that keep the everyday tests quick.

The time includes child processes that were waited for, so it differs little between an idle machine
and a busy one. A shared fixture counts for the first test that uses it.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

# Seconds. Two idle processors need half of the sum, so the everyday tests, with those in C, stay
# below five minutes on most machines.
LIMIT_OF_TEST = 15
LIMIT_OF_ALL = 600
CHECKED = "TVMRT_TIME_LIMITS"  # the variable that makes a run above the limits fail
PROPERTY = "processor_seconds"
FILES_SHOWN = 12


def now() -> float:
    """Return the processor time in seconds of this process and its finished children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@dataclass
class Costs:
    """Processor times of the tests of one run."""

    of_tests: dict[str, float] = field(default_factory=dict)
    everyday: set[str] = field(default_factory=set)
    ends: dict[str, float] = field(default_factory=dict)  # of pytest's processes, by name

    def add(self, report: Any) -> None:
        """Record the time in the report of a test's end."""
        seconds = dict(report.user_properties).get(PROPERTY)
        if seconds is None:
            return
        self.of_tests[report.nodeid] = seconds
        self.ends[getattr(report, "worker_id", "")] = time.monotonic()
        if "slow" not in report.keywords:
            self.everyday.add(report.nodeid)

    def above_limits(self) -> list[str]:
        """Return messages about everyday tests that are too slow."""
        times = {name: self.of_tests[name] for name in self.everyday}
        wrong = [
            f"{name} takes {seconds:.1f} s of processor time, more than {LIMIT_OF_TEST} s;"
            " mark it slow"
            for name, seconds in times.items()
            if seconds > LIMIT_OF_TEST
        ]
        total = sum(times.values())
        if total > LIMIT_OF_ALL:
            wrong.append(
                f"the everyday tests take {total:.0f} s of processor time, more than"
                f" {LIMIT_OF_ALL} s; leave more of them out in tests/python/support/everyday.py"
            )
        return wrong

    def table(self) -> list[str]:
        """Return lines with the totals and the slowest files."""
        if not self.of_tests:
            return []
        files: Counter[str] = Counter()
        for name, seconds in self.of_tests.items():
            files[name.split("::")[0]] += seconds
        total = sum(self.of_tests.values())
        share = sum(self.of_tests[name] for name in self.everyday)
        lines = [
            f"{len(self.of_tests)} tests: {total:.0f} s; everyday,"
            f" {len(self.everyday)} tests: {share:.0f} s"
        ]
        lines += [f"{seconds:7.1f}  {name}" for name, seconds in files.most_common(FILES_SHOWN)]
        if len(self.ends) > 1:
            idle = max(self.ends.values()) - min(self.ends.values())
            lines.append(f"the first of {len(self.ends)} processes ended {idle:.0f} s early")
        return lines
