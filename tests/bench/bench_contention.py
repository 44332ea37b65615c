"""Measure networks on a busy machine: throughput of several instances, and latency next to busy
processes.

    python tests/bench/bench_contention.py [FOLDER] [--networks NAME...] [--seconds 2]

Each network and number of threads (1, one per processor, the runtime's default) has its own
processes. Printed are the throughput of one instance and of one instance per processor, relative
to single-threaded instances (below 1: they slow each other down), then the median and the 99th
percentile of the latency on an idle machine and with a busy process on all processors but one,
relative to the idle median.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles

INSTANCE = """
import json, sys, time
import tvmrt
run = tvmrt.load(sys.argv[1]).warm_executor().run
print("ready", flush=True)
begin = float(sys.stdin.readline())
time.sleep(max(0.0, begin - time.time()))
end, times = time.perf_counter() + float(sys.argv[2]), []
while time.perf_counter() < end:
    start = time.perf_counter()
    run()
    times.append(time.perf_counter() - start)
print(json.dumps(times))
"""
NEIGHBOUR = "x = 1.0\nwhile True: x = x * 1.0000001 % 7"
DEFAULT = ["kws_dscnn_f32", "resnet8_f32", "yunet_n_320_f32", "mobilenetv2_100_224_f32"]


def together(network: str, count: int, threads: int, seconds: float) -> list[list[float]]:
    """Return the times of each of ``count`` instances that run at the same time."""
    environment = {**os.environ}
    environment.pop("TVM_NUM_THREADS", None)
    if threads:
        environment["TVM_NUM_THREADS"] = str(threads)
    command = [sys.executable, "-c", INSTANCE, network, str(seconds)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    instances = [subprocess.Popen(command, env=environment, **pipes) for _ in range(count)]
    for each in instances:
        if each.stdout.readline().strip() != "ready":
            sys.exit(f"{network} did not load")
    for each in instances:
        each.stdin.write(f"{time.time() + 0.2}\n")
        each.stdin.flush()
    return [json.loads(each.communicate()[0]) for each in instances]


def latency(network: str, threads: int, busy_processes: int, seconds: float) -> tuple[float, float]:
    """Return the median and 99th percentile of the latency next to this many busy processes."""
    with ExitStack() as stack:
        for _ in range(busy_processes):
            busy = subprocess.Popen([sys.executable, "-c", NEIGHBOUR])
            stack.callback(busy.wait)
            stack.callback(busy.kill)
        (times,) = together(network, 1, threads, seconds)
    return median(times), quantiles(times, n=100)[-1]


def measure(network: str, seconds: float) -> None:
    processors = len(os.sched_getaffinity(0))
    alone = sum(map(len, together(network, processors, 1, seconds)))
    for threads in dict.fromkeys((1, processors, 0)):
        answers = sum(map(len, together(network, processors, threads, seconds)))
        one = len(together(network, 1, threads, seconds)[0])
        quiet, quiet99 = latency(network, threads, 0, seconds)
        busy, busy99 = latency(network, threads, max(1, processors - 1), seconds)
        print(
            f"{Path(network).stem:28} {threads or 'own':>7} {one / seconds:11.0f} "
            f"{answers / alone:9.3f} {1e6 * quiet:9.1f} {quiet99 / quiet:6.2f} "
            f"{busy / quiet:6.2f} {busy99 / quiet:6.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("TVMRT_MODELS"))
    parser.add_argument("--networks", nargs="*", default=DEFAULT)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    if not given.folder:
        parser.error("no FOLDER given and TVMRT_MODELS is not set")
    print(
        f"{'network':28} {'threads':>7} {'one, 1/s':>11} {'together':>9} {'median us':>9} "
        f"{'99 %':>6} {'busy':>6} {'99 %':>6}"
    )
    for name in given.networks:
        measure(str(Path(given.folder, f"{name}.onnx")), given.seconds)


if __name__ == "__main__":
    main()
