"""Compare float32 networks with one and with several threads, and with onnxruntime, one process
running at a time.

    python tests/bench/bench_scaling.py NETWORK.onnx... [--threads 2] [--rounds 7] [--slice 0.3]
        [--pause 0.1] [--keep FOLDER] [--json FILE]

Ours and onnxruntime, with one thread and with ``--threads``, have a process each. In each round
they run for a slice in turns, while the others wait for a line on a pipe. So no runtime's spinning
threads disturb another one, and other load affects all of them. The pause before a slice lets the
threads of the previous process fall asleep. Numpy arrays in and out.

Printed for each network: milliseconds of ours with one thread and with all; the scaling, which is
the first divided by the second; milliseconds of onnxruntime with all threads, and how many times as
fast ours is; the same with one thread. Each ratio is the median over rounds and, in brackets, that
of the fastest runs. ``idle`` is the maximum processor share of one of our processes between its
slices, in percent; onnxruntime's threads spin for about 15 ms of the pause. ``trip`` is the
round-trip time of a word between two processors in nanoseconds, minimum and maximum over the
rounds: about a hundred if they share a cache, several times that otherwise. A virtual machine may
change it at any time, and scaling with it. The last line lists networks that are slower with
several threads: there should be none. Small networks show it best, with slices of 0.05 seconds:
``bench_scaling.py $TVMRT_MODELS/*.onnx --slice 0.05``. ``--json`` writes all slices' medians and
fastest runs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

import bench_runtimes

SOURCE = Path(__file__).parent / "ping_pong.c"
SLOWER = 0.98  # scaling, by rounds and by the fastest runs, below which threads slow a network down
Slice = dict[str, float]  # "median" and "fastest" in seconds, "idle" as a part of a processor


def _run_of(kind: str, path: Path, library: Path, threads: int) -> Callable[[], object]:
    session = bench_runtimes.rival(path, threads)
    feeds = bench_runtimes.feeds_of(session)
    if kind == "ort":
        return partial(session.run, None, feeds)
    del session  # and its threads
    return bench_runtimes.ours(path, feeds, library, {})


def instance(kind: str, path: str, library: str, threads: str) -> None:
    """Run the process of one runtime: one slice for each line of input."""
    run = _run_of(kind, Path(path), Path(library), int(threads))
    run()
    print("ready", flush=True)
    waited, used = time.perf_counter(), time.process_time()
    for line in sys.stdin:
        idle = (time.process_time() - used) / (time.perf_counter() - waited)
        times = slice_of(run, float(line))
        found = {"median": median(times), "fastest": min(times), "idle": idle}
        print(json.dumps(found), flush=True)
        waited, used = time.perf_counter(), time.process_time()


def slice_of(run: Callable[[], object], seconds: float) -> list[float]:
    """Return the time of each run, at least three; the first one, which wakes threads, is
    dropped."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    run()
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


class Instance:
    """One runtime with this many threads, in its own process."""

    def __init__(self, kind: str, path: Path, library: Path, threads: int) -> None:
        environment = {**os.environ, "TVM_NUM_THREADS": str(threads)}
        command = [sys.executable, __file__, "--instance", kind, path, library, str(threads)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=environment, **pipes)
        if self.process.stdout.readline().strip() != "ready":
            sys.exit(f"{path} did not load")

    def slice(self, seconds: float) -> Slice:
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


class Trips:
    """Measures round trips of a word between two processors."""

    def __init__(self, folder: str) -> None:
        self.program = Path(folder) / "ping_pong"
        subprocess.run(["cc", "-O2", "-pthread", SOURCE, "-o", self.program], check=True)

    def nanoseconds(self) -> float:
        return float(subprocess.run([self.program], capture_output=True, check=True).stdout)


def measure(path: Path, given: argparse.Namespace, folder: str, trips: Trips) -> dict:
    """Run all rounds of a network, by runtime and number of threads."""
    library = Path(folder) / f"{path.stem}.so"
    kinds = [(kind, n) for kind in ("ours", "ort") for n in (1, given.threads)]
    rounds: dict[str, list[Slice]] = {f"{kind} {n}": [] for kind, n in kinds}
    found = []
    with ExitStack() as stack:
        instances = []
        for kind, n in kinds:
            instances.append(Instance(kind, path, library, n))
            stack.callback(instances[-1].end)
        for number in range(given.rounds + 1):
            found.append(trips.nanoseconds())
            for each, slices in zip(instances, rounds.values()):
                time.sleep(given.pause)
                result = each.slice(given.slice)
                if number > 0:  # the first one waited while the others were created
                    slices.append(result)
    name = path.name.partition(".")[0]
    return {"network": name, "threads": given.threads, "trips": found, "rounds": rounds}


def ratio(row: dict, first: str, second: str) -> tuple[float, float]:
    """Return the first time divided by the second: by rounds, and by the fastest runs."""
    a, b = row["rounds"][first], row["rounds"][second]
    fastest = [min(each["fastest"] for each in side) for side in (a, b)]
    return median(x["median"] / y["median"] for x, y in zip(a, b)), fastest[0] / fastest[1]


def pairs_of(threads: int) -> list[tuple[str, str, str]]:
    return [
        ("scaling", "ours 1", f"ours {threads}"),
        (f"to ort {threads}", f"ort {threads}", f"ours {threads}"),
        ("to ort 1", "ort 1", "ours 1"),
        ("ort scales", "ort 1", f"ort {threads}"),
    ]


def row_text(row: dict) -> str:
    rounds = row["rounds"]
    many = row["threads"]
    ms = [1e3 * median(s["median"] for s in rounds[k]) for k in ("ours 1", f"ours {many}")]
    theirs = 1e3 * median(s["median"] for s in rounds[f"ort {many}"])
    both = ["{:5.3f} ({:5.3f})".format(*ratio(row, *pair[1:])) for pair in pairs_of(many)]
    idle = max(s["idle"] for kind in rounds if "ours" in kind for s in rounds[kind])
    trips = f"{min(row['trips']):.0f}..{max(row['trips']):.0f}"
    return (
        f"{row['network'][:24]:24} {ms[0]:8.3f} {ms[1]:8.3f} {both[0]} {theirs:8.3f} {both[1]} "
        f"{both[2]} {both[3]} {100 * idle:5.2f} {trips:>9}"
    )


def summary(rows: list[dict], threads: int) -> None:
    for name, first, second in pairs_of(threads):
        values = [ratio(row, first, second)[0] for row in rows]
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"{name}: geometric mean {mean:.3f}, minimum {min(values):.3f}")
    slower = [row["network"] for row in rows if max(ratio(row, *pairs_of(threads)[0][1:])) < SLOWER]
    print(f"slower with {threads} threads than with one: {', '.join(slower) or 'none'}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("networks", nargs="+", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--slice", type=float, default=0.3, help="seconds of a slice")
    parser.add_argument("--pause", type=float, default=0.1, help="seconds before a slice")
    parser.add_argument("--keep", metavar="FOLDER", help="where to keep the compiled libraries")
    parser.add_argument("--json", metavar="FILE", type=Path)
    given = parser.parse_args()
    heads = [f"{name:>13}" for name, _, _ in pairs_of(given.threads)]
    print(
        f"{'network':24} {'ms 1':>8} {f'ms {given.threads}':>8} {heads[0]} "
        f"{f'ort {given.threads}':>8} {heads[1]} {heads[2]} {heads[3]} {'idle':>5} {'trip':>9}"
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if given.keep:
            Path(given.keep).mkdir(parents=True, exist_ok=True)
        trips = Trips(folder)
        for path in given.networks:
            rows.append(measure(path, given, given.keep or folder, trips))
            print(row_text(rows[-1]), flush=True)
    summary(rows, given.threads)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--instance"]:
        instance(*sys.argv[2:])
    else:
        main()
