"""Firmware archives built by their own Makefile for boards, and run there by QEMU."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from firmware_program import program_text

import tvmrt


@dataclass(frozen=True)
class Board:
    """A machine of QEMU: its processor as a target, where its memory lies."""

    target: str
    compiler: str
    emulator: tuple[str, ...]
    flash: int
    ram: int
    flags: tuple[str, ...]


_M4 = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
_M55 = ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard")
_RV32 = ("-march=rv32imc", "-mabi=ilp32")
BOARDS = [
    Board("cortex-m4", "arm-none-eabi-gcc", ("qemu-system-arm", "-M", "mps2-an386"),
          0, 0x20000000, _M4),
    Board("cortex-m55", "arm-none-eabi-gcc", ("qemu-system-arm", "-M", "mps3-an547"),
          0, 0x20000000, _M55),
    Board("riscv32", "riscv64-unknown-elf-gcc", ("qemu-system-riscv32", "-M", "virt", "-bios",
          "none"), 0x80000000, 0x80400000, _RV32),
]  # fmt: skip


def link(board: Board, folder: Path) -> Path:
    """The program around the archive's library, with a C library that reaches the host's files."""
    layout = {"flash": board.flash, "flash_size": 1 << 19, "ram": board.ram,
              "ram_size": 1 << 19, "stack_size": 1 << 14}  # fmt: skip
    image = folder / "image.elf"
    subprocess.run(
        [board.compiler, "-Os", *board.flags, "--specs=picolibc.specs", "--crt0=semihost",
         "--oslib=semihost", "-DPICOLIBC_INTEGER_PRINTF_SCANF",
         *(f"-Wl,--defsym=__{key}={value:#x}" for key, value in layout.items()),
         f"-I{folder}/net/codegen/host/include", f"-I{folder}/net/runtime/include",
         str(folder / "main.c"), str(folder / "net/libdigits.a"), "-lm", "-o", str(image)],
        check=True,
    )  # fmt: skip
    return image


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.target)
def test_the_archive_runs_on_the_board(board, digits, images, golden, tmp_path):
    for tool in (board.compiler, board.emulator[0], "make"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    options = {"interface_api": "c", "unpacked_api": True, "module_name": "digits"}
    tvmrt.compile(digits, target=board.target, **options).export(tmp_path / "net.tar")
    with tarfile.open(tmp_path / "net.tar") as tar:
        tar.extractall(tmp_path / "net", filter="data")
    warnings = "CFLAGS=-Os -ffreestanding -Wall -Wextra -Werror -Wconversion"
    compiler = f"CC={board.compiler} --specs=picolibc.specs"  # for math.h
    subprocess.run(["make", "-s", compiler, warnings], cwd=tmp_path / "net", check=True)
    text = program_text(["digits"], "c", files=("images.bin", "results.bin"))
    (tmp_path / "main.c").write_text(text)
    images[:20].tofile(tmp_path / "images.bin")
    command = [*board.emulator, "-display", "none", "-monitor", "none", "-serial", "none",
               "-semihosting-config", "enable=on,target=native", "-kernel"]  # fmt: skip
    subprocess.run([*command, link(board, tmp_path)], cwd=tmp_path, check=True, timeout=120)
    found = np.fromfile(tmp_path / "results.bin", np.float32).reshape(20, 10)
    np.testing.assert_allclose(found, golden(digits)[:20], rtol=2e-4, atol=1e-6)
