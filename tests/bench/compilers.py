"""Compare libraries that two C compilers build from the same generated code.

    TVM_NUM_THREADS=1 python tests/bench/compilers.py [FOLDER] [--networks NAME...]
        [--first gcc] [--second zig] [--target native] [--levels v3] [--below 0.95]

FOLDER holds NAME.onnx, and NAME.npz with inputs by name and expected outputs as ``out:NAME``; it
defaults to what TVMRT_MODELS names. A compiler is a command, or ``zig`` for the ziglang package.

Both libraries run in this process in turns. Columns: milliseconds of both, speed of the second
relative to the first (its median over the turns), and the seconds that both took to compile. A
network whose outputs differ from the expected ones is marked; the last line has the geometric mean
and the minimum. With ``--below`` the exit status is 1 if a network is slower than that, or wrong.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import paired

import tvmrt
from tvmrt.contrib.graph_executor import GraphModule

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "networks"))
import golden_case

ZIG = [sys.executable, "-m", "ziglang", "cc"]


def open_network(model: Path, cc: str, options: argparse.Namespace, path: Path) -> GraphModule:
    compiled = tvmrt.compile(
        model, target=options.target, levels=options.levels, cc=cc, executor="graph"
    )
    compiled.export_library(path)
    return GraphModule(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))


def is_right(runner: GraphModule, folder: Path, name: str) -> bool:
    """Return whether the outputs of the last run are the stored ones, as the tests compare them."""
    _, outputs = golden_case.load(folder, name)
    known = (folder / "index.json").exists()
    noise = golden_case.noise(folder, name) if known else 0.0
    try:
        for at, (output, expected) in enumerate(outputs.items()):
            golden_case.check(output, runner.get_output(at).numpy(), expected, noise)
    except AssertionError as error:
        print(f"{name}: {error}", flush=True)
        return False
    return True


def measure(model: Path, options: argparse.Namespace) -> tuple[float, bool]:
    """Print one row; return the speed and whether both libraries are right."""
    inputs, _ = golden_case.load(model.parent, model.stem)
    runs: list[Callable[[], None]] = []
    seconds, right = [], True
    with tempfile.TemporaryDirectory() as folder:
        for at, cc in enumerate((options.first, options.second)):
            begin = time.perf_counter()
            runner = open_network(model, cc, options, Path(folder, f"{at}.so"))
            seconds.append(time.perf_counter() - begin)
            runner.set_input(**inputs)
            runner.run()
            right = is_right(runner, model.parent, model.stem) and right
            runs.append(runner.run)
        clock = time.process_time if options.cpu else time.perf_counter
        first, second, ratio = paired.paired(runs[0], runs[1], options.seconds, clock)
    speed = 1 / ratio
    row = f"{model.stem:28} {first * 1e3:9.4f} {second * 1e3:9.4f} {speed:6.3f}"
    row += "".join(f" {each:6.1f}" for each in seconds)
    print(row + ("" if right else "  WRONG"), flush=True)
    return speed, right


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("TVMRT_MODELS"))
    parser.add_argument("--networks", nargs="*", help="names of networks (default: all)")
    parser.add_argument("--first", default="gcc")
    parser.add_argument("--second", default="zig")
    parser.add_argument("--target", default="native")
    parser.add_argument("--levels", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=1.0, help="per network")
    parser.add_argument("--cpu", action="store_true", help="compare processor time")
    parser.add_argument("--below", type=float, default=0.0, help="fail below this speed")
    options = parser.parse_args(arguments)
    if not options.folder:
        parser.error("no FOLDER given and TVMRT_MODELS is not set")
    for name in ("first", "second"):
        if getattr(options, name) == "zig":
            setattr(options, name, shlex.join(ZIG))
    return options


def main() -> int:
    options = parse()
    models = sorted(Path(options.folder).glob("*.onnx"))
    if options.networks:
        models = [path for path in models if path.stem in options.networks]
    if not models:
        sys.exit("no network was measured")
    print(f"{'network':28} {'first ms':>9} {'second ms':>9} {'speed':>6} {'compile':>13}")
    found = [measure(model, options) for model in models]
    speeds = [speed for speed, _ in found]
    mean = math.exp(sum(map(math.log, speeds)) / len(speeds))
    wrong = sum(not right for _, right in found)
    print(
        f"geometric mean {mean:.3f}, minimum {min(speeds):.3f}, networks {len(speeds)}, "
        f"wrong {wrong}"
    )
    return int(wrong > 0 or min(speeds) < options.below)


if __name__ == "__main__":
    sys.exit(main())
