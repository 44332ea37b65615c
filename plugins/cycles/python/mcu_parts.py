"""Data of microcontrollers beyond those of the compiler (McuFamily): clock, caches, energy.

Clocks, wait states and caches follow the ``manual`` and the data sheet at the highest clock. They
were written from memory and are not validated on silicon. Energy is given if a data sheet has a
current for code from flash; regulators, peripherals and temperature change it by more than the
model's error.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from tvmrt.compiler.sdk.codegen import board_names, find_mcu_family


@dataclass(frozen=True)
class Mcu:
    """Data of one part: ``clock`` in Hz (0: unknown), how it reads its flash (FlashReads of the
    compiler's family), bytes of cache for code (0: only the last line), ``prefetch`` of the next
    line, ``picojoules`` per cycle (0: unknown). ``core`` replaces the target's core; ``manual``
    names the source."""

    clock: float = 0
    wait_states: float = 0
    line: int = 16
    code_cache: int = 0
    data_cache: int = 0
    prefetch: bool = False
    picojoules: float = 0
    core: str = ""
    manual: str = ""


_KIB = 1 << 10
_MHZ = 1e6

# fmt: off
PARTS = {
    "stm32f0": Mcu(48 * _MHZ, prefetch=True, core="cortex-m0", manual="ST RM0091"),
    "stm32g0": Mcu(64 * _MHZ, code_cache=16, prefetch=True, manual="ST RM0444"),
    "stm32f1": Mcu(72 * _MHZ, prefetch=True, manual="ST RM0008"),
    "stm32f2": Mcu(120 * _MHZ, code_cache=1 * _KIB, prefetch=True, manual="ST RM0033"),
    "stm32f3": Mcu(72 * _MHZ, prefetch=True, manual="ST RM0316"),
    "stm32f4": Mcu(168 * _MHZ, code_cache=1 * _KIB, prefetch=True, picojoules=785,
        manual="ST RM0090"),
    "stm32l4": Mcu(80 * _MHZ, code_cache=1 * _KIB, prefetch=True, picojoules=300,
        manual="ST RM0351"),
    # in single-bank mode; 64-bit lines in dual-bank mode
    "stm32l4plus": Mcu(120 * _MHZ, code_cache=1 * _KIB, prefetch=True, manual="ST RM0432"),
    "stm32f7": Mcu(216 * _MHZ, code_cache=4 * _KIB, manual="ST RM0385"),
    "stm32h7": Mcu(480 * _MHZ, code_cache=16 * _KIB, manual="ST RM0433"),
    "stm32u5": Mcu(160 * _MHZ, code_cache=8 * _KIB, prefetch=True, picojoules=64,
        manual="ST RM0456"),
    "nrf52": Mcu(64 * _MHZ, code_cache=2 * _KIB, picojoules=156,
        manual="nRF52832 Product Specification"),
    "nrf53": Mcu(128 * _MHZ, code_cache=8 * _KIB, manual="nRF5340 Product Specification"),
    "nrf91": Mcu(64 * _MHZ, code_cache=2 * _KIB, manual="nRF9160 Product Specification"),
    "samd21": Mcu(48 * _MHZ, code_cache=64, manual="SAM D21 data sheet (DS40001882)"),
    "samd51": Mcu(120 * _MHZ, code_cache=4 * _KIB, manual="SAM D5x/E5x data sheet (DS60001507)"),
    "rp2040": Mcu(125 * _MHZ, code_cache=16 * _KIB, manual="RP2040 data sheet"),
    "rp2350": Mcu(150 * _MHZ, code_cache=16 * _KIB, manual="RP2350 data sheet"),
    "imxrt": Mcu(600 * _MHZ, code_cache=32 * _KIB, manual="i.MX RT1060 Reference Manual"),
    "ra8": Mcu(480 * _MHZ, code_cache=16 * _KIB, manual="RA8M1 User's Manual: Hardware"),
    "corstone300": Mcu(32 * _MHZ, manual="Arm MPS3 application note AN547"),
    "esp32c3": Mcu(160 * _MHZ, code_cache=16 * _KIB, manual="ESP32-C3 Technical Reference Manual"),
    "esp32c6": Mcu(160 * _MHZ, code_cache=32 * _KIB, manual="ESP32-C6 Technical Reference Manual"),
    "gd32vf103": Mcu(108 * _MHZ, prefetch=True, manual="GD32VF103 User Manual"),
    "ch32v307": Mcu(144 * _MHZ, manual="CH32FV2x_V3x Reference Manual"),
}
# fmt: on


def part_of(name: str) -> Mcu:
    """Return the data of a family; an empty row for a processor name."""
    part = PARTS.get(name, Mcu())
    return replace(part, **asdict(find_mcu_family(name).reads)) if name in board_names() else part
