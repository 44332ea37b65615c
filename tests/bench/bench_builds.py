"""Measure how much the results of builds of one network for different processors differ.

    python tests/bench/bench_builds.py [FOLDER] [NAME...]

FOLDER holds NAME.onnx with NAME.npz and defaults to what TVMRT_MODELS names. Each network is
compiled for this machine (native), for any machine of its architecture (host) and, on x86-64, for
AVX2 with fused products; a number is the largest difference of two builds' outputs, as a part of
the largest output.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from itertools import combinations
from pathlib import Path

import numpy as np

import tvmrt


def builds(folder: Path) -> dict[str, dict]:
    """Return the options of tvmrt.compile by the name of the build."""
    found: dict[str, dict] = {"native": {"target": "native"}, "host": {"target": "host"}}
    if platform.machine() in ("x86_64", "AMD64"):
        compiler = folder / "cc"
        compiler.write_text('#!/bin/sh\nexec cc "$@" -mavx2 -mfma\n')
        compiler.chmod(0o755)
        found["avx2"] = {"target": "host", "cc": str(compiler)}
    return found


def outputs(model: Path, options: dict, library: Path) -> list[np.ndarray]:
    tvmrt.compile(model, **options).export_library(library)
    module = tvmrt.runtime.load_module(str(library))
    executor = tvmrt.contrib.graph_executor.GraphModule(module["default"](tvmrt.cpu(0)))
    with np.load(model.with_suffix(".npz")) as stored:
        for name in stored.files:
            if not name.startswith("out:"):
                executor.set_input(name, stored[name])
    executor.run()
    return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]


def difference(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    """Return the largest difference over all outputs, relative to the largest value of the
    output."""
    parts = [0.0]
    for x, y in zip(a, b):
        apart = np.abs(x.astype(np.float64) - y.astype(np.float64)).max(initial=0.0)
        size = np.abs(x.astype(np.float64)).max(initial=0.0)
        parts.append(float(apart / max(size, 1e-30)))
    return max(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("TVMRT_MODELS"))
    parser.add_argument("names", nargs="*", help="networks (default: all)")
    options = parser.parse_args()
    if not options.folder:
        parser.error("no FOLDER given and TVMRT_MODELS is not set")
    models = sorted(Path(options.folder).glob("*.onnx"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = builds(folder)
        pairs = list(combinations(made, 2))
        print(f"{'network':32s}" + "".join(f"{f'{a} - {b}':>18s}" for a, b in pairs))
        for model in models:
            if options.names and model.stem not in options.names:
                continue
            found = {
                build: outputs(model, each, folder / f"{model.stem}_{build}.so")
                for build, each in made.items()
            }
            row = [difference(found[a], found[b]) for a, b in pairs]
            print(f"{model.stem:32s}" + "".join(f"{each:18.1e}" for each in row), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
