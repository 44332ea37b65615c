"""Arm's compiler Vela: look-up, options, execution."""

from __future__ import annotations

import csv
import functools
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmrt.error import UnsupportedError
from tvmrt.units import BYTES

PACKAGE = "ethos-u-vela"
NOT_INSTALLED = "vela is not installed: pip install 'tvmrt[ethos-u]'"
# The device's options, and the corresponding flags of Vela.
FLAGS = {
    "accelerator": "--accelerator-config",
    "arena_cache_size": "--arena-cache-size",
    "config": "--config",
    "memory_mode": "--memory-mode",
    "optimise": "--optimise",
    "system_config": "--system-config",
}
SEPARATE_IO = "separate_io"
TIMEOUT_SECONDS = 3600  # time limit of one run; a large network takes minutes
# Prefixes of an error message: the program, an exception's name, a quote.
ERROR_PREFIXES = re.compile(r"^(?:vela: error: |[\w.]*(?:Error|Exception): |['\"])+")
DEFAULT_ACCELERATOR = "ethos-u55-128"


@dataclass(frozen=True)
class VelaResult:
    """Result of a Vela run: its output file, its estimates, and its message.

    ``model`` is empty if it failed; ``error_text`` is then its last line.
    """

    model: bytes
    estimates: Mapping[str, str]
    error_text: str = ""


def absent() -> str | None:
    """Return what to install if something is missing, else None; Vela itself is not imported."""
    if _command() is None:
        return NOT_INSTALLED
    if importlib.util.find_spec("ai_edge_litert") is None:
        return "ai-edge-litert, which describes .tflite files, is not installed: " + (
            "pip install 'tvmrt[ethos-u]'"
        )
    return None


def _command() -> list[str] | None:
    """Return the command of this Python's Vela, or else of the one on the path."""
    if importlib.util.find_spec("ethosu") and importlib.util.find_spec("ethosu.vela"):
        return [sys.executable, "-m", "ethosu.vela"]
    path = shutil.which("vela")
    return None if path is None else [path]


def version() -> str:
    """Return the version for the origin comment of the C code."""
    try:
        return f"vela {importlib.metadata.version(PACKAGE)}"
    except importlib.metadata.PackageNotFoundError:
        return "vela"


def arguments(settings: Mapping[str, Any], separate: bool = False) -> tuple[str, ...]:
    """Return the command line of the user's options. ``separate``: the region has one input and one
    output, which may have their own bases. Several inputs or outputs would share one base and have
    to be copied together.

    Raises
    ------
    ValueError
        For an unknown option or a malformed size.
    """
    unknown = sorted(set(settings).difference(FLAGS, [SEPARATE_IO]))
    if unknown:
        raise ValueError(
            f"device ethos-u has no option {unknown[0]}; choose from "
            f"{', '.join(sorted([*FLAGS, SEPARATE_IO]))}"
        )
    options = {"accelerator": DEFAULT_ACCELERATOR, **settings}
    arguments = []
    for name, flag in FLAGS.items():
        if name in options:
            arguments += [flag, _option_value(name, str(options[name]))]
    if separate and options.get(SEPARATE_IO):
        arguments += ["--cop-format", "COP2", "--separate-io-regions"]
    return tuple(arguments)


def _option_value(name: str, text: str) -> str:
    if name == "optimise":
        return text.capitalize()
    if name == "arena_cache_size":
        try:
            return str(BYTES.parse(text))
        except ValueError as problem:
            raise ValueError(f"device ethos-u, option {name}: {problem}") from None
    if name == "config" and Path(text).exists():  # otherwise it is one of Vela's own
        return str(Path(text).resolve())
    return text


def run(model: bytes, arguments: tuple[str, ...]) -> VelaResult:
    """Compile a file with Vela in a temporary folder; recent results are cached.

    Raises
    ------
    UnsupportedError
        If Vela is missing or does not finish.
    """
    files = [Path(word) for word in arguments if Path(word).is_file()]
    return run_cached(model, arguments, tuple(file.read_bytes() for file in files))


@functools.lru_cache(maxsize=16)
def run_cached(
    model: bytes, arguments: tuple[str, ...], configuration: tuple[bytes, ...]
) -> VelaResult:
    """Compile a file with Vela; ``configuration`` is the content of files in the command line."""
    command = _command()
    if command is None:
        raise UnsupportedError(NOT_INSTALLED)
    with tempfile.TemporaryDirectory(prefix="tvmrt-vela-") as name:
        folder = Path(name)
        (folder / "region.tflite").write_bytes(model)
        full_command = [*command, "region.tflite", *arguments, "--output-dir", "out"]
        try:
            done = subprocess.run(
                full_command, cwd=folder, capture_output=True, text=True, errors="replace",
                timeout=TIMEOUT_SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise UnsupportedError(f"vela cannot be run: {problem}") from problem
        compiled = folder / "out" / "region_vela.tflite"
        if done.returncode != 0 or not compiled.exists():
            return VelaResult(b"", {}, _last_line(done.stderr or done.stdout))
        return VelaResult(compiled.read_bytes(), _estimates(folder / "out"))


def _last_line(text: str) -> str:
    """Return the last line of an error, without the exception's name and quotes."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else "no error text"
    return ERROR_PREFIXES.sub("", last).strip("'\" ")


def _estimates(folder: Path) -> dict[str, str]:
    """Return the row of Vela's summary; empty if this version writes none."""
    for path in sorted(folder.glob("region_summary_*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                return {key: value for key, value in row.items() if key and value is not None}
    return {}
