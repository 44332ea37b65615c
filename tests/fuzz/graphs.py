"""Random graphs over all operators that both know: tvmrt against onnxruntime.

    graphs.py --seconds 60               from a seed that is told
    graphs.py --first 0 --count 5000     these
    graphs.py FILE.onnx ...              single networks, the findings of a campaign

A graph grows node by node (growing.py, families.py and its sisters). Each is compiled twice: by
the graph and by the AOT executor, one of them for this machine's wide vectors (``native``), the
other for narrow ones (``host``), in turns. Several share a library; most are compiled by C with
-O0, one batch in ``--default-share`` with the flags of a user. Compared by the rule of judge.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import batch
import families
import families_moves
import families_nn
import growing
import numpy as np
import onnx
from findings import Findings
from mutants import judged, place_of

from tvmrt.export.toolchain import OPTIMISE

AT_ONCE = 40  # graphs in a library
ALL = (families, families_moves, families_nn)  # they have entered themselves into the table
BUILDS = [
    (batch.Build("graph", "native"), batch.Build("aot", "host")),
    (batch.Build("aot", "native"), batch.Build("graph", "host")),
]

Network = tuple[str, onnx.ModelProto, "dict[str, np.ndarray] | None"]


class Campaign:
    """Counts over batches of networks."""

    def __init__(self, findings: Findings, default_share: int) -> None:
        self.findings, self.default_share = findings, default_share
        self.counts: Counter[str] = Counter()
        self.operators: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.batches = 0

    def run(self, networks: list[Network]) -> None:
        """Each network by two builds."""
        for build in BUILDS[self.batches % 2]:
            default = self.default_share and self.batches % self.default_share == 0
            self._run(networks, replace(build, flags=OPTIMISE) if default else build)
        self.batches += 1
        for _, model, _ in networks:
            self.counts["graphs"] += 1
            self.counts["nodes"] += len(model.graph.node)
            self.operators.update({node.op_type for node in model.graph.node})

    def _run(self, networks: list[Network], build: batch.Build) -> None:
        members = []
        for name, model, feeds in networks:
            try:
                member = batch.compile_member(name, model, build, len(members))
            except Exception as problem:
                self._not_compiled(name, model, problem)
                continue
            members.append(member if feeds is None else replace(member, feeds=feeds))
        with tempfile.TemporaryDirectory(prefix="tvmrt-fuzz-") as folder:
            outcomes = batch.run_batch(Path(folder), members, build)
        for member, outcome in zip(members, outcomes):
            self._note(member, outcome, build)

    def _not_compiled(self, name: str, model: onnx.ModelProto, problem: Exception) -> None:
        kind = judged(problem)
        self.counts[f"found: {kind}" if kind else "refused"] += 1
        if kind:
            self.findings.add(kind, f"{place_of(problem)}: {problem}", name, model)
        else:
            self.findings.remark("refused", str(problem), name, model)

    def _note(self, member: batch.Member, outcome: batch.Outcome, build: batch.Build) -> None:
        self.counts[f"run ({build})"] += 1
        self.counts["numbers compared"] += outcome.compared
        if outcome.kind:
            self.counts[f"found: {outcome.kind}"] += 1
            text = f"{build}: {outcome.text}"
            self.findings.add(outcome.kind, text, member.name, member.model, member.feeds)
        elif outcome.refused:
            self.counts["refused by onnxruntime"] += 1


def campaign(
    seconds: float, first: int, count: int, default_share: int, findings: Findings
) -> Campaign:
    """Graphs until the time or their number is over."""
    run = Campaign(findings, default_share)
    end, at = time.monotonic() + seconds, first
    while at < first + count and time.monotonic() < end:
        networks: list[Network] = []
        while len(networks) < AT_ONCE and at < first + count and time.monotonic() < end:
            model, feeds, g = growing.grown(at)
            networks.append((f"graph-{at}", model, feeds))
            run.refused.update(each.split(":")[0] for each in g.refused)
            at += 1
        run.run(networks)
    return run


def again(paths: list[Path], findings: Findings) -> Campaign:
    """Single files, by all builds."""
    run = Campaign(findings, 0)
    for path in paths:
        feeds, model = None, onnx.load(path)
        if path.with_suffix(".npz").exists():
            with np.load(path.with_suffix(".npz")) as file:
                feeds = {name.removeprefix("feed:"): file[name] for name in file.files}
        for _ in BUILDS:
            run.run([(path.stem, model, feeds)])
    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--first", type=int, default=int(time.time()) * 100_000)
    parser.add_argument("--count", type=int, default=10**9)
    parser.add_argument("--default-share", type=int, default=20)
    parser.add_argument("--findings", type=Path, default=None)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    findings = Findings(args.findings, "graphs.py")
    if args.files:
        run = again(args.files, findings)
    else:
        run = campaign(args.seconds, args.first, args.count, args.default_share, findings)
    findings.report(f"graphs from seed {args.first}", run.counts)
    print(f"{len(run.operators)} operators: {' '.join(sorted(run.operators))}")
    if run.refused:
        print(f"not taken by tvmrt: {', '.join(f'{k} {v}' for k, v in run.refused.most_common())}")
    return 1 if findings.count else 0


if __name__ == "__main__":
    sys.exit(main())
