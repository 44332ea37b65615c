"""Compare random networks in many builds with onnxruntime, the ONNX reference and LiteRT.

    graphs.py --seconds 60                    from a seed that is printed
    graphs.py --first 0 --count 5000          these networks
    graphs.py --builds crt,cortex-m4          of the builds those that have one of these parts
    graphs.py --first 7 --count 1 --builds crt+host+aot+c+-O2+gcc     what a finding prints
    graphs.py FILE.onnx FILE.tflite ...       single networks, the findings of a campaign

A seed defines a network (cases.py). Networks of a batch are built together in ``--each`` builds,
drawn from the matrix (builds.py), and run in one process or one QEMU image. comparison.py compares
their outputs with those of references.py. Equal seeds and builds give equal networks in the same
builds. The last line is ``N graphs, W wrong``.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import batch
import builds
import cases
import numpy as np
import onnx
from builds import Build
from cases import Case
from findings import Findings
from mutants import judged, place_of
from summary import CampaignSummary, Record

AT_ONCE = 32  # networks per library, program or image
BIG_BATCH = 5_000_000  # so that seeds chosen by the clock are short in reports


@dataclass(frozen=True)
class Plan:
    """Settings of a campaign: seeds, builds, number of builds per batch, networks."""

    first: int
    count: int
    builds: list[Build]
    each: int
    kinds: dict[str, int]
    at_once: int = AT_ONCE

    def batches(self) -> Iterator[tuple[list[int], list[Build]]]:
        """Yield seeds and builds, batch by batch."""
        for number in range(-(-self.count // self.at_once)):
            begin = number * self.at_once
            seeds = range(self.first + begin, self.first + min(begin + self.at_once, self.count))
            source = random.Random(f"builds {self.first} {number}")
            yield list(seeds), builds.drawn(source, self.builds, self.each)


def run_batch(members: Sequence[Case], ways: Sequence[Build]) -> list[Record]:
    """Build, run and compare some networks in each build."""
    records: list[Record] = []
    answers: batch.Answers = {}
    for build in ways:
        compiled, own = [], []
        for case in members:
            try:
                member = batch.compile_member(
                    case.name, case.model, build, len(compiled), 0, case.runs, case.dims
                )
                if not batch.is_small(member.library) or member.library.program.data_dependent_dims:
                    raise ValueError("it is too large to run here, or its results have any size")
            except Exception as problem:
                records.append(_not_compiled(case, build, problem))
            else:
                compiled.append(member)
                own.append(case)
        with tempfile.TemporaryDirectory(prefix="tvmrt-fuzz-") as folder:
            outcomes = batch.run_batch(Path(folder), compiled, build, answers)
        records += [_record(*each, build) for each in zip(own, outcomes)]
    return records


def _not_compiled(case: Case, build: Build, problem: Exception) -> Record:
    kind = judged(problem)
    if kind:
        return Record(case, build, kind, f"{place_of(problem)}: {problem}")
    return Record(case, build, "refused", str(problem))


def _record(case: Case, outcome: batch.Outcome, build: Build) -> Record:
    if outcome.kind and not (outcome.kind == "failed" and outcome.refused):
        return Record(case, build, outcome.kind, outcome.text, outcome.compared)
    if outcome.refused:
        return Record(case, build, "refused", outcome.refused)
    return Record(case, build, "", "", outcome.compared)


def _in_child(path: Path, seeds: Sequence[int], kinds: dict, ways: Sequence[Build]) -> None:
    """Make and run the networks, and write the findings; ``path``.at contains the current seed."""
    made = []
    for seed in seeds:
        path.with_suffix(".at").write_text(str(seed))
        made.append(cases.case_of(seed, kinds))
    path.with_suffix(".at").write_text("")
    path.write_bytes(pickle.dumps(run_batch(made, ways)))


def start(path: Path, seeds: Sequence[int], kinds: dict, ways: Sequence[Build]) -> int:
    """Run a batch in a separate process, which a reference may crash; return its process id."""
    path.unlink(missing_ok=True)
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        _in_child(path, seeds, kinds, ways)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


class Campaign:
    """Batches in several concurrent processes."""

    def __init__(self, plan: Plan, summary: CampaignSummary, processes: int, end: float) -> None:
        self.plan, self.summary, self.processes, self.end = plan, summary, processes, end

    def run(self) -> None:
        """Run all batches, or as many as the time allows."""
        running: dict[int, tuple[Path, list[int], list[Build]]] = {}
        with tempfile.TemporaryDirectory(prefix="tvmrt-fuzz-graphs-") as folder:
            for number, (seeds, ways) in enumerate(self.plan.batches()):
                while len(running) >= self.processes:
                    self._wait(running)
                if time.monotonic() > self.end:
                    break
                path = Path(folder) / f"{number}.pickle"
                running[start(path, seeds, self.plan.kinds, ways)] = (path, seeds, ways)
            while running:
                self._wait(running)

    def _wait(self, running: dict[int, tuple[Path, list[int], list[Build]]]) -> None:
        child, status = os.wait()
        path, seeds, ways = running.pop(child)
        if status == 0:
            self.summary.add(pickle.loads(path.read_bytes()))
            path.unlink()
            return
        at = path.with_suffix(".at").read_text()
        if at:  # a reference crashed the process while this network was made
            self.summary.judge_died(int(at))
            rest = [seed for seed in seeds if seed != int(at)]
            if rest:
                running[start(path, rest, self.plan.kinds, ways)] = (path, rest, ways)
        else:
            names = ", ".join(map(str, ways))
            self.summary.broken(f"the batch from {seeds[0]} of {names} ended with {status}")


def again(paths: Sequence[Path], ways: Sequence[Build], summary: CampaignSummary) -> None:
    """Run single files in some builds."""
    for path in paths:
        runs = []
        if path.with_suffix(".npz").exists():
            with np.load(path.with_suffix(".npz")) as file:
                feeds: dict[int, dict[str, np.ndarray]] = {}
                for name in file.files:
                    _, run, key = name.split(":", 2)
                    feeds.setdefault(int(run), {})[key] = file[name]
            runs = [batch.Run(each) for _, each in sorted(feeds.items())]
        tflite = path.suffix == ".tflite"
        model = path.read_bytes() if tflite else onnx.load(path)
        summary.add(run_batch([Case(path.stem, "file", model, runs)], ways))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--first", type=int, default=int(time.time()) % 10**6 * 1000)
    parser.add_argument("--count", type=int, default=BIG_BATCH)
    parser.add_argument("--builds", default="", help="of the matrix, separated by commas")
    parser.add_argument("--kinds", default="", help="of networks, separated by commas")
    parser.add_argument("--each", type=int, default=2, help="builds for each batch")
    parser.add_argument("--at-once", type=int, help="networks in a batch; fewer in a short time")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--report", type=Path, help="the table as .md, or the figures as .json")
    parser.add_argument("--findings", type=Path, default=None)
    return parser.parse_args()


def main() -> int:
    args = _arguments()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    words = [word for word in args.builds.split(",") if word]
    ways, skipped = builds.usable(builds.selected(words))
    print(*skipped, sep="\n", end="\n" * bool(skipped), flush=True)
    kinds = {k: v for k, v in cases.SHARES.items() if not args.kinds or k in args.kinds.split(",")}
    more = f" --kinds {args.kinds}" if args.kinds else ""
    summary = CampaignSummary(Findings(args.findings, "graphs.py"), more)
    if args.files:
        source = random.Random(args.first)
        again(args.files, ways if words else builds.drawn(source, ways, 6), summary)
    else:
        at_once = args.at_once or max(4, int(min(AT_ONCE, args.seconds / 4)))
        plan = Plan(args.first, args.count, ways, args.each, kinds, at_once)
        end = time.monotonic() + args.seconds
        Campaign(plan, summary, args.j, end).run()
        print(f"graphs from seed {args.first}")
    summary.print()
    if args.report:
        summary.write(args.report)
    return 1 if summary.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
