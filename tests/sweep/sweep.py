"""Measure how many exported networks with open axes are right at every size.

    sweep.py                              all networks, by both exporters of torch
    sweep.py --only vits llama_past       these entries
    sweep.py --exporter dynamo            by one exporter
    sweep.py --export-only                fill the cache
    sweep.py --list                       print the entries

Each network is exported to the cache (``--cache``), loaded with ``tvmrt.load(path)`` in a process
with a limit of time and memory, and compared with onnxruntime at four sizes. It needs torch,
torchvision, transformers and timm, and takes hours. The exit code is 1 if a network is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from export_entry import EXPORTERS, SKIPPED, exported, folder_of, load_entries

HERE = Path(__file__).resolve().parent
SECONDS = 900  # of one network: load and calls
CACHE = Path(tempfile.gettempdir()) / "sweep_cache"
STATES = ("right", "wrong", "refused", "skipped")


@dataclass
class NetworkResult:
    """Result of an entry by one exporter. ``right`` of ``count`` sizes that onnxruntime runs."""

    name: str
    exporter: str
    state: str
    load_s: float = 0.0
    right: int = 0
    count: int = 0
    text: str = ""

    def line(self) -> str:
        """Return the row of the table."""
        sizes = f"{self.right}/{self.count}" if self.count else "-"
        load = f"{self.load_s:.1f}" if self.load_s else "-"
        text = " ".join(self.text.split())
        return f"{self.name:24} {self.exporter:7} {self.state:8} {load:>7} {sizes:>5}  {text[:300]}"


HEAD = f"{'network':24} {'by':7} {'state':8} {'load s':>7} sizes  first error"


def checked(folder: Path, seconds: int = SECONDS) -> dict:
    """Compare an exported network in its own process, whose end does not end this one."""
    words = [sys.executable, str(HERE / "check_network.py"), str(folder)]
    env = os.environ | {"PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"}
    count = len(json.loads((folder / "sizes.json").read_text()))
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
        start_new_session=True,
    )  # fmt: skip
    state = "refused"
    try:
        out, errors = process.communicate(timeout=seconds)
        why = (errors.strip().splitlines() or [f"its process ends with {process.returncode}"])[-1]
        if process.returncode < 0:  # memory errors and the like are defects
            state, why = "wrong", f"its process ends with signal {-process.returncode}: {why}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, _ = process.communicate()
        why = f"no end after {seconds} s"
    lines = [each for each in out.splitlines() if each.startswith("{")]
    found = json.loads(lines[-1]) if lines else {"load_s": 0.0, "results": []}
    if "results" in found:
        found["results"] += [(state, why)] * (count - len(found["results"]))
    return found


def result_of(name: str, exporter: str, folder: Path) -> NetworkResult:
    """Return the result of an exported network, or why there is none."""
    if (folder / SKIPPED).exists():
        return NetworkResult(name, exporter, "skipped", text=(folder / SKIPPED).read_text())
    found = checked(folder)
    if "skipped" in found:
        return NetworkResult(name, exporter, "skipped", text=found["skipped"])
    counts = Counter(state for state, _ in found["results"])
    state = next((each for each in ("wrong", "refused", "right") if counts[each]), "skipped")
    text = next((text for found_state, text in found["results"] if found_state == state), "")
    count = len(found["results"]) - counts["skipped"]
    return NetworkResult(name, exporter, state, found["load_s"], counts["right"], count, text)


def rows(arguments: argparse.Namespace) -> Iterator[NetworkResult]:
    """Export and compare the networks of the command line, and yield their rows."""
    entries = load_entries()
    unknown = set(arguments.only or ()) - set(entries)
    if unknown:
        raise SystemExit(
            f"sweep.py: there are no networks {', '.join(sorted(unknown))}; see --list"
        )
    for name in arguments.only or entries:
        for exporter in entries[name].exporters:
            if arguments.exporter not in ("", exporter):
                continue
            folder = folder_of(arguments.cache, entries[name], exporter)
            if not arguments.no_export:
                folder = exported(arguments.cache, entries[name], exporter, arguments.again)
            elif not folder.exists():
                continue
            if arguments.export_only:
                why = folder / SKIPPED
                text = why.read_text() if why.exists() else ""
                yield NetworkResult(name, exporter, "skipped" if text else "exported", text=text)
            else:
                yield result_of(name, exporter, folder)


def summary(found: list[NetworkResult]) -> list[str]:
    """Return the causes of failures, most frequent first, and the last line."""
    lines = []
    for state in ("wrong", "refused"):
        causes = Counter(stem_of(row.text) for row in found if row.state == state)
        lines += [f"{state} {count} times: {cause}" for cause, count in causes.most_common()]
    counts = Counter(row.state for row in found)
    total = len(found) - counts["skipped"]
    lines.append(
        f"{counts['right']} of {total} right at every size; {counts['wrong']} wrong; "
        f"{counts['refused']} refused; {counts['skipped']} skipped"
    )
    return lines


def stem_of(text: str) -> str:
    """Remove shapes, quoted names and numbers from an error."""
    text = re.sub(r"^\{.*?\}: ", "", " ".join(text.split()))
    return re.sub(r"'[^']*'|\"[^\"]*\"|\d[\d.e+-]*", "_", text)[:140]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="names of entries; all by default")
    parser.add_argument("--exporter", default="", choices=("", *EXPORTERS))
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of exported networks")
    parser.add_argument("--again", action="store_true", help="retry exports that failed")
    parser.add_argument("--export-only", action="store_true", help="fill the cache, load nothing")
    parser.add_argument("--no-export", action="store_true", help="only networks in the cache")
    parser.add_argument("--list", action="store_true", help="print the names of the entries")
    arguments = parser.parse_args()
    if arguments.list:
        print(*load_entries(), sep="\n")
        return 0
    found = []
    print(HEAD)
    for row in rows(arguments):
        found.append(row)
        print(row.line(), flush=True)
    print(*summary(found), sep="\n")
    return int(any(row.state == "wrong" for row in found))


if __name__ == "__main__":
    sys.exit(main())
