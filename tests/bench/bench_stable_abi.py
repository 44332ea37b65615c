"""Measure the cost of Python's stable ABI: compare the extension with one that calls functions
wherever the stable ABI has no macro.

Heap types and look-ups that the stable ABI requires are omitted, so this is a lower bound.
Each round measures both in processes of their own, in turning order; times are processor time.
Run: ``python tests/bench/bench_stable_abi.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from statistics import median

from tvmrt import libinfo

ROOT = Path(__file__).parents[2]
HEADER = Path(__file__).parent / "calls" / "stable_abi.h"
FLAGS = "-O3 -DNDEBUG -fPIC -shared -fvisibility=hidden -fno-plt -falign-functions=64".split()
PROGRAM = """
import importlib.util, json, sys, time
import numpy as np
spec = importlib.util.spec_from_file_location("tvmrt.runtime._core", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
spec.loader.exec_module(module)
import tvmrt
assert tvmrt.runtime._core is module or sys.modules[spec.name] is module
f = tvmrt.runtime.load_module(sys.argv[2])["nop"]
f.release_gil = False
x = tvmrt.nd.array(np.zeros(4, np.float32))
cases = {"no argument": (), "3 integers": (1, 2, 3), "2 floats": (0.5, 1.5), "3 tensors": (x, x, x),
         "a string": ("text",)}
found = {}
for name, args in cases.items():
    best = 1e9
    for _ in range(15):
        start = time.thread_time_ns()
        for _ in range(20000):
            f(*args)
        best = min(best, (time.thread_time_ns() - start) / 20000)
    found[name] = best
print(json.dumps(found))
"""


def build(folder: Path, name: str, more: list[str]) -> Path:
    """Build the extension as one translation unit, with the flags of the build."""
    sources = sorted((ROOT / "python" / "src").glob("*.c"))
    unit = folder / f"{name}.c"
    unit.write_text("".join(f'#include "{source}"\n' for source in sources))
    out = folder / name / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    out.parent.mkdir()
    library = Path(libinfo.find_lib_path()[0])
    paths = [f"-I{sysconfig.get_path('include')}", f"-I{ROOT / 'include'}"]
    link = [str(library), f"-Wl,-rpath,{library.parent}"]
    subprocess.run(["cc", *FLAGS, *more, *paths, unit, *link, "-o", out], check=True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        plugin = folder / "nop.so"
        source = "int nop(void* a, int* t, int n, void* r, int* c) { *c = 4; return 0; }"
        (folder / "nop.c").write_text(source)
        subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", folder / "nop.c", "-o", plugin], check=True
        )
        made = [
            build(folder, "macros", []),
            build(folder, "functions", ["-include", str(HEADER)]),
        ]
        rounds = []
        for number in range(given.rounds):
            order = (0, 1) if number % 2 else (1, 0)
            found = {i: _times(made[i], plugin) for i in order}
            rounds.append((found[0], found[1]))
    for name in rounds[0][0]:
        ratio = median(by_call[name] / own[name] for own, by_call in rounds)
        print(f"{name:12} {median(own[name] for own, _ in rounds):7.1f} ns  {ratio:5.2f} times")


def _times(core: Path, plugin: Path) -> dict[str, float]:
    command = [sys.executable, "-c", PROGRAM, str(core), str(plugin)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
    return json.loads(ran.stdout)


if __name__ == "__main__":
    main()
