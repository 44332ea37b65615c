"""Measure the cost of `--reproducible`, and compare the bits of the levels.

    TVM_NUM_THREADS=1 python tests/bench/bench_reproducible.py [FOLDER] [--networks NAME...]

For each float network of FOLDER (default: $TVMRT_MODELS) with its inputs: the time of the
reproducible library to that of the default one, in turns, at this processor's level; whether v2, v3
and the widest level give the same bits, of the reproducible library and of the default one.
"""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_isa_levels import open_at
from float_networks import float_networks
from paired import arguments, paired

import tvmrt
from tvmrt.contrib.graph_executor import GraphModule

LEVELS = ("v2", "v3", "")


def bits(runner: GraphModule) -> bytes:
    """Return the outputs of the last run."""
    return b"".join(runner.get_output(i).numpy().tobytes() for i in range(runner.get_num_outputs()))


def measure(model: Path, seconds: float, folder: Path) -> float:
    """Print one network's row; return the ratio of the times."""
    with np.load(model.with_suffix(".npz")) as data:
        inputs = {key: data[key] for key in data.files if not key.startswith("out:")}
    equal, runs = [], []
    for reproducible in (True, False):
        path = folder / f"{model.stem}-{reproducible}.so"
        tvmrt.compile(model, target="x86-64", reproducible=reproducible).export_library(path)
        runners = [open_at(path, level, inputs) for level in LEVELS]
        equal.append(len(set(map(bits, runners))) == 1)
        runs.append(runners[-1])
    _, _, ratio = paired(runs[1].run, runs[0].run, seconds, time.process_time)
    words = ["equal" if same else "differ" for same in equal]
    print(f"{model.stem:28} {ratio:6.3f} {words[0]:>7} {words[1]:>7}", flush=True)
    return ratio


def main() -> None:
    """Print all rows."""
    options = arguments(__doc__)
    chosen = [path for path in float_networks(Path(options.folder)) if path in options.models]
    print(f"{'network':28} {'time':>6} {'bits':>7} {'default':>7}")
    with tempfile.TemporaryDirectory(prefix="tvmrt-reproducible-") as name:
        ratios = [measure(model, options.seconds, Path(name)) for model in chosen]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean {mean:.3f}, greatest {max(ratios):.3f}, networks {len(ratios)}")


if __name__ == "__main__":
    main()
