"""Compare the bits of random networks on boards in QEMU with those of this machine.

    python tests/fuzz/reproducible.py [--first 0] [--count 100] [--targets cortex-m4,riscv32]

A seed is a network of cases.py, compiled with `--reproducible`. Prints the networks whose outputs
differ and those that a compiler refuses; the last line is ``N equal, W wrong, R refused``. Exits
with 1 if one is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

import tvmrt
from tvmrt.error import UnsupportedError
from tvmrt.runtime.executor import AotModule

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "support"))
import boards
import cases

KINDS = {"onnx": 40, "picture": 20, "quantised": 20, "tflite": 20}
BOARDS = {**boards.BOARDS, **boards.MORE_BOARDS}


def here(case: cases.Case, folder: Path) -> list[np.ndarray]:
    """Return the outputs on this machine."""
    library = tvmrt.compile(case.model, executor="aot", target="native", reproducible=True)
    library.export_library(folder / "here.so")
    runner = AotModule(tvmrt.runtime.load_module(folder / "here.so")["default"](tvmrt.cpu(0)))
    runner.run(**case.runs[0].feeds)
    return [runner.get_output(i).numpy() for i in range(len(library.summary.outputs))]


def there(case: cases.Case, target: str, folder: Path) -> list[np.ndarray]:
    """Return the outputs on a board."""
    library = tvmrt.compile(case.model, target=target, interface_api="c", reproducible=True)
    outcome = boards.run_network(BOARDS[target], library, case.runs[0].feeds, folder / target)
    return list(outcome.outputs.values())


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
    counts = {"equal": 0, "wrong": 0, "refused": 0}
    for seed in range(asked.first, asked.first + asked.count):
        case = cases.case_of(seed, KINDS)
        with tempfile.TemporaryDirectory(prefix="tvmrt-bits-") as name:
            try:
                expected = here(case, Path(name))
                for target in asked.targets.split(","):
                    text = difference(there(case, target, Path(name)), expected)
                    counts["wrong" if text else "equal"] += 1
                    if text:
                        print(f"{seed} on {target}: {text}", flush=True)
            except UnsupportedError as error:
                counts["refused"] += 1
                print(f"{seed}: {error}", flush=True)
    print(", ".join(f"{number} {word}" for word, number in counts.items()))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
