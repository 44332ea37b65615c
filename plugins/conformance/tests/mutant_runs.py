"""Build mutants of the reference device, judge them, and run the kit on them.

``python mutant_runs.py SEED COUNT`` prints the score of the kit by kind of mistake.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import judge
from device_mutations import FOLDER, SOURCE, Mutant, mutants

import tvmrt
from tvmrt.compiler.sdk.devices import Device
from tvmrt.conformance import CHECKS
from tvmrt.conformance.cases import drawn
from tvmrt.conformance.device_under_test import Network, keep_accepted_cases, load_device
from tvmrt.libinfo import find_include_path

# Checks that find most mutants come first; all are run if none fails.
LAST = ("sizes", "tensors", "asynchronous")  # they compile most
ORDER = sorted(CHECKS, key=LAST.count)
SECONDS, JUDGE_SECONDS = 90, 40  # time limits of one check, and of the judge


@dataclass(frozen=True)
class Outcome:
    """A mutant with the reason of the judge, and what the kit found, "" if nothing."""

    mutant: Mutant
    reason: str
    found: str


def build(folder: Path, text: str, *flags: str) -> Path | None:
    """Return the plug-in of a source text; None if it does not compile."""
    folder.mkdir(parents=True)
    source, plugin = folder / "device.c", folder / "libtvmrt_device_reference.so"
    source.write_text(text, encoding="utf-8")
    include = [f"-I{path}" for path in (*find_include_path(), FOLDER)]
    command = ["cc", "-O1", "-std=gnu11", "-w", "-Werror=int-conversion", "-shared", "-fPIC"]
    command += [*include, *flags, str(source), "-o", str(plugin), "-lpthread", "-lm"]
    done = subprocess.run(command, capture_output=True, check=False)
    return plugin if done.returncode == 0 else None


def in_process(action: Callable[[], str], seconds: float = SECONDS) -> str:
    """Return the text of an action that runs in a process of its own; a crash and a hang have a
    text, too."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            text = action()
        except BaseException as problem:
            text = f"{type(problem).__name__}: {problem}"
        os.write(writer, text.encode(errors="replace")[:2000])
        os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], seconds)
    text = os.read(reader, 4000).decode(errors="replace") if ready else ""
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    if not ready:
        return f"not ended after {seconds:g} seconds"
    return f"died by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else text


def kit_result(plugin: Path, record: Path, checks: Sequence[str] = ORDER) -> str:
    """Return the first failed finding of the kit; each check runs in its own process."""
    for check in checks:
        if text := in_process(lambda check=check: _failed(plugin, record, check)):
            return f"{check}: {text}"
    return ""


def _failed(plugin: Path, record: Path, check: str) -> str:
    keep_accepted_cases(record)
    device = load_device(str(plugin))
    module = importlib.import_module(f"tvmrt.conformance.{check}")
    failed = [f for f in module.check(device, 1e-3) if not f.passed]
    return f"{failed[0].subject}: {failed[0].detail}"[:300] if failed else ""


class KeptNetwork(Network):
    """A network whose library is compiled once for all mutants: their answers to the compiler are
    those of the correct device."""

    folder = Path()

    def _compile(self, device: Device, options: dict[str, Any]) -> None:
        text = self.merged.model().SerializeToString() + repr(options).encode()
        kept = self.folder / f"{hashlib.sha256(text).hexdigest()}.so"
        if not kept.is_file():
            super()._compile(device, options)
            shutil.copy(self.path, kept)
        shutil.copy(kept, self.path)


class Workshop:
    """Folder with the correct device and the libraries that it compiled for the judge."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._count = folder, 0
        os.environ["OMP_NUM_THREADS"] = "1"  # a process with threads cannot be forked
        text = SOURCE.read_text(encoding="utf-8")
        plugins = [build(folder / name, text, *flags) for name, flags in FLAGS.items()]
        assert all(plugins), "the correct device does not compile"
        self.kit_plugin, self.judge_plugin = plugins
        self.record = folder / "accepted.json"
        KeptNetwork.folder = folder
        for check in CHECKS:
            module = importlib.import_module(f"tvmrt.conformance.{check}")
            if check not in ("tensors", "faults"):  # they read the compiled network
                module.Network = KeptNetwork
        problem = in_process(self._compile) or kit_result(self.kit_plugin, self.record, ORDER[:1])
        assert not problem, problem
        for card in json.loads(self.record.read_text(encoding="utf-8")):
            drawn(card), drawn(card, True)
        judge.prepare()

    def _compile(self) -> str:
        tvmrt.load_device_plugin(self.judge_plugin)
        judge.compile_libraries(self.folder)
        return ""

    def reason(self, mutant: Mutant) -> str | None:
        """Return why a mutant is wrong by the judge: "" if nothing shows it, None if it does not
        compile."""
        self._count += 1
        folder = self.folder / f"m{self._count}"
        plugin = build(folder / "judge", mutant.text, *FLAGS["judge"])
        if plugin is None:
            return None
        return in_process(lambda: judge.judge(plugin, self.folder), JUDGE_SECONDS)

    def outcomes(self, seed: int, count: int) -> Iterator[Outcome]:
        """Yield that many mutants that the judge shows to be wrong, with the result of the kit."""
        for mutant in mutants(seed):
            if count <= 0:
                return
            reason = self.reason(mutant)
            if not reason:
                continue
            plugin = build(self.folder / f"m{self._count}" / "kit", mutant.text)
            assert plugin is not None
            yield Outcome(mutant, reason, kit_result(plugin, self.record))
            count -= 1


MIN_SHARE = 0.95  # of the mutants; with fewer the exit code is 1
FLAGS: dict[str, tuple[str, ...]] = {"kit": (), "judge": ("-DCOUNT_ALLOCATIONS",)}


def main() -> None:
    seed, count = map(int, sys.argv[1:])
    found: Counter[str] = Counter()
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        for outcome in Workshop(Path(folder, "mutants")).outcomes(seed, count):
            total[outcome.mutant.kind] += 1
            found[outcome.mutant.kind] += bool(outcome.found)
            print("found " if outcome.found else "MISSED", outcome.mutant, "|", outcome.reason, "|",
                  outcome.found[:100], flush=True)  # fmt: skip
    for kind in sorted(total):
        print(f"{kind:18} {found[kind]:3} of {total[kind]:3}")
    print(f"{'all':18} {found.total():3} of {total.total():3}")
    sys.exit(found.total() < MIN_SHARE * total.total())


if __name__ == "__main__":
    main()
