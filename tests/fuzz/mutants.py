"""Compile mutants of ONNX files; build and run a share of those that compile.

    mutants.py --seconds 60                 from a printed seed
    mutants.py --seed 7 --count 20000       again the same ones
    mutants.py FILE.onnx ...                single files, such as the findings of a campaign

A mutant must compile or be refused with an error, within SECONDS and BYTES of memory. One in
``--share`` of those that compile is built with ASan and UBSan, run, and compared with onnxruntime
by the rule of comparison.py. The rest are findings: files in a folder, exit code 1.
"""

from __future__ import annotations

import argparse
import ast
import os
import pickle
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import batch
import networks
import numpy as np
import onnx
from findings import Findings
from mutate import mutant

import tvmrt

SECONDS = 10
BYTES = 6 << 30
IN_A_PROCESS = 5000
AT_ONCE = 80  # networks per library
FORESEEN = (OSError, ValueError, TypeError, tvmrt.TVMError)


class TooLong(BaseException):
    """Raised by the timer; not an Exception, so that nothing catches it."""


def _ring(*_: object) -> None:
    raise TooLong


def judged(problem: BaseException) -> str:
    """Return the kind of finding of a compiler exception; empty if it is a proper error."""
    if isinstance(problem, TooLong):
        return "slow"
    if isinstance(problem, MemoryError):
        return "memory"
    if isinstance(problem, tvmrt.error.InternalError) or "defect in tvmrt" in str(problem):
        return "defect"
    if isinstance(problem, FORESEEN) and str(problem).strip():
        return "" if _is_said(problem) else "accident"
    return "defect"


def _is_said(problem: BaseException) -> bool:
    """Return True if a line raised it on purpose, rather than by accident."""
    last = traceback.extract_tb(problem.__traceback__)[-1]
    if isinstance(problem, (tvmrt.TVMError, OSError)) or "site-packages/onnx/" in last.filename:
        return True
    return any(first <= last.lineno <= end for first, end in _raises(last.filename))


@cache
def _raises(path: str) -> list[tuple[int, int]]:
    """Return the first and last line of every raise statement of a file."""
    tree = ast.parse(Path(path).read_text()) if path.endswith(".py") else ast.Module([], [])
    return [
        (n.lineno, n.end_lineno or n.lineno) for n in ast.walk(tree) if isinstance(n, ast.Raise)
    ]


def place_of(problem: BaseException) -> str:
    """Return the position of the raise; findings are grouped by it."""
    last = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{type(problem).__name__} at {'/'.join(Path(last.filename).parts[-2:])}:{last.lineno}"


class Campaign:
    """Counts, and the batch that is being filled."""

    def __init__(self, findings: Findings, share: int) -> None:
        self.findings, self.share = findings, share
        self.counts: Counter[str] = Counter()
        self.waiting: list[batch.Member] = []
        self.build_count = 0

    @property
    def build(self) -> batch.Build:
        return batch.SANITISED[self.build_count % len(batch.SANITISED)]

    def take(self, name: str, model: onnx.ModelProto, seed: int) -> None:
        """Compile one mutant."""
        self.counts["mutants"] += 1
        begin = time.process_time()
        try:
            member = _compiled(name, model, self.build, len(self.waiting), seed)
        except (Exception, TooLong) as problem:
            self._refused(name, model, problem)
            return
        self.counts["compiled"] += 1
        if (
            time.process_time() - begin > SECONDS
        ):  # inside one C call, where Python handles no signals
            self.findings.add("slow", "compiles, but late", name, model)
        self._maybe_run(member)

    def _refused(self, name: str, model: onnx.ModelProto, problem: BaseException) -> None:
        kind = judged(problem)
        self.counts[f"found: {kind}" if kind else "refused"] += 1
        if kind:
            self.findings.add(kind, f"{place_of(problem)}: {problem}", name, model)

    def _maybe_run(self, member: batch.Member) -> None:
        if self.counts["compiled"] % self.share:
            return
        if not batch.is_small(member.library):
            self.counts["compiled, too large to be run"] += 1
            return
        self.waiting.append(member)
        if len(self.waiting) >= AT_ONCE:
            self.run()

    def run(self) -> None:
        """Build and run the collected networks."""
        members, build = self.waiting, self.build
        self.waiting, self.build_count = [], self.build_count + 1
        if not members:
            return
        with tempfile.TemporaryDirectory(prefix="tvmrt-fuzz-") as folder:
            outcomes = batch.run_batch(Path(folder), members, build, judges="onnxruntime")
        for member, outcome in zip(members, outcomes):
            self._note(member, outcome, build)

    def _note(self, member: batch.Member, outcome: batch.Outcome, build: batch.Build) -> None:
        self.counts["built with ASan and UBSan"] += 1
        if outcome.kind == "failed":  # an index out of range or similar: a correct error
            self.counts["run ended in an error"] += 1
        elif outcome.kind == "slow":
            self.counts["run took too long"] += 1
        elif outcome.kind:
            self.counts[f"found: {outcome.kind}"] += 1
            text = f"{build}: {outcome.text}"
            self.findings.add(outcome.kind, text, member.name, member.model, member.feeds)
        if outcome.compared:
            self.counts["compared with onnxruntime"] += 1
            self.counts["numbers compared"] += outcome.compared
        if outcome.refused and not outcome.kind and "NOT_IMPLEMENTED" not in outcome.refused:
            self.counts["accepted, refused by onnxruntime"] += 1
            self.findings.remark(
                "refused by onnxruntime", outcome.refused, member.name, member.model
            )


def _compiled(
    name: str, model: onnx.ModelProto, build: batch.Build, number: int, seed: int
) -> batch.Member:
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, most))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return batch.compile_member(name, model, build, number, seed)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))  # the sanitizers need more memory


def start() -> None:
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    signal.signal(signal.SIGPROF, _ring)


def campaign(seconds: float, seed: int, count: int, share: int, findings: Findings) -> Counter[str]:
    """Run mutants until the time or the count is reached, some thousand per process."""
    start()
    known = networks.sources()
    counts: Counter[str] = Counter()
    end, at = time.monotonic() + seconds, 0
    with tempfile.TemporaryDirectory(prefix="tvmrt-fuzz-") as folder:
        while at < count and time.monotonic() < end:
            chunk = Chunk(Path(folder), known, seed, at, min(count, at + IN_A_PROCESS), end)
            at = chunk.run(share, findings, counts)
    return counts


@dataclass
class Chunk:
    """The mutants from ``first`` to before ``last``, in a process that a mutant may crash."""

    folder: Path
    known: list[tuple[str, bytes]]
    seed: int
    first: int
    last: int
    end: float

    def run(self, share: int, findings: Findings, counts: Counter[str]) -> int:
        """Add to the counts and the findings; return the number of the next mutant."""
        child = os.fork()
        if child == 0:
            self._run_and_exit(share, findings)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        at = int((self.folder / "at").read_text())
        if code != 0:
            name, model = self._mutant(at)
            findings.add("died", f"the compiler's process ends with {code}", name, model)
            counts["found: died"] += 1
            counts["mutants"] += at + 1 - self.first
            return at + 1
        added, findings.seen, findings.count, findings.folder = pickle.loads(
            (self.folder / "result").read_bytes()
        )
        counts.update(added)
        return at + 1

    def _run_and_exit(self, share: int, findings: Findings) -> None:
        run = Campaign(findings, share)
        code = 1
        try:
            for at in range(self.first, self.last):
                if time.monotonic() > self.end:
                    break
                (self.folder / "at").write_text(str(at))
                run.take(*self._mutant(at), at)
            run.run()
            result = run.counts, findings.seen, findings.count, findings.folder
            (self.folder / "result").write_bytes(pickle.dumps(result))
            code = 0
        except Exception:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(code)

    def _mutant(self, at: int) -> tuple[str, onnx.ModelProto]:
        source = random.Random(f"{self.seed} {at}")
        name, data = source.choice(self.known)
        return f"{name}-{self.seed}-{at}", mutant(data, source)


def again(paths: list[Path], findings: Findings) -> Counter[str]:
    """Run single files, one by one."""
    start()
    run = Campaign(findings, 1)
    for path in paths:
        run.take(path.stem, onnx.ModelProto.FromString(path.read_bytes()), 0)
        run.run()
    return run.counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--count", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--share", type=int, default=13)
    parser.add_argument("--findings", type=Path, default=None)
    args = parser.parse_args()
    findings = Findings(args.findings, "mutants.py")
    if args.files:
        counts = again(args.files, findings)
    else:
        counts = campaign(args.seconds, args.seed, args.count, args.share, findings)
    findings.report(f"mutants, seed {args.seed}", counts)
    return 1 if findings.count else 0


if __name__ == "__main__":
    sys.exit(main())
