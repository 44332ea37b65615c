"""Microcontroller families: the processor and memory of a typical part of each.

Parts of a family differ; each row is the part on common evaluation boards, named in ``part``. Sizes
are from its data sheet. Memory plans are checked against the first RAM region; other regions can be
used with ``--pool``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tvmrt import plugin
from tvmrt.error import suggestion
from tvmrt.option_syntax import option

from .target import ADVISERS, Target, get_target

if TYPE_CHECKING:
    from tvmrt.compiler.ir.program import MemoryPool

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class FlashReads:
    """How a part reads its flash at the highest clock: wait states of a line of ``line`` bytes (for
    external flash, about the time of its transfer), and bytes of cache for data (0: the last line).
    """

    wait_states: float = 0
    line: int = 16
    data_cache: int = 0


@dataclass(frozen=True)
class McuFamily:
    """One family. ``target`` names the processor; ``flags`` replace its compiler flags unless None.
    ``flash`` is in bytes; ``ram`` maps regions to bytes, the workspace's region first."""

    name: str
    part: str
    target: str
    flash: int
    ram: Mapping[str, int]
    flags: tuple[str, ...] | None = None
    reads: FlashReads = FlashReads()

    def machine(self) -> Target:
        machine = get_target(self.target)
        return machine if self.flags is None else replace(machine, flags=self.flags)

    def pools(self) -> list[MemoryPool]:
        """Return the network's own workspace, limited to the first RAM region."""
        from tvmrt.compiler.ir.program import MemoryPool  # lazy: command help needs only names

        from .pools import WORKSPACE

        return [MemoryPool(WORKSPACE, next(iter(self.ram.values())))]

    def check_pools(self, requested: Mapping[str, object]) -> None:
        """Raise ValueError for a pool that is named after a RAM region and exceeds it."""
        for name, value in requested.items():
            nbytes, limit = value[0] if isinstance(value, tuple) else value, self.ram.get(name)
            if limit is not None and nbytes > limit:
                raise ValueError(
                    f"pool {name} has {nbytes} bytes, but region {name} of {self.name} "
                    f"({self.part}) has {limit}; use a smaller pool"
                )

    def check_flash(self, weights_bytes: int) -> None:
        """Raise ValueError if the weights alone exceed the flash."""
        if weights_bytes > self.flash:
            raise ValueError(
                f"the weights take {weights_bytes} bytes, {weights_bytes - self.flash} more than "
                f"the flash of {self.name} ({self.part}); quantise the network, or choose a larger "
                "board"
            )

    def out_of_memory_text(self, problem: str) -> str:
        """Return the planner's error text with the board's name and its other RAM regions."""
        every = option("pools", self.ram)
        hint = f", or use all of its memory: {every}" if len(self.ram) > 1 else ""
        return f"board {self.name} ({self.part}): {problem}{hint}"


_M7_SINGLE = ("-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16")

# fmt: off
MCU_FAMILIES = {row.name: row for row in (
    McuFamily("stm32f0", "STM32F072", "cortex-m0plus", 128 * KIB, {"sram": 16 * KIB},
           ("-mcpu=cortex-m0", "-mthumb"), reads=FlashReads(1, 8)),
    McuFamily("stm32g0", "STM32G071", "cortex-m0plus", 128 * KIB, {"sram": 36 * KIB},
           reads=FlashReads(2, 8)),
    McuFamily("stm32f1", "STM32F103RE", "cortex-m3", 512 * KIB, {"sram": 64 * KIB},
           reads=FlashReads(2, 8)),
    McuFamily("stm32f2", "STM32F207", "cortex-m3", 1 * MIB, {"sram": 128 * KIB},
           reads=FlashReads(3, 16, 128)),
    McuFamily("stm32f3", "STM32F303RE", "cortex-m4f", 512 * KIB,
           {"sram": 64 * KIB, "ccm": 16 * KIB}, reads=FlashReads(2, 8)),
    McuFamily("stm32f4", "STM32F407", "cortex-m4f", 1 * MIB,
           {"sram": 128 * KIB, "ccm": 64 * KIB}, reads=FlashReads(5, 16, 128)),
    McuFamily("stm32l4", "STM32L476", "cortex-m4f", 1 * MIB,
           {"sram": 96 * KIB, "sram2": 32 * KIB}, reads=FlashReads(4, 8, 256)),
    McuFamily("stm32l4plus", "STM32L4R5", "cortex-m4f", 2 * MIB, {"sram": 640 * KIB},
           reads=FlashReads(5, 16, 256)),
    McuFamily("stm32f7", "STM32F746", "cortex-m7", 1 * MIB,
           {"sram": 256 * KIB, "dtcm": 64 * KIB}, _M7_SINGLE, reads=FlashReads(7, 32, 4 * KIB)),
    McuFamily("stm32h7", "STM32H743", "cortex-m7", 2 * MIB,
           {"axi": 512 * KIB, "dtcm": 128 * KIB, "sram": 288 * KIB},
           reads=FlashReads(10, 32, 16 * KIB)),
    McuFamily("stm32u5", "STM32U575", "cortex-m33", 2 * MIB, {"sram": 768 * KIB},
           reads=FlashReads(4, 16, 8 * KIB)),
    McuFamily("nrf52", "nRF52840", "cortex-m4f", 1 * MIB, {"sram": 256 * KIB},
           reads=FlashReads(2, 16)),
    McuFamily("nrf53", "nRF5340", "cortex-m33", 1 * MIB, {"sram": 512 * KIB},
           reads=FlashReads(5, 16, 8 * KIB)),
    McuFamily("nrf91", "nRF9160", "cortex-m33", 1 * MIB, {"sram": 256 * KIB},
           reads=FlashReads(2, 16)),
    McuFamily("samd21", "ATSAMD21G18", "cortex-m0plus", 256 * KIB, {"sram": 32 * KIB},
           reads=FlashReads(1, 8)),
    McuFamily("samd51", "ATSAMD51J20", "cortex-m4f", 1 * MIB, {"sram": 256 * KIB},
           reads=FlashReads(5, 16, 4 * KIB)),
    McuFamily("rp2040", "RP2040 on a Pico", "cortex-m0plus", 2 * MIB, {"sram": 264 * KIB},
           reads=FlashReads(52, 8, 16 * KIB)),
    McuFamily("rp2350", "RP2350 on a Pico 2", "cortex-m33", 4 * MIB, {"sram": 520 * KIB},
           reads=FlashReads(52, 8, 16 * KIB)),
    McuFamily("imxrt", "i.MX RT1062, 8 MiB of flash", "cortex-m7", 8 * MIB,
           {"ocram": 768 * KIB, "dtcm": 128 * KIB}, reads=FlashReads(200, 32, 32 * KIB)),
    McuFamily("ra8", "R7FA8D1", "cortex-m85", 2 * MIB, {"sram": 896 * KIB, "dtcm": 64 * KIB},
           reads=FlashReads(20, 32, 16 * KIB)),
    McuFamily("corstone300", "Corstone-300 on an MPS3", "cortex-m55", 512 * KIB,
           {"sram": 4 * MIB, "dtcm": 512 * KIB}),
    McuFamily("esp32c3", "ESP32-C3, 4 MiB of flash", "riscv32", 4 * MIB, {"sram": 384 * KIB},
           reads=FlashReads(160, 32, 16 * KIB)),
    McuFamily("esp32c6", "ESP32-C6, 4 MiB of flash", "rv32imac", 4 * MIB, {"sram": 512 * KIB},
           reads=FlashReads(160, 32, 32 * KIB)),
    McuFamily("esp8266", "ESP8266EX, 4 MiB of flash", "xtensa-lx106", 4 * MIB, {"dram": 80 * KIB}),
    McuFamily("esp32", "ESP32, 4 MiB of flash", "xtensa-lx6", 4 * MIB,
           {"dram": 160 * KIB, "sram1": 128 * KIB}),
    McuFamily("esp32s3", "ESP32-S3, 8 MiB of flash", "xtensa-lx7", 8 * MIB, {"sram": 480 * KIB}),
    McuFamily("gd32vf103", "GD32VF103", "rv32imac", 128 * KIB, {"sram": 32 * KIB},
           reads=FlashReads(2, 8)),
    McuFamily("ch32v307", "CH32V307", "rv32imafc", 256 * KIB, {"sram": 64 * KIB}),
)}
# fmt: on


def find_mcu_family(name: str) -> McuFamily:
    """Return the family of that name. Raises ValueError listing the names if it is unknown."""
    family: McuFamily | None = MCU_FAMILIES.get(name) or plugin.find("boards", name, McuFamily)
    if family is None:
        raise ValueError(f"{option('board', name)} is not known; {suggestion(name, board_names())}")
    return family


_OTHER_NAMES = {"pico": "rp2", "teensy": "imxrt", "nucleo": "stm32"}  # beginnings of families


def _advice_for_target(name: str) -> str | None:
    """Return what to give in place of a target that is the name of a board or a chip."""
    word = re.split(r"[^a-z]", name.lower())[0]
    chip = _OTHER_NAMES.get(word) or re.sub(r"[^a-z0-9]", "", name.lower())
    found = max((each for each in board_names() if chip.startswith(each)), key=len, default="")
    known = [found] if found else [each for each in board_names() if each.startswith(chip)]
    if len(chip) < 3 or not known:
        return None
    return f"for a board, give {' or '.join(option('board', each) for each in known)}"


ADVISERS.append(_advice_for_target)


def board_names() -> list[str]:
    """Return the names of all families, those of plug-ins last."""
    return [*MCU_FAMILIES, *plugin.keys("boards")]
