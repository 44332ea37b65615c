"""Time two runs in turns, for benchmarks that compare devices with their libraries."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median


def seconds(run: Callable, calls: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(calls):
        run()
    return (clock() - start) / calls


def paired(
    first: Callable, second: Callable, limit: float, clock: Callable[[], float]
) -> tuple[float, float, float]:
    """Return the seconds of both, and how many runs of the first take as long as one of the
    second."""
    calls = max(1, int(2e-3 / min(seconds(run, 3, time.perf_counter) for run in (first, second))))
    rounds = []
    end = time.perf_counter() + limit
    while time.perf_counter() < end or len(rounds) < 3:
        rounds.append((seconds(first, calls, clock), seconds(second, calls, clock)))
    times = [median(column) for column in zip(*rounds)]
    return times[0], times[1], median(b / a for a, b in rounds)


def arguments(text: str) -> argparse.Namespace:
    """Parse the arguments; ``models`` are the files of the networks to measure."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("TVMRT_MODELS"))
    parser.add_argument("--networks", nargs="*", help="names of networks (default: all)")
    parser.add_argument("--seconds", type=float, default=2.0, help="per network")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpu", action="store_true", help="compare processor time")
    options = parser.parse_args()
    if not options.folder:
        parser.error("no FOLDER given and TVMRT_MODELS is not set")
    options.models = sorted(Path(options.folder).glob("*.onnx"))
    if options.networks:
        options.models = [path for path in options.models if path.stem in options.networks]
    return options


def measure_speed(name: str, runs: tuple[Callable, Callable], options: argparse.Namespace) -> float:
    """Measure and print the speed of a network; the device's run is first."""
    clock = time.process_time if options.cpu else time.perf_counter
    here, there, speed = paired(*runs, options.seconds, clock)
    print(f"{name:28} {here * 1e3:9.4f} {there * 1e3:9.4f} {speed:6.3f}", flush=True)
    return speed


def summary(found: Iterable[float | None]) -> int:
    """Print the last line; None is a skipped network."""
    speeds = [speed for speed in found if speed is not None]
    if not speeds:
        sys.exit("no network was measured")
    mean = math.exp(sum(map(math.log, speeds)) / len(speeds))
    print(f"geometric mean {mean:.3f}, minimum {min(speeds):.3f}, networks {len(speeds)}")
    return 0


HEAD = f"{'network':28} {'device ms':>9} {'own ms':>9} {'speed':>6}"
