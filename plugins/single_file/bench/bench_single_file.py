"""Print the table of sizes of the page: lines, and bytes of code and constants at -Os.

TVMRT_MODELS is the folder of kws_dscnn_int8.onnx. Compilers that are not installed have a dash.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tvmrt

ROOT = Path(__file__).parents[3]
OPTIONS = {"target": "cortex-m0plus", "interface_api": "c", "module_name": "digits"}
PICOLIBC = "--specs=picolibc.specs"
COMPILERS = [
    ["gcc"],
    ["arm-none-eabi-gcc", PICOLIBC, "-mcpu=cortex-m4", "-mthumb"],
    ["riscv64-unknown-elf-gcc", PICOLIBC, "-march=rv32imc", "-mabi=ilp32"],
    ["xtensa-lx106-elf-gcc", "-mlongcalls"],
    ["avr-gcc", "-mmcu=atmega1284p"],
    [sys.executable, "-m", "ziglang", "cc", "--target=wasm32-wasi"],
]


def networks() -> Iterator[tuple[str, Any, dict[str, str]]]:
    """Yield name, model and options of each row."""
    sys.path[:0] = [str(ROOT / "tests/bench/firmware"), str(ROOT / "plugins/tflite/tests")]
    import tiny_networks

    yield "digits, int8", ROOT / "examples/digits/digits_int8.onnx", {}
    models = Path(os.environ["TVMRT_MODELS"])
    yield "MLPerf Tiny keyword spotting, int8", models / "kws_dscnn_int8.onnx", {}
    wake_word = tiny_networks.sww()
    yield "streaming wake word (random weights), whole", wake_word, {}
    yield "the same with `--stream 1`", wake_word, {"stream": "1"}


def size(command: list[str], folder: Path) -> str:
    """Return the bytes of code and constants, or of the object for WebAssembly."""
    if shutil.which(command[0]) is None:
        return "-"
    words = [*command, "-std=c11", "-Os", "-c", "digits.c", "-o", "net.o"]
    subprocess.run(words, cwd=folder, check=True)
    if "ziglang" in command:
        return f"{(folder / 'net.o').stat().st_size:,}"
    tool = f"{command[0].removesuffix('gcc')}size"
    done = subprocess.run([tool, "net.o"], cwd=folder, check=True, capture_output=True, text=True)
    text, data, *_ = done.stdout.splitlines()[1].split()
    return f"{int(text) + int(data):,}"


def main() -> None:
    """Print a row of Markdown for each network."""
    for name, model, options in networks():
        with tempfile.TemporaryDirectory() as folder_name:
            folder = Path(folder_name)
            library = tvmrt.compile(model, **OPTIONS, **options)
            library.export(folder / "digits.c")
            lines = (folder / "digits.c").read_text().count("\n")
            sizes = " | ".join(size(command, folder) for command in COMPILERS)
        print(f"| {name} | {lines:,} | {sizes} |")


if __name__ == "__main__":
    main()
