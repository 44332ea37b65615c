"""No command opens a network connection, but those that are for other machines."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

from tvmrt.cli.app import group

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx"
HOOK = """\
import os, sys

EVENTS = ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo",
          "socket.gethostbyname", "urllib.Request", "http.client.connect")


def refuse(event, arguments):
    if event in EVENTS and not isinstance(arguments[-1], bytes):
        with open(os.environ["CONNECTIONS"], "a") as file:
            file.write(f"{event} {arguments}")
        raise PermissionError(f"{event} is refused")


sys.addaudithook(refuse)
"""
TRACE = struct.pack("<IHHI20sIII20x", 0x52545654, 1, 3, 0, b"cortex-m4", 1, 1, 0)
OTHER_MACHINES = {"rpc server", "rpc tracker"}
FIRMWARE = ["--target", "cortex-m4", "--interface-api", "c", "--params", "file"]
# Commands with their arguments, in the order in which their files are made.
CALLS = [
    ("compile", [DIGITS, "-o", "digits.so"]),
    ("compile", [DIGITS, "-o", "digits.tar", *FIRMWARE]),
    ("run", ["digits.so", "--random"]),
    ("verify", [DIGITS]),
    ("bench", [DIGITS, "--against", "onnxruntime", "--seconds", "0.1"]),
    ("weights", [DIGITS, "--for", "digits.tar", "-o", "digits.bin"]),
    ("inspect", ["digits.so"]),
    ("quantize", [DIGITS, "--data", "samples.npz", "-o", "int8.onnx"]),
    ("onnxruntime-ep", [DIGITS, "-o", "parts.onnx"]),
    ("cache", []),
    ("config", []),
    ("doctor", []),
    ("explain", ["0x0803"]),
    ("schema", []),
    ("report", [DIGITS, "-o", "digits.html"]),
    ("device list", []),
    ("device new", ["fast"]),
    ("device test", ["ccompiler", "--check", "operators", "--only", "Add"]),
    ("replay", [DIGITS, "trace.bin"]),
]
REFUSED = {"replay": "the dump is not of"}  # it compares the network with that of a board's trace


def _names(command: click.Command, before: str = "") -> set[str]:
    if not isinstance(command, click.Group):
        return {before}
    context = click.Context(command)
    names = command.list_commands(context)
    parts = ((f"{before} {name}".strip(), command.get_command(context, name)) for name in names)
    return set().union(*(_names(below, name) for name, below in parts if below is not None))


def test_each_command_is_stated():
    assert _names(group) == {*(name for name, _ in CALLS), *OTHER_MACHINES}


@pytest.mark.slow
def test_commands_open_no_connection(tmp_path):
    pytest.importorskip("onnxruntime")
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(HOOK)
    log = tmp_path / "connections.txt"
    environment = os.environ | {
        "PYTHONPATH": str(tmp_path / "hook"), "CONNECTIONS": str(log),
        "TVMRT_CACHE": str(tmp_path / "cache"),
    }  # fmt: skip
    probe = "import socket; socket.create_connection(('127.0.0.1', 9))"
    subprocess.run([sys.executable, "-c", probe], env=environment, check=False)
    assert "socket" in log.read_text()  # the hook is in use
    log.unlink()
    samples = np.random.default_rng(0).random((20, 1, 8, 8), np.float32)
    np.savez(tmp_path / "samples.npz", image=samples)
    (tmp_path / "trace.bin").write_bytes(TRACE)
    for name, arguments in CALLS:
        command = [sys.executable, "-m", "tvmrt", *name.split(), *map(str, arguments)]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert not log.exists(), f"{name}: {log.read_text()}"
        assert done.returncode == (2 if name in REFUSED else 0), f"{name}: {done.stderr}"
        assert REFUSED.get(name, "") in done.stderr
