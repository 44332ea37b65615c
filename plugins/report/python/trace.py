"""Runs of a network as a trace for Perfetto and Chrome: the Trace Event Format in JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from tvmrt.plugins.report.timing import Run

RUNS, HOST = 0, "cpu"  # the track of the runs; the device whose track is the calling thread


def chrome_trace(
    network: str, runs: Sequence[Run], operators: Mapping[str, Mapping[str, Any]], threads: int
) -> dict[str, Any]:
    """Return the events of runs: a track for the runs, the calling thread, and each device.

    ``operators`` has the known data of each symbol: ``name``, ``device``, and further arguments.
    The runtime reports durations in execution order, so each operator begins at the end of the
    previous one.
    """
    lines = {HOST: 1}
    pid = os.getpid()
    events: list[dict[str, Any]] = []
    origin = min((run.begin for run in runs), default=0.0)
    for number, run in enumerate(runs):
        begin = (run.begin - origin) * 1e6
        shown = {"name": f"run {number}", "cat": "run", "ts": begin}
        events.append(_complete(shown, (run.end - run.begin) * 1e6, pid, RUNS))
        for call in run.calls:
            known = dict(operators.get(call["name"], {}))
            device = known.pop("device", HOST)
            line = lines.setdefault(device, len(lines) + 1)
            shown = {"name": known.pop("name", call["name"]), "cat": device, "ts": begin}
            if device == HOST:
                known["threads"] = threads
            events.append(_complete(shown, call["seconds"] * 1e6, pid, line, known))
            begin += call["seconds"] * 1e6
    names = {RUNS: "runs", **{line: _line_name(device) for device, line in lines.items()}}
    return {
        "traceEvents": [*_heads(network, names, pid), *events],
        "displayTimeUnit": "ns",
        "otherData": {"network": network, "made_by": "tvmrt bench --trace"},
    }


def _line_name(device: str) -> str:
    return "calling thread" if device == HOST else f"device {device}"


def _complete(
    shown: dict[str, Any], microseconds: float, pid: int, line: int, args: Any = None
) -> dict[str, Any]:
    event = {"ph": "X", "pid": pid, "tid": line, **shown, "dur": microseconds}
    return {**event, "args": args} if args else event


def _heads(network: str, lines: Mapping[int, str], pid: int) -> list[dict[str, Any]]:
    """Return the names of the process and its tracks, and the order of the tracks."""
    heads: list[dict[str, Any]] = [
        {"ph": "M", "pid": pid, "tid": 0, "name": "process_name", "args": {"name": network}}
    ]
    for line, name in lines.items():
        head = {"ph": "M", "pid": pid, "tid": line}
        heads.append({**head, "name": "thread_name", "args": {"name": name}})
        heads.append({**head, "name": "thread_sort_index", "args": {"sort_index": line}})
    return heads
