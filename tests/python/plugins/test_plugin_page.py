"""The example of the page "Write a plug-in", examples/plugin, installed by pip."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tvmrt

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PROJECT = ROOT / "examples" / "plugin"

USE = """
import numpy as np, onnx, tvmrt
from onnx import helper

def network(op, domain=""):
    ends = [helper.make_tensor_value_info(name, 1, [4]) for name in "xy"]
    node = helper.make_node(op, ["x"], ["y"], domain=domain)
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("example.toys", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)

x = np.array([-1, 2, -3, 4], np.float32)
assert (tvmrt.load(network("Double", "example.toys"), cache=False)(x) == 2 * x).all()
assert (tvmrt.load("net.toy", cache=False)(x) == x + 3.5).all()
assert (tvmrt.load("net.toy", cache=False, toy_times=3)(x) == x + 10.5).all()
asked = {"devices": ["toydevice"], "require_device": ["toydevice"]}
assert (tvmrt.load(network("Abs"), cache=False, **asked)(x) == abs(x)).all()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Install the example with pip into a folder for PYTHONPATH."""
    pytest.importorskip("setuptools")
    project = shutil.copytree(PROJECT, tmp_path_factory.mktemp("project") / "toybox")
    site = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(site), str(project)], check=True)
    return site


def _run(words: list[str], folder: Path, site: Path | None, **variables: str):
    env = {**os.environ, **variables}
    if site is not None:
        env["PYTHONPATH"] = str(site)
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def test_everything_that_the_plugin_adds_works(installed, tmp_path):
    (tmp_path / "net.toy").write_text("1\n2.5\n")
    done = _run(["-c", USE], tmp_path, installed)
    assert done.returncode == 0, done.stderr
    done = _run(["-m", "tvmrt", "greet", "--name", "you"], tmp_path, installed)
    assert (done.stdout, done.stderr) == ("hello, you\n", "")
    assert "greet" in _run(["-m", "tvmrt", "--help"], tmp_path, installed).stdout
    done = _run(["-m", "tvmrt", "compile", "net.toy", "-o", "net.so"], tmp_path, installed)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "net.so").is_file()
    done = _run(["-m", "tvmrt", "compile", "net.toy", "-o", "net.steps"], tmp_path, installed)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "net.steps").read_text() == "add\n"
    words = ["compile", "net.toy", "-o", "net.tar", "--toy-times", "0"]
    done = _run(["-m", "tvmrt", *words], tmp_path, installed)
    assert (done.returncode, "0 is too small; give at least 1" in done.stderr) == (2, True)
    assert (
        "  --toy-times N  "
        in _run(["-m", "tvmrt", "verify", "--help-all"], tmp_path, installed).stdout
    )
    done = _run(["-m", "tvmrt", "doctor", "--json"], tmp_path, installed)
    rows = {row["what"]: row for row in json.loads(done.stdout)["checks"]}
    assert rows["plug-in toybox"]["state"] == "ok"


@pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="there is no qemu-system-arm")
def test_processor_board_and_kernel_run_in_qemu(installed, tmp_path):
    """The kernel computes dense layers, and products take the cycles of the processor."""
    pytest.importorskip("onnxruntime")
    digits = str(ROOT / "examples" / "digits" / "digits_f32.onnx")
    words = ["-m", "tvmrt", "verify", digits, "--target", "toycore", "--rpc", "qemu"]
    done = _run(words, tmp_path, installed)
    assert done.returncode == 0, done.stderr + done.stdout
    words = ["-m", "tvmrt", "compile", digits, "-o", "net", "--board", "toyboard"]
    assert _run(words, tmp_path, installed).returncode == 0
    text = "".join(path.read_text() for path in (tmp_path / "net").glob("*.c"))
    assert text.count("toy_rows_f32_run(") == 2  # pointwise, dense

    def inspected(board):
        words = ["-m", "tvmrt", "inspect", digits, "--board", board, "--json"]
        done = _run(words, tmp_path, installed)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        return found, found["networks"]["default"]["layers"][0]

    (_, usual), (found, own) = inspected("cortex-m4"), inspected("toyboard")
    assert (found["core"], found["published"], found["flash_bytes"]) == ("toycore", False, 1 << 20)
    assert usual["name"] == own["name"] == "conv1"  # equal code
    macs = tvmrt.compile(digits, target="cortex-m4").summary.operators[0].macs
    products, rest = divmod(own["cycles"] - usual["cycles"], 3)  # each takes 6 instead of 3 cycles
    assert rest == 0 and 0.9 * macs < products <= macs  # products with padding are left out


def test_networks_are_loaded_through_the_plugin(installed, tmp_path):
    (tmp_path / "net.toy").write_text("1\n")
    done = _run(["-m", "tvmrt", "compile", "net.toy", "-o", "net.so"], tmp_path, installed)
    assert done.returncode == 0, done.stderr
    words = ["-m", "tvmrt", "run", "net.so", "--random", "--json", "--repeat", "2"]
    here = json.loads(_run(words, tmp_path, installed).stdout)["outputs"]
    done = _run([*words, "--apart", "--apart-nice", "1"], tmp_path, installed)
    assert done.returncode == 0, done.stderr
    there = json.loads(done.stdout)
    assert there["outputs"] == here and len(there["seconds"]) == 2
    done = _run([*words, "--apart"], tmp_path, installed, TVMRT_PLUGINS="-toybox")
    assert "the plug-in toybox has --apart, but TVMRT_PLUGINS leaves it out" in done.stderr


def test_errors_of_the_importer_reach_the_user(installed, tmp_path):
    (tmp_path / "bad.toy").write_text("1\ntwo\n")
    done = _run(["-m", "tvmrt", "compile", "bad.toy", "-o", "net.so"], tmp_path, installed)
    assert done.returncode == 2
    assert "bad.toy: line 2 is not a number: 'two'" in done.stderr


@pytest.mark.parametrize("command", ["inspect", "verify", "bench"])
def test_a_command_that_an_importer_does_not_serve_is_refused(installed, tmp_path, command):
    (tmp_path / "net.toy").write_text("1\n")
    done = _run(["-m", "tvmrt", command, "net.toy"], tmp_path, installed)
    method = {"inspect": "describe", "bench": "inputs"}.get(command, command)
    assert done.returncode == 2
    assert (
        "net.toy: this command takes no .toy networks: their importer, ToyImporter, has no "
        f"{method}()"
    ) in done.stderr


def test_an_importer_reads_what_it_accepts(installed, tmp_path):
    ask = """
import numpy as np, tvmrt
from toybox.reader import ToyImporter

def read(self, model, request, plain=ToyImporter.import_model):
    if isinstance(model, bytes):
        open("made", "wb").write(model[4:])
        model = "made"
    return plain(self, model, request)

ToyImporter.accepts = lambda self, model: isinstance(model, bytes) and model[:4] == b"toys"
ToyImporter.import_model = read
x = np.zeros(4, np.float32)
assert (tvmrt.load(b"toys2.5", cache=False)(x) == 2.5).all()
tvmrt.load(b"boys2.5", cache=False)
"""
    done = _run(["-c", ask], tmp_path, installed)
    assert done.returncode != 0
    assert "these 7 bytes are not a network; give the content of a " in done.stderr
    assert ".toy file, or its path" in done.stderr


def test_absent_plugin_is_named(installed, tmp_path):
    left_out = {"TVMRT_PLUGINS": "-toybox"}
    done = _run(["-m", "tvmrt", "greet"], tmp_path, installed, **left_out)
    assert done.returncode == 2
    assert "the plug-in toybox has greet, but TVMRT_PLUGINS leaves it out" in done.stderr
    ask = "import tvmrt; tvmrt.devices.get('toydevice')"
    done = _run(["-c", ask], tmp_path, installed, **left_out)
    assert "the plug-in toybox has toydevice" in done.stderr
    done = _run(["-c", USE], tmp_path, installed, **left_out)
    assert (
        "unknown operator example.toys::Double, version 1; the plug-in toybox has "
        "example.toys::Double, but TVMRT_PLUGINS leaves it out"
    ) in done.stderr


def test_plugin_with_an_absent_requirement_is_named(tmp_path):
    done = _run(
        ["-c", "import tvmrt; tvmrt.devices.get('first')"], _requiring(tmp_path), tmp_path,
        TVMRT_PLUGINS="-second",
    )  # fmt: skip
    assert "the plug-in one has first, but it requires the plug-in second" in done.stderr


def _requiring(site: Path) -> Path:
    """Return two plug-ins, one of which requires the other."""
    info = site / "pair.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pair\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tvmrt.plugins]\none = pair:ONE\ntwo = pair:TWO\n")
    (site / "pair.py").write_text(
        "from tvmrt.plugin import Plugin\n"
        "ONE = Plugin('one', '', requires=('second',), devices={'first': 'x:y'})\n"
        "TWO = Plugin('second', '')\n"
    )
    return site


def test_without_the_plugin_nothing_remains(tmp_path):
    done = _run(["-m", "tvmrt", "greet"], tmp_path, None)
    assert done.returncode == 2
    assert "greet" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise OSError('no licence')", "toybox.plugin:PLUGIN does not load: OSError: no licence"),
        ("PLUGIN = 3", "toybox.plugin:PLUGIN is not a tvmrt.plugin.Plugin"),
        (
            "from tvmrt.plugin import Plugin\nPLUGIN = Plugin('toybox', '', requires=('none',))",
            "it requires the plug-in none, which is not used",
        ),
        (
            "from tvmrt.plugin import Plugin\nPLUGIN = Plugin('toybox', '', requires='none')",
            "toybox.plugin:PLUGIN: requires is 'none', not a tuple of texts",
        ),
        (
            "from tvmrt.plugin import Plugin\nPLUGIN = Plugin('toybox', '', exporters=['.toy'])",
            "toybox.plugin:PLUGIN: exporters is ['.toy'], not a mapping of names to references",
        ),
        (
            "from tvmrt.plugin import Plugin\nPLUGIN = Plugin('toybox', '', options={'a': 3})",
            "toybox.plugin:PLUGIN: options has 'a': 3; give texts, 'module:attribute'",
        ),
        (
            "from tvmrt.plugin import Plugin\nPLUGIN = Plugin('toybox', '', operators={'a': 'b'})",
            "toybox.plugin:PLUGIN: operators has 'a': 'b'; give texts, 'module:attribute'",
        ),
    ],
    ids=["raises", "type", "requires", "a text", "a list", "a number", "an operator"],
)
def test_broken_plugin_is_skipped_with_one_warning(installed, tmp_path, text, said):
    site = tmp_path / "site"
    (site / "toybox").mkdir(parents=True)
    (site / "toybox" / "__init__.py").write_text("")
    (site / "toybox" / "plugin.py").write_text(text)
    (info,) = installed.glob("*.dist-info")
    (site / info.name).mkdir()
    for name in ("entry_points.txt", "METADATA"):
        (site / info.name / name).write_text((info / name).read_text())
    done = _run(["-m", "tvmrt", "--help"], tmp_path, site)
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert f"the plug-in toybox is left out: {said}" in done.stderr


def test_two_plugins_of_one_name(installed, tmp_path):
    site = tmp_path / "site"
    second = site / "toybox_two.dist-info"
    second.mkdir(parents=True)
    (second / "METADATA").write_text("Metadata-Version: 2.1\nName: toybox-two\nVersion: 1\n")
    (second / "entry_points.txt").write_text(
        "[tvmrt.plugins]\nagain = toybox.plugin:PLUGIN\nother = other:PLUGIN\n"
    )
    (site / "other.py").write_text(
        "from tvmrt.plugin import Plugin\nPLUGIN = Plugin('other', '', commands={'greet': 'x:y'})\n"
    )
    paths = os.pathsep.join(map(str, (installed, site)))
    done = _run(["-m", "tvmrt", "greet"], tmp_path, None, PYTHONPATH=paths)
    assert done.stdout == "hello, world\n"
    assert "the plug-in toybox is left out: there are two of this name" in done.stderr
    assert "both add greet to commands" in done.stderr


def test_plugins_are_loaded_lazily(installed, tmp_path):
    ask = (
        "import sys, tvmrt; tvmrt.nd.empty((1,));"
        "print([m for m in sys.modules if m.startswith('tvmrt.plugins')])"
    )
    assert _run(["-c", ask], tmp_path, None).stdout == "[]\n"
    digits = str(ROOT / "examples" / "digits" / "digits_f32.onnx")
    ask = (
        f"import sys, tvmrt; tvmrt.load({digits!r}, cache='cache', executor='aot');"
        "print([m for m in sys.modules if m.startswith(('tvmrt.plugins.', 'toybox'))])"
    )
    found = [_run(["-c", ask], tmp_path, installed).stdout for _ in range(2)]
    assert "toybox.plugin" in found[0]
    assert found[1] == "[]\n"  # a cached network needs no plug-in
    ask = (
        "import sys; from tvmrt.cli import main; main(['--help']);"
        "print([m for m in sys.modules if m.startswith('tvmrt.plugins.') and m.count('.') > 2"
        " and not m.endswith(('.plugin', 'command'))])"
    )
    assert _run(["-c", ask], tmp_path, None).stdout.endswith("\n[]\n")
