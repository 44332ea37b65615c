"""Measure the peak memory of compiling, relative to the size of the network's weights.

Run: ``python tests/bench/bench_compile_memory.py [FILE.onnx ...]``; without files of a decoder like
GPT-2 (``--layers``, ``--words``), its weights are in the file, and in an external file. Printed for
each stage, for the C compiler's processes, and for all processes at once. Memory of Python and its
modules before the network is read is not counted. Linux only.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "support"))


MB = 1 << 20


def status(pid: int | str, key: str) -> int:
    """Return the bytes that /proc reports for a process, 0 if it has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(rf"{key}:\s+(\d+) kB", text)
    return 1024 * int(found[1]) if found else 0


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for task in tasks:
        try:
            text = Path(f"/proc/{pid}/task/{task}/children").read_text()
        except OSError:
            continue
        children = [int(child) for child in text.split()]
        found += [one for child in children for one in (child, *descendants(child))]
    return found


def program(pid: int) -> str:
    """Return the program of a process; a process that is being started still shows its parent's."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


class Watch:
    """Records the largest sum over all processes, sampled every few milliseconds."""

    def __init__(self) -> None:
        self.most = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        own = os.getpid()
        while not self._ended.wait(0.01):
            others = [status(p, "VmRSS") for p in descendants(own) if program(p) != program(own)]
            self.most = max(self.most, status(own, "VmRSS") + sum(others))

    def end(self) -> int:
        self._ended.set()
        self._thread.join()
        return self.most


def measure(path: Path) -> None:
    import tvmrt.compiler.pipeline  # imported modules are not part of the measurement

    rows: list[tuple[str, int]] = []
    running = ["before"]

    def mark(name: str) -> None:
        rows.append((running[0], status("self", "VmHWM")))
        Path("/proc/self/clear_refs").write_text("5")  # the next peak starts here
        running[0] = name

    base = status("self", "VmRSS")
    watch = Watch()
    begin = time.perf_counter()
    library = tvmrt.compile(path, progress=lambda name, *_: mark(name))
    mark("link")
    with tempfile.TemporaryDirectory() as folder:
        library.export_library(Path(folder, "net.so"))
    mark("end")
    together, seconds = watch.end(), time.perf_counter() - begin
    weights = library.summary.weights_bytes
    child = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    mine, theirs = base / MB, weights / MB
    print(f"{path.name}: {theirs:.0f} MB of weights, {seconds:.1f} s, {mine:.0f} MB of Python")
    print("  " + ", ".join(f"{name} {(most - base) / weights:.2f}" for name, most in rows[1:]))
    own = max(most for _, most in rows)
    print(
        f"  this process {(own - base) / weights:.2f}, largest other {child / weights:.2f}, "
        f"all at once {(together - base) / weights:.2f}",
        flush=True,
    )


def decoders(folder: Path, layers: int, words: int) -> list[Path]:
    import onnx
    from transformer_files import BUILDERS

    model, _ = BUILDERS["gpt2"](layers, 768, 12, steps=1, words=words)
    inside, external = folder / "decoder.onnx", folder / "decoder_external.onnx"
    onnx.save(model, inside)
    onnx.save(model, external, save_as_external_data=True, location="decoder.data")
    return [inside, external]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--words", type=int, default=50257)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        measure(given.files[0])
        return
    with tempfile.TemporaryDirectory() as folder:
        files = given.files or decoders(Path(folder), given.layers, given.words)
        for file in files:
            subprocess.run([sys.executable, __file__, "--one", str(file)], check=True)


if __name__ == "__main__":
    main()
