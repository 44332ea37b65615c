"""Print the tables of docs/reference/model-zoo.md: the networks of ST's model zoo.

Each network is rebuilt with random weights (zoo_networks.py). RAM, flash and cycles stand next to
the figures that ST publishes. Needs ai-edge-litert, the cross compiler and QEMU for Arm.
``--write`` replaces the tables of the page.

    python tests/bench/firmware/model_zoo.py [--network resnet8 ...] [--write]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zoo_networks
from page_tables import REFERENCE, millions, one, show, table

sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "support"))
import boards
from tflite_case import feeds_for, litert_runs

import tvmrt
from tvmrt.plugins.cycles.board_estimate import BoardOptions

PAGE = REFERENCE / "model-zoo.md"
KIB = 1 << 10
M7_WEIGHTS = 3 << 20  # larger networks run on QEMU's board with a Cortex-M55


@dataclass(frozen=True)
class Published:
    """ST's figures: KiB of RAM and flash, and milliseconds at ``megahertz`` on a processor."""

    ram: float
    flash: float
    milliseconds: float
    processor: str = "M7"
    megahertz: int = 400

    @property
    def cycles(self) -> float:
        return self.milliseconds * self.megahertz * 1e3


ZOO = {
    "resnet8": Published(69.72, 133.35, 28.67),
    "resnet32": Published(70.39, 543.03, 177.7),
    "mobilenet_v1_0.25_96_gray": Published(69.13, 284.82, 28.34),
    "mobilenet_v1_0.25_96": Published(83.29, 282.69, 29.94),
    "mobilenet_v1_0.25_224": Published(289.34, 282.74, 163.78),
    "mobilenet_v1_0.5_224": Published(465.96, 894.02, 485.79),
    "mobilenet_v1_1.0_224": Published(1347.61, 4267.2, 1641.84),
    "mobilenet_v2_0.35_128": Published(267.46, 515.15, 94.34),
    "mobilenet_v2_0.35_224": Published(862.83, 515.26, 290.75),
    "mobilenet_v2_1.0_224": Published(1757.21, 3616.34, 1106.64),
    "mobilenet_v2_1.4_224": Published(2362.39, 6206.53, 2010.66),
    "yamnet_256": Published(117.18, 193.65, 281.95, "M33", 160),
}


@dataclass(frozen=True)
class Processor:
    """Target to compile for, and the board whose flash and clock the model has."""

    target: str
    board: str
    megahertz: int | None = None


PROCESSORS = {
    "M4": Processor("cortex-m4f", "stm32l4plus"),
    "M7": Processor("cortex-m7", "stm32h7", 400),
    "M33": Processor("cortex-m33", "stm32u5"),
    "M55": Processor("cortex-m55", "cortex-m55"),
}


def compiled(path: Path, target: str, inside: bool) -> tvmrt.CompiledLibrary:
    """Compile with the default plan. ``inside``: input and output are part of the workspace."""
    return tvmrt.compile(str(path), target=target, interface_api="c", workspace_io=inside)


def costs(path: Path, processor: Processor, inside: bool, folder: Path) -> dict:
    """Return the estimate of one run."""
    archive = folder / "net.tar"
    compiled(path, processor.target, inside).export(str(archive))
    clock = processor.megahertz
    return one(archive, BoardOptions(processor.board, None, clock, None, 1, None))


def check_outputs(path: Path, folder: Path) -> None:
    """Compare a run in QEMU with LiteRT's reference kernels, on a random input, bit by bit."""
    (feed,) = feeds_for(path.read_bytes())
    ((expected,),) = litert_runs(path.read_bytes(), [[feed]])
    target = "cortex-m7" if path.stat().st_size < M7_WEIGHTS else "cortex-m55"
    library = compiled(path, target, False)
    inputs = {library.summary.inputs[0].name: feed}
    (found,) = boards.run_network(boards.BOARDS[target], library, inputs, folder).outputs.values()
    np.testing.assert_array_equal(found, expected)


def rows(name: str) -> tuple[list[str], list[str]]:
    """Return a network's rows: next to ST's figures, and the cycles of all processors."""
    published = ZOO[name]
    with tempfile.TemporaryDirectory() as text:
        folder, path = Path(text), Path(text, f"{name}.tflite")
        path.write_bytes(zoo_networks.BUILDERS[name]())
        found = {title: costs(path, each, True, folder) for title, each in PROCESSORS.items()}
        apart = costs(path, PROCESSORS[published.processor], False, folder)
        check_outputs(path, folder)
    within = found[published.processor]
    ram = {title: kib(each["ram"]["total_bytes"]) for title, each in found.items()}
    shares = [
        name, published.processor, f"{published.ram:,.1f}", ram[published.processor],
        f"{within['ram']['total_bytes'] / KIB / published.ram:.2f}",
        kib(apart["ram"]["total_bytes"]), f"{published.flash:,.1f}", kib(within["flash_bytes"]),
        millions(published.cycles), millions(within["cycles"]),
        f"{within['cycles'] / published.cycles:.2f}",
    ]  # fmt: skip
    cycles = [millions(each["cycles"]) for each in found.values()]
    return shares, [name, "all", *cycles, *(ram[title] for title in RAM_OF)]


def kib(nbytes: int) -> str:
    return f"{nbytes / KIB:,.1f}"


HEAD = [
    "network", "processor", "ST: RAM, KiB", "tvmrt", "share", "I/O apart", "ST: flash, KiB",
    "tvmrt", "ST: M cycles", "tvmrt", "share",
]  # fmt: skip
RAM_OF = ("M4", "M55")  # M7 and M33 need as much as M4
ALL_HEAD = [
    "network", "processors", *(f"{title}: M cycles" for title in PROCESSORS),
    *(f"{title}: RAM, KiB" for title in RAM_OF),
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="Tables of the networks of ST's model zoo")
    parser.add_argument("--network", action="append", choices=list(ZOO), help="default: all")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args()
    if options.write and options.network:
        parser.error("--write needs all networks")
    shares, processors = zip(*(rows(name) for name in options.network or ZOO))
    tables = {"published": table(HEAD, shares), "processors": table(ALL_HEAD, processors)}
    return show(PAGE, tables, options.write)


if __name__ == "__main__":
    sys.exit(main())
