"""Measure every network of a folder: speed relative to onnxruntime, compile time, memory.

    python tests/bench/bench_networks.py [FOLDER] [--seconds S] [--threads N] [--json]

FOLDER holds NAME.onnx with NAME.npz and defaults to what TVMRT_MODELS names. Speeds are ratios of
times measured in turns in one process (``tvmrt bench``), numpy arrays in and out. Memory is the
arena relative to its lower bound, and the remaining memory of a C program without weights, arena,
inputs and outputs: executor, code, stacks, scratch.
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
from pathlib import Path

import tvmrt
from tvmrt.libinfo import find_include_path, find_lib_path

HERE = Path(__file__).parent


def build_resident(folder: Path) -> Path:
    """Build the C program that measures resident memory."""
    program = folder / "resident"
    library = Path(find_lib_path()[0])
    includes = [f"-I{path}" for path in find_include_path()]
    links = [str(library), f"-Wl,-rpath,{library.parent}"]
    command = ["cc", "-O2", *includes, str(HERE / "resident.c"), "-o", str(program), *links]
    subprocess.run(command, check=True)
    return program


def measure_memory(model: Path, program: Path, folder: Path) -> dict:
    """Compile for the AOT executor; return sizes in bytes and times in seconds."""
    library = folder / "net.so"
    begin = time.perf_counter()
    compiled = tvmrt.compile(model, executor="aot")
    compiled.export_library(library)
    seconds = time.perf_counter() - begin
    summary = compiled.summary
    command = [str(program), str(library), "default"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    before, after = map(int, out.split())
    io = sum(t.nbytes for t in [*summary.inputs, *summary.outputs])
    return {
        "compile_seconds": seconds,
        "arena": summary.arena_bytes,
        "bound": summary.lower_bound_bytes,
        "weights": summary.weights_bytes,
        "library": library.stat().st_size,
        "io": io,
        "beyond": after - before - summary.arena_bytes - summary.weights_bytes - io,
    }


def measure_speed(models: list[Path], seconds: float, threads: int) -> dict[str, dict]:
    """Return our speed as a multiple of onnxruntime's, by network."""
    command = [sys.executable, "-m", "tvmrt", "bench", *map(str, models), "--json"]
    command += ["--against", "onnxruntime", "--executor", "aot", "--seconds", str(seconds)]
    command += ["--threads", str(threads), "--inputs", str(models[0].parent)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = json.loads(done.stdout)["networks"]
    found = {}
    for row in rows:
        ours, rival = row["timings"]
        found[row["network"]] = {
            "milliseconds": ours["median"] * 1e3,
            "onnxruntime_milliseconds": rival["median"] * 1e3,
            "speed": rival["speed"],
        }
    return found


def print_table(rows: dict[str, dict]) -> None:
    head = f"{'network':28} {'ms':>9} {'ort ms':>9} {'speed':>6} {'compile s':>9} "
    print(head + f"{'arena':>9} {'/bound':>6} {'weights':>9} {'beyond kB':>9}")
    for name, row in rows.items():
        bound = row["arena"] / row["bound"] if row["bound"] else 1.0
        print(
            f"{name:28} {row['milliseconds']:9.4f} {row['onnxruntime_milliseconds']:9.4f} "
            f"{row['speed']:6.2f} {row['compile_seconds']:9.2f} {row['arena']:9} {bound:6.3f} "
            f"{row['weights']:9} {row['beyond'] / 1000:9.0f}"
        )
    speeds = [row["speed"] for row in rows.values()]
    mean = math.exp(sum(map(math.log, speeds)) / len(speeds))
    print(f"geometric mean of speed {mean:.2f}, minimum {min(speeds):.2f}, networks {len(speeds)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("TVMRT_MODELS"))
    parser.add_argument("--seconds", type=float, default=1.0, help="per network")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.folder:
        parser.error("no FOLDER given and TVMRT_MODELS is not set")
    models = sorted(Path(options.folder).glob("*.onnx"))
    if not models:
        parser.error(f"{options.folder} holds no .onnx file")
    with tempfile.TemporaryDirectory() as folder:
        program = build_resident(Path(folder))
        memory = {m.stem: measure_memory(m, program, Path(folder)) for m in models}
    speed = measure_speed(models, options.seconds, options.threads)
    rows = {name: {**memory[name], **speed[name]} for name in memory}
    if options.json:
        json.dump(rows, sys.stdout, indent=1)
    else:
        print_table(rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
