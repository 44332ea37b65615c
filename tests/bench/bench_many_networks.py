"""Measure what each further network in a process takes: memory, time and threads.

    python tests/bench/bench_many_networks.py NETWORK.onnx [--count 300]

Copies of the network are compiled libraries for tvmrt and ONNX files for onnxruntime; each is
loaded and called once, in one process for each runtime. The first ten are not counted. Prints, for
each runtime and a further network, the resident memory of its own, that of its file (pages that the
system reads again when it needs them elsewhere) and the processor time; and the threads of the
process at the end.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import tvmrt

PROGRAM = """
import sys, time
import numpy as np
{imports}

def resident():
    with open("/proc/self/status") as status:
        words = dict(line.split(":", 1) for line in status)
    sizes = [int(words[name].split()[0]) for name in ("RssAnon", "RssFile")]
    return np.array([*sizes, int(words["Threads"])])

kept = []
for number, path in enumerate(sys.argv[1:]):
    if number == 10:
        before, begin = resident(), time.process_time()
    {load}
seconds, count = time.process_time() - begin, len(kept) - 10
own, file = (resident() - before)[:2] / count
print(f"{{own:.0f}} KB and {{file:.0f}} KB of files, {{seconds / count * 1e3:.2f}} ms; ", end="")
print(f"{{resident()[2]}} threads")
"""
TVMRT = (
    "import tvmrt",
    "kept.append(tvmrt.load(path)); net = kept[-1]; "
    "net(*(np.zeros(t.shape, t.dtype) for t in net.inputs))",
)
ONNXRUNTIME = (
    "import onnxruntime",
    "kept.append(onnxruntime.InferenceSession(path)); net = kept[-1]; "
    "net.run(None, {t.name: np.zeros(t.shape, 'float32') for t in net.get_inputs()})",
)


def main() -> None:
    """Print both runtimes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", type=Path)
    parser.add_argument("--count", type=int, default=300)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tvmrt-many-") as name:
        folder = Path(name)
        library = folder / "net.so"
        tvmrt.compile(asked.network).export(str(library))
        for label, original, (imports, load) in (
            ("tvmrt", library, TVMRT),
            ("onnxruntime", asked.network, ONNXRUNTIME),
        ):
            copies = [folder / f"{number}{original.suffix}" for number in range(asked.count)]
            for copy in copies:
                shutil.copy(original, copy)
            program = PROGRAM.format(imports=imports, load=load)
            command = [sys.executable, "-c", program, *map(str, copies)]
            print(f"{label}: {subprocess.check_output(command, text=True).strip()}", flush=True)


if __name__ == "__main__":
    main()
