"""Run fuzzing for a given time, report what it ran, and list reader functions without coverage.

    campaign.py BUILD COVERED SECONDS [NAME [ARGUMENTS]]

BUILD is a build folder with the fuzz targets, COVERED one whose targets measure coverage; either
may be ``-`` without a clang with libFuzzer. Each target, ``mutants``, ``graphs`` and
``readers`` get SECONDS, or only NAME, as many at once as there are processors. C targets begin with
the seeds and the kept inputs of tests/fuzz/corpus. Findings lie in a folder that is named at the
end, or in FUZZ_FINDINGS; then the exit code is 1. FUZZ_SEED asks for the same inputs each time, as
far as SECONDS go. ARGUMENTS go to the Python program NAME; FUZZ_BUILDS selects the builds of
``graphs``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import coverage_report

HERE = Path(__file__).resolve().parent
PROGRAMS = ("mutants", "graphs", "readers")


def targets(build: str) -> dict[str, Path]:
    """Return the C targets of a build folder by name."""
    folder = Path(build) / "tests/fuzz"
    found = sorted(path for path in folder.glob("fuzz_*") if path.is_file())
    return {path.name.removeprefix("fuzz_"): path for path in found}


def inputs_of(build: str, name: str) -> list[str]:
    """Return the folder of seed inputs of a target, filled by write_seeds()."""
    folder = Path(build) / f"tests/fuzz/seeds_{name}"
    return [str(folder)] if folder.is_dir() else []


def write_seeds(build: str, name: str) -> None:
    folder = Path(build) / f"tests/fuzz/seeds_{name}"
    listing = folder.with_suffix(".listing")
    subprocess.run([sys.executable, HERE / "seeds.py", name, folder, listing], check=True)


def run_target(path: Path, build: str, name: str, seconds: int, folder: Path) -> bool:
    """Run one C target; new inputs go to their own folder. Return True if nothing was found."""
    write_seeds(build, name)
    grown = folder / f"corpus-{name}"
    grown.mkdir(parents=True)
    of = "regions" if name.startswith("regions_") else name
    dictionary = HERE / DICTIONARIES.get(of, f"{of}.dict")
    command = [
        str(path), f"-max_total_time={seconds}", "-max_len=4096", "-timeout=10",
        f"-seed={os.environ.get('FUZZ_SEED', '0')}", "-print_final_stats=1",
        f"-artifact_prefix={folder}/{name}-", "-malloc_limit_mb=1000000",
        *([f"-dict={dictionary}"] if dictionary.exists() else []), str(grown),
        *inputs_of(build, name),
    ]  # fmt: skip
    # Allocations of gigabytes fail, as on a small machine; the target must handle that.
    options = {"ASAN_OPTIONS": "allocator_may_return_null=1:max_allocation_size_mb=1024"}
    done = subprocess.run(
        command, env={**os.environ, **options}, capture_output=True, text=True, errors="replace",
        check=False,
    )  # fmt: skip
    count = re.search(r"number_of_executed_units: *(\d+)", done.stderr)
    new = len(list(grown.iterdir()))
    print(f"{name}: {int(count[1]) if count else 0:,} executions, {new} new inputs", flush=True)
    if done.returncode != 0:
        kept = [str(each) for each in folder.glob(f"{name}-*")]
        print(
            f"FOUND by {name}: {_summary_text(done.stderr)}\n  {path} {' '.join(kept)}", flush=True
        )
    return done.returncode == 0


DICTIONARIES = {
    "firmware_graph": "graph_json.dict", "module_payload": "module_tree.dict",
    "params": "module_tree.dict", "tensor": "module_tree.dict",
}  # fmt: skip


def _summary_text(log: str) -> str:
    """Return the reason why a target stopped."""
    lines = [line for line in log.splitlines() if "ERROR" in line or "runtime error" in line]
    required = [line for line in log.splitlines() if re.match(r"\S+\.[ch]:\d+: ", line)]
    return (required or lines or ["it stopped"])[0]


def run_program(name: str, seconds: int, folder: Path, more: Sequence[str] = ()) -> bool:
    """Run one of the Python programs; return True if nothing was found."""
    command = [sys.executable, str(HERE / f"{name}.py"), "--seconds", str(seconds), *more]
    if name == "graphs" and "FUZZ_BUILDS" in os.environ:
        command += ["--builds", os.environ["FUZZ_BUILDS"]]
    if "FUZZ_SEED" in os.environ:
        command += ["--first" if name == "graphs" else "--seed", os.environ["FUZZ_SEED"]]
    command += ["--findings", str(folder / name)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        check=False,
    )  # fmt: skip
    print(done.stdout, end="", flush=True)
    return done.returncode == 0


def main() -> int:
    build, covered, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    wanted, more = (sys.argv[4], sys.argv[5:]) if len(sys.argv) > 4 else (None, [])
    known = targets(build) if build != "-" else {}
    if wanted is not None and wanted not in (*known, *PROGRAMS):
        print(f"there is no {wanted}; there are {', '.join([*known, *PROGRAMS])}", file=sys.stderr)
        return 2
    folder = Path(os.environ.get("FUZZ_FINDINGS") or tempfile.mkdtemp(prefix="tvmrt-findings-"))
    begin = time.monotonic()
    jobs = []
    for name in PROGRAMS:
        if wanted in (None, name):
            # alone it uses all processors, next to others one
            own = more if wanted or name != "graphs" else ["-j", "1"]
            jobs.append(partial(run_program, name, seconds, folder, own))
    jobs += [
        partial(run_target, path, build, name, seconds, folder)
        for name, path in known.items()
        if wanted in (None, name)
    ]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        right = all([job.result() for job in [pool.submit(job) for job in jobs]])
    if wanted not in PROGRAMS and covered != "-":
        coverage_report.report(targets(covered), build, folder, wanted)
    print(
        f"{time.monotonic() - begin:.0f} s; {'nothing found' if right else f'findings in {folder}'}"
    )
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
