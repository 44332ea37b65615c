"""What is known of microcontrollers beyond ``codegen.families``: clock, flash, energy.

Clocks, wait states and caches are those of data sheets and reference manuals at the highest clock;
where the flash is a chip of its own, ``wait_states`` is about what a line takes over its bus.
Energy is there where a data sheet has a current for code from flash; regulators, peripherals and
temperature change it by more than the model errs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """One row: ``clock`` in Hz (0: not known), cycles that a line of flash of ``line`` bytes costs,
    bytes of it that are kept for instructions and for data (0: the last line alone), ``prefetch``
    where the next line is read meanwhile, ``picojoules`` a cycle (0: not known). ``core`` replaces
    the target's."""

    clock: float = 0
    wait_states: float = 0
    line: int = 16
    code_cache: int = 0
    data_cache: int = 0
    prefetch: bool = False
    picojoules: float = 0
    core: str = ""


_KIB = 1 << 10
_MHZ = 1e6

# fmt: off
PARTS = {
    "stm32f0": Part(48 * _MHZ, 1, 8, prefetch=True, core="cortex-m0"),
    "stm32g0": Part(64 * _MHZ, 2, 8, 16, 0, True),
    "stm32f1": Part(72 * _MHZ, 2, 8, prefetch=True),
    "stm32f2": Part(120 * _MHZ, 3, 16, 1 * _KIB, 128, True),
    "stm32f3": Part(72 * _MHZ, 2, 8, prefetch=True),
    "stm32f4": Part(168 * _MHZ, 5, 16, 1 * _KIB, 128, True, picojoules=785),
    "stm32l4": Part(80 * _MHZ, 4, 8, 1 * _KIB, 256, True, picojoules=300),
    "stm32f7": Part(216 * _MHZ, 7, 32, 4 * _KIB, 4 * _KIB),
    "stm32h7": Part(480 * _MHZ, 10, 32, 16 * _KIB, 16 * _KIB),
    "stm32u5": Part(160 * _MHZ, 4, 16, 8 * _KIB, 8 * _KIB, True, picojoules=64),
    "nrf52": Part(64 * _MHZ, 2, 16, 2 * _KIB, 0, picojoules=156),
    "nrf53": Part(128 * _MHZ, 5, 16, 8 * _KIB, 8 * _KIB),
    "nrf91": Part(64 * _MHZ, 2, 16, 2 * _KIB, 0),
    "samd21": Part(48 * _MHZ, 1, 8, 64, 0),
    "samd51": Part(120 * _MHZ, 5, 16, 4 * _KIB, 4 * _KIB),
    "rp2040": Part(125 * _MHZ, 52, 8, 16 * _KIB, 16 * _KIB),
    "rp2350": Part(150 * _MHZ, 52, 8, 16 * _KIB, 16 * _KIB),
    "imxrt": Part(600 * _MHZ, 200, 32, 32 * _KIB, 32 * _KIB),
    "ra8": Part(480 * _MHZ, 20, 32, 16 * _KIB, 16 * _KIB),
    "corstone300": Part(32 * _MHZ),
    "esp32c3": Part(160 * _MHZ, 160, 32, 16 * _KIB, 16 * _KIB),
    "esp32c6": Part(160 * _MHZ, 160, 32, 32 * _KIB, 32 * _KIB),
    "gd32vf103": Part(108 * _MHZ, 2, 8, prefetch=True),
    "ch32v307": Part(144 * _MHZ),
}
# fmt: on


def part_of(name: str) -> Part:
    """The row of a family; of a processor's name one that knows nothing."""
    return PARTS.get(name, Part())
