"""Test ``tvmrt inspect --board --port``: cycles that a board prints on its serial line."""

from __future__ import annotations

import json
import os
import subprocess
import tty
from pathlib import Path

import boards
import pytest

import tvmrt
from tvmrt import plugin
from tvmrt.cli import main
from tvmrt.compiler.export.board_image import boards as board_rows
from tvmrt.libinfo import find_boards_path

TARGET = "riscv32"  # QEMU has the cycle counter of this core only
NETWORK = Path(__file__).parents[3] / "examples/digits/digits_int8.onnx"
# Zephyr's function for the example, and what the start-up code needs.
PRINTK = """
#include <stdarg.h>
#include <stdio.h>
#include "boards/board.h"
#include "boards/uart.h"
void printk(const char *text, ...) {
  char line[96];
  va_list rest;
  va_start(rest, text);
  vsnprintf(line, sizeof line, text, rest);
  va_end(rest);
  for (const char *at = line; *at; ++at) uart_write((uint8_t)*at);
}
void board_write(const char *text) { printk("%s", text); }
void board_exit(int code) { for (;;) (void)code; }
"""
OPTIONS = {"target": TARGET, "interface_api": "c", "module_name": "digits"}


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Return the image of the example of a package."""
    if tool := boards.BOARDS[TARGET].missing_tool():
        pytest.skip(f"{tool} is not installed")
    if plugin.find("exporters", "zephyr") is None:
        pytest.skip("no plug-in writes packages")
    folder = tmp_path_factory.mktemp("image")
    library = tvmrt.compile(str(NETWORK), **OPTIONS)
    library.export(str(folder / "net.tar"))
    library.export_package(folder / "package", "zephyr")
    (folder / "zephyr/sys").mkdir(parents=True)
    (folder / "zephyr/sys/printk.h").write_text("void printk(const char *text, ...);\n")
    (folder / "printk.c").write_text(PRINTK)
    row, place = board_rows()[TARGET], Path(find_boards_path())
    code = [*(folder / "package").rglob("*.c"), folder / "printk.c", place / row.start,
            place / row.uart]  # fmt: skip
    subprocess.run(
        [f"{row.tool}-gcc", "--specs=picolibc.specs", "-std=gnu11", "-Os", *row.flags,
         "-ffunction-sections", "-fdata-sections", f"-I{folder}", f"-I{folder}/package/include",
         f"-I{place.parent}", "-nostartfiles", f"-L{place}", "-T", f"{TARGET}.ld",
         "-Wl,--gc-sections", *map(str, code), "-lm", "-o", folder / "net.elf"],
        check=True,
    )  # fmt: skip
    return folder / "net.elf"


@pytest.fixture
def port(image):
    """Start the board; return the name of its serial port."""
    row = board_rows()[TARGET]
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    process = subprocess.Popen(
        [*row.emulator, "-display", "none", "-monitor", "none", "-icount", f"shift={row.shift}",
         "-chardev", "stdio,id=line,signal=off", "-serial", "chardev:line", "-kernel", image],
        stdin=ours, stdout=ours,
    )  # fmt: skip
    yield f"serial:{os.ttyname(theirs)}"
    process.kill()
    process.wait()
    os.close(ours)
    os.close(theirs)


@pytest.mark.slow
def test_measured_cycles_stand_next_to_the_model(image, port, capsys):
    jsonschema = pytest.importorskip("jsonschema")
    line = ["inspect", str(image.with_name("net.tar")), "--board", TARGET, "--port", port]
    assert main([*line, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert main(["schema", "inspect-board"]) == 0
    jsonschema.validate(report, json.loads(capsys.readouterr().out))
    (network,) = report["networks"].values()
    measured = network["measured"]
    assert measured["runs"] == 20
    assert measured["least"] <= measured["median"] <= measured["most"]
    # QEMU's counter counts instructions; the model ran with random inputs, the board with zeros
    assert measured["median"] == pytest.approx(network["instructions"], rel=0.25)
    assert measured["ratio"] == pytest.approx(measured["median"] / network["cycles"])
    assert main(line) == 0
    printed = capsys.readouterr().out
    assert "the median of 20 runs" in printed
    assert "estimate other networks with --scale" in printed


@pytest.mark.slow
def test_another_network_on_the_board_is_an_error(port, tmp_path, capsys):
    archive = tmp_path / "net.tar"
    tvmrt.compile(str(NETWORK), **{**OPTIONS, "module_name": "other"}).export(str(archive))
    assert main(["inspect", str(archive), "--board", TARGET, "--port", port]) == 2
    error = capsys.readouterr().err
    assert "runs tvmgen_digits with the checksum" in error
    assert "with the same options" in error


def test_a_line_without_measurements_is_an_error(monkeypatch):
    measured = pytest.importorskip("tvmrt.plugins.cycles.measured")
    monkeypatch.setattr(measured, "SECONDS", 0.1)
    ours, theirs = os.openpty()
    os.write(ours, b"hello\n")
    with pytest.raises(tvmrt.TVMError, match=r"no cycles for 0\.1 s; flash the example"):
        measured.measure(f"serial:{os.ttyname(theirs)}", None)
    os.close(ours)
    os.close(theirs)
