"""The option ``proof``: its row of the option table."""

from __future__ import annotations

from typing import Any

from tvmrt.option_syntax import option
from tvmrt.plugin import Option, resolve

FILES = "tvmrt.plugins.proof.files:proof_files"  # read by compilations with the option
# Processors with 32-bit pointers and little-endian memory, as in Frama-C's machine x86_32.
_PROCESSORS = ("cortex-", "riscv32", "rv32", "xtensa-")


def _refused(request: Any) -> str | None:
    if not request.proof:
        return None
    if request.runtime != "crt" or request.interface_api != "c" or not request.unpacked_api:
        return (
            f"{option('proof')} needs {option('runtime', 'crt')} with "
            f"{option('interface_api', 'c')} and {option('unpacked_api', True)}"
        )
    if not str(request.target).startswith(_PROCESSORS):
        return (
            f"{option('proof')} describes 32-bit boards to Frama-C; choose one as "
            f"{option('target')}, for example riscv32"
        )
    if request.params != "flash":
        return f"{option('proof')} reads the weights; choose {option('params', 'flash')}"
    if request.devices:
        return f"{option('proof')} does not read the code of devices; choose no device"
    return None


PROOF = Option(
    "Firmware: also write proof/run.sh and its drivers and contracts, with which Frama-C proves "
    "that the C code has no undefined behaviour for any input.",
    group="Boards",
    kind="bool",
    type="bool",
    default=False,
    folder_files=lambda library, value: resolve(FILES)(library),
    refused=_refused,
    recorded=False,
)
