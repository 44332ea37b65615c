"""Measure how long small networks keep the compiler busy, and the C compiler with it.

    python tests/bench/bench_long_compilations.py [KIND ...] [--largest] [--timeout 60]

Prints for each kind of small network and each size the bytes of the file, the processor seconds of
``tvmrt.load`` with those of the C compiler, and "compiled" or the error. Each row is measured in a
process of its own. Set CCACHE_DISABLE=1 if cc is ccache.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "support"))

import long_compilations

import tvmrt


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def measure(kind: str, size: int, timeout: int) -> None:
    """Print the row of one network. The kernel ends a process that takes more than the timeout."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CPU, (timeout, timeout))
    build, _ = long_compilations.KINDS[kind]
    model = build(size)
    begin = cpu_seconds()
    try:
        tvmrt.load(model, cache=False)
        outcome = "compiled"
    except Exception as problem:
        outcome = f"{type(problem).__name__}: {' '.join(str(problem).split())[:150]}"
    print(f"{kind:34s}{size:>9.3g}{model.ByteSize():9d}{cpu_seconds() - begin:8.1f}  {outcome}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    parser.add_argument("--largest", action="store_true", help="only the largest size of each")
    parser.add_argument("--timeout", type=int, default=60, help="processor seconds of a process")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        return measure(args.kinds[0], args.one, args.timeout)
    for kind in args.kinds or long_compilations.KINDS:
        sizes = long_compilations.KINDS[kind][1]
        for size in sizes[-1:] if args.largest else sizes:
            options = ["--timeout", str(args.timeout), "--one", str(size)]
            done = subprocess.run(
                [sys.executable, __file__, kind, *options],
                check=False,
                capture_output=True,
                text=True,
            )
            row = done.stdout.rstrip() or f"{kind:34s}{size:>9.3g}  ended with {done.returncode}"
            print(row, flush=True)


if __name__ == "__main__":
    main()
