"""Print the tables of docs/reference/mlperf-tiny.md: networks of MLPerf Tiny on microcontrollers.

``--networks FOLDER`` has the official ``.tflite`` files under the names of ``TASKS``. For a missing
file a network of the same architecture with random weights is built (tiny_networks.py), and its row
says so. Needs ai-edge-litert, the cross compilers and QEMU for Arm and RISC-V. ``--write`` replaces
the tables of the page.

    python tests/bench/firmware/mlperf_tiny.py [--networks FOLDER] [--task ad ...] [--write]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tiny_networks
from page_tables import REFERENCE, millions, one, show, table
from tflite_case import feeds_for, litert_runs

import tvmrt
from tvmrt.cli.session import Session
from tvmrt.compiler.export.summary import Summary
from tvmrt.plugins.cycles.board_estimate import BoardOptions

PAGE = REFERENCE / "mlperf-tiny.md"
INPUTS = 100  # compared with LiteRT
ROUNDINGS = ("micro", "reference")  # the boards' default first


@dataclass(frozen=True)
class Task:
    """A task of MLPerf Tiny, and the name of its official file."""

    title: str
    file: str


TASKS = {
    "kws": Task("keyword spotting", "kws_ref_model.tflite"),
    "ic": Task("image classification", "pretrainedResnet_quant.tflite"),
    "vww": Task("visual wake words", "vww_96_int8.tflite"),
    "ad": Task("anomaly detection", "ad01_int8.tflite"),
    "sww": Task("streaming wake word", "strm_ww_int8.tflite"),
}

# Rows. Training made channels of the official vww 0; a share of 0.28 takes about its 7.08 M
# instructions on M4.
ROWS = {
    **TASKS,
    "vww_dead": Task("vww with 28 % of the channels 0", ""),
    "transformer": Task("a block of 32 tokens of 64, 8 heads", ""),
}

# Column: board, and for a figure other than the board's own, wait states, clock and line.
CYCLES = {
    "M4, 128-bit flash": BoardOptions("stm32l4plus", None, None, None, 1, None),
    "M4, 64-bit flash": BoardOptions("stm32l4", 5, 120, None, 1, None),
    "M33": BoardOptions("stm32u5", None, None, None, 1, None),
}
INSTRUCTIONS = {"M55": "cortex-m55", "RV32": "riscv32"}

# Milliseconds per inference from the medians of published result files.
PUBLISHED = {
    "X-CUBE-AI 10.2, STM32L4R5, M4 120 MHz": (
        120, {"kws": 43.42, "ic": 165.7, "vww": 89.44, "ad": 4.794, "sww": 17.89}),
    "Plumerai 2023.05, STM32L4R5, M4 120 MHz": (
        120, {"kws": 47.8, "ic": 167.8, "vww": 98.8, "ad": 4.05}),
    "microTVM with CMSIS-NN, STM32L4R5, M4 120 MHz": (
        120, {"kws": 99.8, "ic": 389.6, "vww": 301.2, "ad": 8.60}),
    "X-CUBE-AI 10.2, STM32U575, M33 160 MHz": (
        160, {"kws": 28.99, "ic": 109.5, "vww": 59.27, "ad": 3.210, "sww": 11.63}),
}  # fmt: skip

FASTEST = 1 << 30
# Board, and limits of the workspace (--ram; None: as compiled without it).
RAM = {
    "mcunet_vww1": ("MCUNet-VWW1, 80 x 80", "stm32h7", (FASTEST, None, 40_000)),
    "mobilenet_v2": ("MobileNetV2 1.0, 224 x 224", "cortex-m55", (FASTEST, None, 90 << 10)),
}


def network_file(name: str, networks: Path | None, folder: Path) -> tuple[Path, bool]:
    """Return a task's file, and whether it is the official one."""
    file = ROWS[name].file if name in ROWS else ""
    official = networks / file if networks is not None and file else None
    if official is not None and official.is_file():
        return official, True
    path = folder / f"{name}.tflite"
    path.write_bytes(tiny_networks.BUILDERS[name]())
    return path, False


def agreement(path: Path, folder: Path) -> list[str]:
    """Compare with LiteRT's reference kernels, for each rounding."""
    data = path.read_bytes()
    runs = [feeds_for(data, seed) for seed in range(INPUTS)]
    expected = [np.ravel(outputs[0]).astype(int) for outputs in litert_runs(data, runs)]
    return [_agreement(data, rounding, runs, expected, folder) for rounding in ROUNDINGS]


def _agreement(
    data: bytes, rounding: str, runs: list, expected: list[np.ndarray], folder: Path
) -> str:
    library = folder / f"{rounding}.so"
    tvmrt.compile(data, executor="aot", tflite_rounding=rounding).export_library(str(library))
    session = Session(library, 1)
    names = [tensor.name for tensor in session.inputs]
    outputs = [next(iter(session.run(dict(zip(names, feeds))).values())) for feeds in runs]
    found = [np.ravel(output).astype(int) for output in outputs]
    bits = sum(np.array_equal(a, b) for a, b in zip(found, expected))
    classes = sum(a.argmax() == b.argmax() for a, b in zip(found, expected))
    largest = max(int(np.abs(a - b).max()) for a, b in zip(found, expected))
    return f"{bits} / {classes}" + (f", within {largest}" if largest else "")


def with_weights_in_ram(path: Path, folder: Path) -> dict:
    """Return the estimate for the first board, with weights and kernels in RAM."""
    board = next(iter(CYCLES.values()))
    archive = folder / "ram.tar"
    pools, places = {"sram": 1 << 20}, {"*_weights": "sram"}
    library = tvmrt.compile(
        str(path), target="cortex-m4f", interface_api="c", pools=pools, place=places
    )
    library.export(str(archive))
    return one(archive, replace(board, kernels_in_ram=True))


def cost_row(name: str, networks: Path | None) -> list[str]:
    """Return the row of one task in the table of costs."""
    task = ROWS[name]
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        path, official = network_file(name, networks, folder)
        boards = {title: one(path, options) for title, options in CYCLES.items()}
        m4 = next(iter(boards.values()))
        instructions = [
            millions(one(path, BoardOptions(board, None, None, None, 1, None))["instructions"])
            for board in INSTRUCTIONS.values()
        ]
        in_ram = with_weights_in_ram(path, folder)
        equal = agreement(path, folder)
    return [
        f"{name}, {task.title}", "official" if official else "random",
        *(millions(board["cycles"]) for board in [*boards.values(), in_ram]), *instructions,
        f"{m4['flash_bytes']:,}", f"{m4['ram']['total_bytes']:,}", *equal,
    ]  # fmt: skip


COST_HEAD = [
    "task", "weights", *(f"{title}: M cycles" for title in CYCLES),
    "M4, weights and kernels in RAM: M cycles",
    *(f"{title}: M instructions" for title in INSTRUCTIONS), "flash, B", "RAM, B",
    *(f"bits / classes equal, {rounding}" for rounding in ROUNDINGS),
]  # fmt: skip


def published_rows(names: Iterable[str]) -> list[list[str]]:
    """Return published times as millions of cycles."""
    return [
        [title, *(
            f"{times[name] * megahertz / 1e3:.3f}" if name in times else "-"
            for name in names
        )]
        for title, (megahertz, times) in PUBLISHED.items()
    ]  # fmt: skip


def ram_rows(name: str) -> list[list[str]]:
    """Return the rows of one network in the table of RAM, one for each limit."""
    title, board, limits = RAM[name]
    where = "target" if board.startswith("cortex") else "board"
    with tempfile.TemporaryDirectory() as text:
        path, _ = network_file(name, None, Path(text))
        rows = []
        for limit in limits:
            library = tvmrt.compile(str(path), interface_api="c", ram=limit, **{where: board})
            library.export(str(Path(text, "net.tar")))
            rows.append([title, board, *_ram_cells(library.summary, Path(text, "net.tar"))])
    return rows


def _ram_cells(summary: Summary, archive: Path) -> list[str]:
    """Return the bytes of RAM, and the estimated instructions that a smaller plan adds."""
    command = [sys.executable, "-m", "tvmrt", "inspect", str(archive), "--json"]
    done = subprocess.run(command, check=True, capture_output=True)
    (stack,) = json.loads(done.stdout)["footprint"]["stack"].values()
    signature = sum(tensor.nbytes for tensor in [*summary.inputs, *summary.outputs])
    parts = [summary.arena_bytes, signature, stack["bytes"]]
    more = [p.instructions for p in summary.row_plans if p.used]
    instructions = f"{more[0] / 1e6:.3f}" if any(more) else "-"
    return [f"{sum(parts):,}", *(f"{part:,}" for part in parts), instructions]


RAM_HEAD = [
    "network", "board", "RAM, B", "workspace", "input and output", "stack", "M instructions more",
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="Tables of MLPerf Tiny's networks")
    parser.add_argument("--networks", type=Path, help="folder of the official .tflite files")
    parser.add_argument("--task", action="append", choices=[*ROWS, *RAM], help="default: all")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args()
    if options.write and options.task:
        parser.error("--write needs all tasks")
    chosen = options.task or [*ROWS, *RAM]
    tables = {
        "costs": table(COST_HEAD, [cost_row(n, options.networks) for n in ROWS if n in chosen]),
        "published": table(["software and board", *TASKS], published_rows(TASKS)),
        "ram": table(RAM_HEAD, [row for n in RAM if n in chosen for row in ram_rows(n)]),
    }
    return show(PAGE, tables, options.write)


if __name__ == "__main__":
    sys.exit(main())
