"""Files and processes after a command is ended by SIGTERM or SIGINT."""

from __future__ import annotations

import importlib.abc
import os
import signal
import subprocess
import sys
import time

import pytest

from tvmrt.cli import main

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a script stands for the C compiler")


def _listen_to_interrupts() -> None:
    """Handle SIGINT again: shells ignore it in background processes and their children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_an_interrupt_while_modules_load(capsys, monkeypatch):
    class Interrupting(importlib.abc.MetaPathFinder):
        def find_spec(self, name, *_):
            if name == "tvmrt.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "tvmrt.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    assert main(["cache"]) == 128 + signal.SIGINT
    assert capsys.readouterr().err == "tvmrt: error: interrupted\n"


def _has_ended(process: int) -> bool:
    """Whether a process has ended; the system may take a moment to forget that of a parent that has
    ended before."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["terminate", "interrupt"])
def test_termination_removes_files_and_stops_compilers(digits, tmp_path, number):
    out, scratch, began = tmp_path / "out", tmp_path / "scratch", tmp_path / "began"
    out.mkdir()
    scratch.mkdir()
    compiler = tmp_path / "cc"
    compiler.write_text(
        '#!/bin/sh\ncase "$*" in *-fsyntax-only*) exit;; esac\ntouch $TMPDIR/unfinished.s\n'
        f"echo $$ >{began}.new; mv {began}.new {began}\nexec sleep 600\n"
    )
    compiler.chmod(0o755)
    command = [sys.executable, "-m", "tvmrt", "compile", digits / "digits_f32.onnx"]
    process = subprocess.Popen(
        [*command, "-o", out / "n.so", "--cc", compiler],
        env={**os.environ, "TMPDIR": str(scratch)}, stderr=subprocess.PIPE, text=True,
        preexec_fn=_listen_to_interrupts,  # noqa: PLW1509 - this process starts no threads
    )  # fmt: skip
    end = time.monotonic() + 300
    while not began.exists() and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(number)
    message = process.communicate(timeout=300)[1]
    assert process.returncode == 128 + number
    assert message.strip() in ("tvmrt: error: terminated", "tvmrt: error: interrupted")
    assert _has_ended(int(began.read_text()))  # the compiler, too
    assert list(out.iterdir()) == []
    assert list(scratch.iterdir()) == []
