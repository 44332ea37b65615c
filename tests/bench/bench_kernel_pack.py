"""Compare networks that run from the kernel pack with compiled ones and with onnxruntime.

Run: ``python tests/bench/bench_kernel_pack.py [NAME ...]``; ``TVMRT_MODELS`` names the folder of
the networks; one thread. Each network is loaded in new processes, with nothing cached. The table
has processor times: of a process up to its first answer (import, load, call), also from a file
``net.tvmrt``, and the lower quartile of a call. The last row has the geometric means of the ratios.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from math import exp, log
from pathlib import Path

import tvmrt

MEASURE = """
import sys, time
form, path, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
import numpy as np
golden = np.load(path.removesuffix("onnx") + "npz")
if form == "onnxruntime":
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    inputs = {each.name: golden[each.name] for each in session.get_inputs()}
    call = lambda: session.run(None, inputs)
else:
    import tvmrt
    net = tvmrt.load(sys.argv[4])
    inputs = {each.name: golden[each.name] for each in net.inputs}
    call = lambda: net(**inputs)
call()
first, times = time.process_time(), []
end = time.perf_counter() + seconds
while time.perf_counter() < end or len(times) < 8:
    begin = time.process_time()
    call()
    times.append(time.process_time() - begin)
import json
print(json.dumps([first, sorted(times)[len(times) // 4]]))
"""
COMPILE = {"pack": "never", "file": "never", "compiled": "now", "onnxruntime": "auto"}


def measure(form: str, path: Path, seconds: float = 0.6) -> tuple[float, float]:
    """Return the seconds to the first answer, and of a call."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TVMRT_COMPILE": COMPILE[form], "XDG_CACHE_HOME": cache}
        environment["TVM_NUM_THREADS"] = "1"
        file = Path(cache, "net.tvmrt") if form == "file" else path
        if form == "file":
            tvmrt.compile(str(path), target="kernel-pack").export(file)
        command = [sys.executable, "-c", MEASURE, form, str(path), str(seconds), str(file)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    first, call = json.loads(done.stdout.splitlines()[-1])
    return first, call


def main() -> None:
    folder = Path(os.environ["TVMRT_MODELS"])
    names = sys.argv[1:] or sorted(path.stem for path in folder.glob("*.onnx"))
    firsts = "first answer, s | of net.tvmrt | of onnxruntime"
    print(f"| network | {firsts} | call, ms | of compiled | of onnxruntime |")
    print("|---|---|---|---|---|---|---|")
    ratios = []
    for name in names:
        path = folder / f"{name}.onnx"
        found = {form: measure(form, path) for form in COMPILE}
        (first, call), (rival_first, rival) = found["pack"], found["onnxruntime"]
        ratios.append((found["compiled"][1] / call, rival / call))
        row = f"{first:.2f} | {found['file'][0]:.2f} | {rival_first:.2f} | {call * 1e3:.3f}"
        print(f"| {name} | {row} | {ratios[-1][0]:.2f} | {ratios[-1][1]:.2f} |", flush=True)
    means = [exp(sum(map(log, each)) / len(each)) for each in zip(*ratios)]
    print(f"| geometric mean | | | | | {means[0]:.2f} | {means[1]:.2f} |")


if __name__ == "__main__":
    main()
