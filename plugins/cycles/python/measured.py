"""Cycles that a board measures and prints on its serial line, as the examples of packages do."""

from __future__ import annotations

import re
import time
from statistics import median

from tvmrt import plugin
from tvmrt.cli.archive import ArchiveNetwork
from tvmrt.error import TVMError

RUNS = 20
SECONDS = 60  # without a measurement of the network
_REPORT = re.compile(rb"tvmrt: (\w+) (\d+) took (\d+) cycles\r?\n")


def measure(address: str, network: ArchiveNetwork) -> dict[str, float]:
    """Read ``RUNS`` measurements of a network; return their median, minimum and maximum.

    Raises ValueError if another network runs on the board, or it counts no cycles; OSError or
    TVMError if the line fails or nothing comes.
    """
    line = plugin.hook("serial line", "inspect --board --port")(address)
    cycles: list[int] = []
    try:
        data, end = b"", time.monotonic() + SECONDS
        while len(cycles) < RUNS:
            if time.monotonic() > end:
                raise TVMError(
                    f"{address} has sent no cycles for {SECONDS} s; flash the example of a package "
                    "(tvmrt compile --format), check the port and its speed, and reset the board"
                )
            data += line.receive(4096, 1.0)
            for report in _REPORT.finditer(data):
                cycles.append(_checked(report, address, network))
                end = time.monotonic() + SECONDS
            data = data[data.rfind(b"\n") + 1 :]
    finally:
        line.close()
    cycles = cycles[:RUNS]  # the last bytes may contain more
    return {"runs": RUNS, "median": median(cycles), "least": min(cycles), "most": max(cycles)}


def _checked(report: re.Match[bytes], address: str, network: ArchiveNetwork) -> int:
    prefix, checksum, cycles = report[1].decode(), f"{int(report[2]):08x}", int(report[3])
    if (prefix, checksum) != (network.prefix, network.interface["checksum"]):
        raise ValueError(
            f"the board at {address} runs {prefix} with the checksum {checksum}, and "
            f"{network.prefix} has {network.interface['checksum']}; compile the package and the "
            "archive with the same options"
        )
    if cycles == 0:
        raise ValueError(
            f"the board at {address} counts no cycles: the run fails, or its core has no counter "
            "(Cortex-M0+); there, give the example a timer as tvmrt_platform_cycles()"
        )
    return cycles
