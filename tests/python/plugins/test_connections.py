"""Connections to remote networks, added by plug-ins and used by `run`, `verify` and `bench`."""

from __future__ import annotations

import json
from pathlib import Path

import click
import numpy as np
import pytest
from installed_plugins import install

from tvmrt import plugin
from tvmrt.cli import main
from tvmrt.connection import Connection, RemoteMachine, RemoteNetwork
from tvmrt.network.inputs import TensorInfo

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx"
REQUESTS = []  # calls of the connections


class Network(RemoteNetwork):
    """A network that doubles two numbers, as far as the commands need it."""

    inputs = (TensorInfo("x", "float32", (2, "n")),)
    output_names = ("y",)
    bounds = {"n": (1, 3)}  # noqa: RUF012

    def run(self, arrays):
        REQUESTS.append(("run", arrays["x"].shape))
        return [2 * arrays["x"]]

    def time(self, repeat):
        return [0.25] * repeat


class There(RemoteMachine):
    def __init__(self, values):
        REQUESTS.append(("values", dict(values)))

    def open(self, path, threads):
        REQUESTS.append(("open", path.name, threads))
        return Network()

    def close(self):
        REQUESTS.append(("close",))


class ToThere(Connection):
    suffixes = {".elf": "--there runs it"}  # noqa: RUF012
    boards = "--there runs that"

    def options(self, command):
        REQUESTS.append(("options", command))
        many = click.Option(["--there-word", "words"], multiple=True)
        return [click.Option(["--there"]), many, click.Option(["--there-count"], default=7)]

    def takes(self, path, values):
        return path.suffix == ".elf" and values["there"] == "board"

    def open(self, values):
        return There(values) if values["there"] else None


class InPlace(Connection):
    """A connection that compiles by itself, runs in this process, and records it."""

    def options(self, command):
        return [click.Option(["--in-place"], is_flag=True)]

    def open(self, values):
        return ThisProcess()


class ThisProcess(RemoteMachine):
    def compile_options(self, options):
        return {**options, "executor": "aot", "target": "native"}

    def check(self, library):
        REQUESTS.append(("check", library.options.executor))

    def open(self, path, threads):
        from tvmrt.cli.session import Session

        REQUESTS.append(("open", path.name, threads))
        session, network = Session(path, threads), RemoteNetwork()
        network.inputs, network.output_names = session.inputs, session.output_names
        network.run = lambda arrays: list(session.run(arrays).values())
        network.time = session.time
        return network


def _use(monkeypatch, **connections):
    mine = plugin.Plugin(
        "mine", "for tests",
        connections={f"--{key.replace('_', '-')}": f"{__name__}:{name}" for key, name in
                     connections.items()},
    )  # fmt: skip
    install(monkeypatch, mine)
    REQUESTS.clear()


@pytest.fixture
def library(tmp_path):
    """Return a file that only the connection opens."""
    (tmp_path / "net.so").write_bytes(b"no library of this machine")
    return str(tmp_path / "net.so")


@pytest.fixture
def there(monkeypatch):
    _use(monkeypatch, there="ToThere", in_place="InPlace")


def test_run_uses_the_connection(there, library, tmp_path, capsys):
    out = tmp_path / "out.npz"
    words = ["run", library, "--random", "--outputs", str(out), "--repeat", "2", "--threads", "3"]
    assert main([*words, "--there", "far", "--there-word", "a", "--there-word", "b", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seconds"] == [0.25, 0.25]
    with np.load(out) as arrays:
        assert arrays["y"].shape == (2, 3)
    assert REQUESTS == [
        ("options", "run"),
        ("values", {"there": "far", "words": ("a", "b"), "there_count": 7}),
        ("open", "net.so", 3),
        ("run", (2, 3)),
        ("close",),
    ]


def test_bench_uses_times_of_the_connection(there, library, capsys):
    inputs = Path(library).parent / "in.npz"
    np.savez(inputs, x=np.ones((2, 1), np.float32))
    words = ["bench", library, "--inputs", str(inputs), "--seconds", "1"]
    assert main([*words, "--there", "far", "--json"]) == 0
    (timing,) = json.loads(capsys.readouterr().out)["networks"][0]["timings"]
    assert timing["median"] == timing["fastest"] == 0.25


@pytest.mark.everyday(1)
@pytest.mark.parametrize("command", ["verify", "bench"])
def test_network_is_compiled_for_the_connection(there, command, capsys):
    pytest.importorskip("onnxruntime")
    extra = {"verify": ["--outputs-only"], "bench": ["--seconds", "0.02"]}[command]
    assert main([command, str(DIGITS), *extra, "--in-place", "--threads", "1"]) == 0
    assert ("check", "aot") in REQUESTS and ("open", "network.so", 1) in REQUESTS


def test_help_of_each_command_lists_the_options(there, capsys):
    for command in ("run", "verify", "bench"):
        assert main([command, "--help"]) == 0
        text = capsys.readouterr().out  # the first option of each connection
        assert text.index("Remote execution:") < text.index("--there TEXT") < text.index("--in-pl")
        assert main([command, "--help-all"]) == 0
        assert "--there-word" in capsys.readouterr().out
    assert main(["compile", "--help-all"]) == 0
    assert "--there" not in capsys.readouterr().out


@pytest.mark.everyday(2)
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "LIBRARY", "--random", "--there", "a", "--in-place"],
         "give --there or --in-place, not both"),
        (["bench", "MODEL", "--against", "onnxruntime", "--there", "a"],
         "--against compares on this machine: omit --there"),
        (["bench", "MODEL", "--profile", "--there", "a"],
         "--profile times operators on this machine: omit --there"),
        (["run", "LIBRARY", "--random", "--profile", "--there", "a"],
         "operators are profiled on this machine only: omit --there"),
        (["verify", "LIBRARY", "--there", "a"],
         "only ONNX networks can be verified on another machine"),
        (["run", "IMAGE", "--random"], "net.elf is an image for a board: --there runs it"),
        (["run", "IMAGE", "--random", "--there", "host"], "image for a board: --there runs it"),
        (["bench", "MODEL", "--target", "cortex-m4"],
         "target cortex-m4 is a board: --there runs that"),
    ],
)  # fmt: skip
def test_conflicting_options_are_rejected(there, library, words, sentence, capsys):
    image = Path(library).with_suffix(".elf")
    image.write_bytes(b"\x7fELF")
    files = {"LIBRARY": library, "IMAGE": str(image), "MODEL": str(DIGITS)}
    assert main([files.get(word, word) for word in words]) == 2
    assert sentence in capsys.readouterr().err


def test_images_are_passed_to_the_connection(there, library):
    image = Path(library).with_suffix(".elf")
    image.write_bytes(b"\x7fELF")
    assert main(["run", str(image), "--random", "--there", "board"]) == 0
    assert ("open", "net.elf", None) in REQUESTS


def test_options_of_an_absent_plugin_are_rejected(there, library, capsys, monkeypatch):
    monkeypatch.setenv(plugin.VARIABLE, "-mine")
    for word in ("--there", "--there-word", "--there=a"):
        assert main(["run", library, "--random", word, "a"]) == 2
        sentence = "the plug-in mine has --there, but TVMRT_PLUGINS leaves it out"
        assert sentence in capsys.readouterr().err
    assert main(["run", library, "--therefore", "a"]) == 2
    assert "No such option" in capsys.readouterr().err
    assert main(["run", library, "--random", "--help"]) == 0
    assert "--there" not in capsys.readouterr().out


def test_without_plugins_commands_run_locally(monkeypatch, tmp_path, capsys):
    install(monkeypatch)
    (tmp_path / "net.elf").write_bytes(b"\x7fELF")
    assert main(["run", str(tmp_path / "net.elf"), "--random"]) == 2
    sentence = "net.elf is an image for a board, which this machine does not run"
    assert sentence in capsys.readouterr().err
    assert main(["bench", str(DIGITS), "--target", "cortex-m4"]) == 2
    sentence = "target cortex-m4 is a board, whose code this machine does not run"
    assert sentence in capsys.readouterr().err
    for target in ("wasm32", "x86_64-windows"):
        assert main(["bench", str(DIGITS), "--target", target]) == 2
        assert f"target {target} is for another machine, whose" in capsys.readouterr().err
    assert main(["bench", str(DIGITS), "--seconds", "0.02"]) == 0


class Foreign(InPlace):
    def options(self, command):
        return [click.Option(["--foreign"]), click.Option(["--else"])]


class Threads(InPlace):
    def options(self, command):
        return [click.Option(["--threads"])]


class Raises(InPlace):
    def options(self, command):
        raise RuntimeError("no reason")


@pytest.mark.everyday(2)
@pytest.mark.parametrize(
    ("key", "name", "reason"),
    [
        ("foreign", "Foreign", "its option --else must be --foreign, or begin with --foreign-"),
        ("threads", "Threads", "the command already has the option --threads"),
        ("raises", "Raises", "RuntimeError: no reason"),
        ("gone", "Gone", "the plug-in mine does not load"),
        ("in_place_word", "Gone", "the plug-in mine does not load"),
    ],
)
def test_broken_connection_is_skipped(monkeypatch, library, key, name, reason, capsys):
    _use(monkeypatch, in_place="InPlace", **{key: name})
    assert main(["run", library, "--help"]) == 0
    said = capsys.readouterr()
    assert f"--{key.replace('_', '-')} is left out: " in said.err and reason in said.err
    assert "--in-place" in said.out
