"""Hooks of the core that plug-ins implement; a missing hook is an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from installed_plugins import install

import tvmrt
from tvmrt import plugin
from tvmrt.cli import main

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx"


class Estimate:
    OPTIONS = (click.Option(["--board"]), click.Option(["--clock"], type=float, default=1.0))

    @staticmethod
    def report(file, as_json, **options):
        print(file, as_json, options)


@pytest.fixture
def added(monkeypatch):
    """Install a plug-in with one hook, and no other plug-in."""
    mine = plugin.Plugin("mine", "for tests", hooks={"inspect board": f"{__name__}:Estimate"})
    install(monkeypatch, mine)


@pytest.fixture
def command(tmp_path):
    (tmp_path / "net.tar").write_bytes(b"")
    return ["inspect", str(tmp_path / "net.tar"), "--board", "nrf52"]


def test_hook_gets_the_request(added, command, capsys):
    assert main([*command, "--clock", "32"]) == 0
    options = {"board": "nrf52", "clock": 32.0}
    assert capsys.readouterr().out == f"{command[1]} False {options}\n"


def test_hook_of_an_absent_plugin_is_rejected(added, command, capsys, monkeypatch):
    monkeypatch.setenv(plugin.VARIABLE, "-mine")
    assert main(command) == 2
    assert "the plug-in mine has inspect board, but TVMRT_PLUGINS" in capsys.readouterr().err


@pytest.fixture
def none(monkeypatch):
    """Remove all plug-ins."""
    install(monkeypatch)


def test_hook_that_no_plugin_has_is_refused(none, command, capsys):
    assert main(command) == 2
    assert "No such option '--board'" in capsys.readouterr().err


def test_a_report_is_refused_without_a_plugin(none):
    network = tvmrt.load(str(DIGITS), cache=False)
    with pytest.raises(ImportError, match=r"report\(\) is not available: no plug-in has it"):
        network.report()


FORK = """
import os, threading
from tvmrt import plugin
held = threading.Event()
def read():
    with plugin._lock:
        held.set()
        threading.Event().wait(0.2)
thread = threading.Thread(target=read)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    os._exit(not plugin.plugins())
thread.join()
raise SystemExit(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_reads_plugins_although_a_thread_reads_them_when_it_forks():
    command = [sys.executable, "-W", "ignore", "-c", FORK]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
