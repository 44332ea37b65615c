"""Firmware archives built by their own Makefile for boards, and run in QEMU."""

from __future__ import annotations

import numpy as np
import pytest
from boards import BOARDS, build_library, link_image, run_image
from firmware_program import program_text

import tvmrt


@pytest.mark.everyday(1)
@pytest.mark.parametrize("board", BOARDS.values(), ids=list(BOARDS))
def test_the_archive_runs_on_the_board(board, digits, images, golden, tmp_path):
    options = {"interface_api": "c", "unpacked_api": True, "module_name": "digits"}
    tvmrt.compile(digits, target=board.target, **options).export(tmp_path / "net.tar")
    warnings = "-Os -ffreestanding -Wall -Wextra -Werror -Wconversion"
    library = build_library(tmp_path / "net.tar", board, tmp_path / "net", warnings)
    text = program_text(["digits"], "c", files=("images.bin", "results.bin"))
    (tmp_path / "main.c").write_text(text)
    includes = [library.parent / "codegen/host/include", library.parent / "runtime/include"]
    image = link_image(board, [tmp_path / "main.c"], [library], tmp_path / "image.elf", includes)
    images[:20].tofile(tmp_path / "images.bin")
    run_image(board, image, tmp_path)
    found = np.fromfile(tmp_path / "results.bin", np.float32).reshape(20, 10)
    np.testing.assert_allclose(found, golden(digits)[:20], rtol=2e-4, atol=1e-6)
