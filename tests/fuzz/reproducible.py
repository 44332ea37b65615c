"""Compare the bits of random networks on machines of QEMU with those of this machine.

    python tests/fuzz/reproducible.py [--first 0] [--count 100] [--targets cortex-m4,aarch64-linux]

A seed is a network of cases.py, compiled with `--reproducible`. Prints the networks whose outputs
differ and those that a compiler refuses; the last line is ``N equal, W wrong, R refused``. Exits
with 1 if one is wrong.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np

import tvmrt
from tvmrt.error import UnsupportedError
from tvmrt.runtime.executor import AotModule

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "levels"))
import boards
import cases
import networks_under_qemu

import conftest

KINDS = {"onnx": 40, "picture": 20, "quantised": 20, "tflite": 20}
BOARDS = {**boards.BOARDS, **boards.MORE_BOARDS}
HOSTS = {  # level, and the emulated processor
    "aarch64-linux": ("neon", "cortex-a53"),
    "riscv64-linux": ("rv64", "rv64"),  # QEMU 7.2 ends itself at some of the code with vectors
}


class Folder:
    """Factory of folders for the servers of emulated hosts."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def mktemp(self, name: str) -> Path:
        """Return a new folder."""
        (self.path / name).mkdir()
        return self.path / name


def here(case: cases.Case, folder: Path) -> list[np.ndarray]:
    """Return the outputs on this machine."""
    library = tvmrt.compile(case.model, executor="aot", target="native", reproducible=True)
    library.export_library(folder / "here.so")
    runner = AotModule(tvmrt.runtime.load_module(folder / "here.so")["default"](tvmrt.cpu(0)))
    runner.run(**case.runs[0].feeds)
    return [runner.get_output(i).numpy() for i in range(len(library.summary.outputs))]


def on_board(case: cases.Case, target: str, folder: Path) -> list[np.ndarray]:
    """Return the outputs on a board."""
    library = tvmrt.compile(case.model, target=target, interface_api="c", reproducible=True)
    outcome = boards.run_network(BOARDS[target], library, case.runs[0].feeds, folder / target)
    return list(outcome.outputs.values())


def on_host(case: cases.Case, target: str, port: int, folder: Path) -> list[np.ndarray]:
    """Return the outputs on the server of an emulated host."""
    level, _ = HOSTS[target]
    library = tvmrt.compile(case.model, target=target, levels=[level], reproducible=True)
    library.export_library(folder / f"{target}.so")
    return networks_under_qemu.run(port, folder / f"{target}.so", case.runs[0].feeds)


def difference(found: list[np.ndarray], expected: list[np.ndarray]) -> str:
    """Return how many elements of each output are equal; empty if all are, or both NaN."""
    texts = []
    for number, (one, other) in enumerate(zip(found, expected)):
        equal = np.isclose(one.reshape(other.shape), other, rtol=0, atol=0, equal_nan=True)
        if not equal.all():
            texts.append(f"output {number}: {equal.sum()} of {equal.size} equal")
    return ", ".join(texts)


def main() -> int:
    """Compare the networks of all seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--targets", default="cortex-m4,riscv32")
    asked = parser.parse_args()
    targets, counts = asked.targets.split(","), {"equal": 0, "wrong": 0, "refused": 0}
    with ExitStack() as stack:
        folder = Folder(stack.enter_context(tempfile.TemporaryDirectory(prefix="tvmrt-bits-")))
        machines = conftest.Machines(folder)
        ports = {t: stack.enter_context(machines.serve(t, HOSTS[t][1]))
                 for t in targets if t in HOSTS}  # fmt: skip
        for seed in range(asked.first, asked.first + asked.count):
            with tempfile.TemporaryDirectory(prefix="tvmrt-bits-") as of_seed:
                compare(seed, targets, ports, Path(of_seed), counts)
    print(", ".join(f"{number} {word}" for word, number in counts.items()))
    return 1 if counts["wrong"] else 0


def compare(
    seed: int, targets: list[str], ports: dict[str, int], folder: Path, counts: dict[str, int]
) -> None:
    """Compare the network of a seed on all targets; count and print the results."""
    case = cases.case_of(seed, KINDS)
    try:
        expected = here(case, folder)
        for target in targets:
            if target in ports:
                found = on_host(case, target, ports[target], folder)
            else:
                found = on_board(case, target, folder)
            text = difference(found, expected)
            counts["wrong" if text else "equal"] += 1
            if text:
                print(f"{seed} on {target}: {text}", flush=True)
    except (UnsupportedError, ValueError) as error:
        counts["refused"] += 1
        print(f"{seed}: {error}", flush=True)
    except subprocess.CalledProcessError as error:
        if not error.cmd[0].endswith("gcc"):
            raise
        counts["refused"] += 1
        print(f"{seed}: {target} has too little memory", flush=True)


if __name__ == "__main__":
    sys.exit(main())
