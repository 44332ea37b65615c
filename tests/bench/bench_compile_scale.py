"""Measure how compile time grows with the number of nodes.

    python tests/bench/bench_compile_scale.py [SHAPE ...] [--nodes 500,1000,5000] [--no-c]

Prints for each shape of network and number of nodes the seconds of our own stages and those of the
C compiler (CPU time of all its processes), and the most memory that either took at a time. Each
row is measured in a process of its own.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "support"))

import many_nodes

import tvmrt


def cpu_seconds(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def peak_megabytes(who: int) -> float:
    return resource.getrusage(who).ru_maxrss / 1024


def measure(shape: str, count: int, with_c: bool, options: dict) -> None:
    """Print the row of one network."""
    model = many_nodes.SHAPES[shape](count)
    begin = time.process_time()
    library = tvmrt.compile(model, **options)
    own = time.process_time() - begin
    row = f"{shape:14s}{count:7d}{own:9.2f} s{peak_megabytes(resource.RUSAGE_SELF):8.0f} MB"
    if with_c:
        with tempfile.TemporaryDirectory() as folder:
            library.export_library(Path(folder, "net.so"))
        children = resource.RUSAGE_CHILDREN
        row += f"{cpu_seconds(children):9.1f} s{peak_megabytes(children):8.0f} MB"
    print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=", ".join(many_nodes.SHAPES))
    parser.add_argument("--nodes", default="500,1000,5000", help="node counts, separated by commas")
    parser.add_argument("--no-c", action="store_true", help="skip the C compiler")
    parser.add_argument("--executor", default="graph", choices=["graph", "aot"])
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    counts = [int(n) for n in args.nodes.split(",")]
    if args.one:
        measure(args.shapes[0], counts[0], not args.no_c, {"executor": args.executor})
        return
    print("shape           nodes        own      peak  C compiler     peak")
    for shape in args.shapes or many_nodes.SHAPES:
        for count in counts:
            command = [sys.executable, __file__, shape, "--nodes", str(count), "--one"]
            command += ["--executor", args.executor, *(["--no-c"] if args.no_c else [])]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
