"""Compare a folder's float networks on the dnnl device with onnxruntime in the same process.

    python plugins/dnnl/bench/bench_dnnl.py [FOLDER] [--seconds S] [--threads N] [--json]

FOLDER contains NAME.onnx with NAME.npz and defaults to TVMRT_MODELS; networks with integer matmuls
or convolutions are skipped. Speeds are ratios of times measured alternately (``tvmrt bench``), with
numpy arrays as inputs and outputs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "bench"))
from float_networks import float_networks

DEVICE = "dnnl"


def measure(models: list[Path], seconds: float, threads: int) -> list[dict]:
    """Return the seconds of one run of tvmrt and of onnxruntime, and the speed-up."""
    command = [sys.executable, "-m", "tvmrt", "bench", *map(str, models), "--json"]
    command += ["--against", "onnxruntime", "--device", DEVICE, "--executor", "aot"]
    command += ["--seconds", str(seconds), "--threads", str(threads)]
    command += ["--inputs", str(models[0].parent)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return [
        {
            "network": row["network"],
            "seconds": row["timings"][0]["median"],
            "onnxruntime_seconds": row["timings"][1]["median"],
            "speed": row["timings"][1]["speed"],
        }
        for row in json.loads(done.stdout)["networks"]
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("TVMRT_MODELS"))
    parser.add_argument("--seconds", type=float, default=1.0, help="per network")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.folder:
        parser.error("no FOLDER given and TVMRT_MODELS is not set")
    models = float_networks(Path(options.folder))
    if not models:
        parser.error(f"{options.folder} holds no float network")
    rows = measure(models, options.seconds, options.threads)
    if options.json:
        json.dump(rows, sys.stdout, indent=1)
        return 0
    print(f"{'network':28} {'dnnl ms':>9} {'ort ms':>9} {'speed':>6}")
    for row in rows:
        ours, theirs = row["seconds"] * 1e3, row["onnxruntime_seconds"] * 1e3
        print(f"{row['network']:28} {ours:9.4f} {theirs:9.4f} {row['speed']:6.2f}")
    speeds = [row["speed"] for row in rows]
    mean = math.exp(sum(map(math.log, speeds)) / len(speeds))
    print(f"geometric mean of speed {mean:.2f}, least {min(speeds):.2f}, networks {len(speeds)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
