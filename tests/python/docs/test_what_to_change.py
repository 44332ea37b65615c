"""The table of files to change in the architecture page: made-up changes in these files only work.

A program reads the named source files with additional lines, as a developer would write them, and
uses what they add. Nothing else is changed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from markdown_pages import ROOT

PAGE = ROOT / "docs/explanation/architecture.md"


def table() -> dict[str, list[str]]:
    """Return the files to touch by what is added."""
    section = PAGE.read_text().split("## Where to change what\n")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    return {row[0].strip("| "): re.findall(r"`([\w./<>]+)`", row[1]) for row in rows}


def test_every_file_of_the_table_exists():
    rows = table()
    assert len(rows) >= 9
    for what, files in rows.items():
        assert files, what
        for file in files:
            if "<name>" in file and not (ROOT / "plugins").exists():
                continue
            found = [*ROOT.glob(file.replace("<name>", "*"))]
            assert found, f"{what}: {file}"
            assert all(file.endswith("/") == place.is_dir() for place in found), f"{what}: {file}"


PROGRAM = """
import importlib.machinery, importlib.util, json, sys

CHANGES = {name: (file, edits) for name, file, edits in json.loads(sys.argv[1])}

class Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname):
        text = self.get_data(self.path).decode()
        for before, lines in CHANGES[fullname][1]:
            assert text.count(before) == 1 or not before, f"{fullname}: {before}"
            text = text.replace(before, lines + before) if before else text + lines
        return compile(text, self.path, "exec")

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in CHANGES:
            return importlib.util.spec_from_loader(name, Loader(name, CHANGES[name][0]))

sys.meta_path.insert(0, Finder)
import numpy as np
import tvmrt
from onnx import TensorProto, helper

def model(op, **attributes):
    domain = attributes.pop("domain", "")
    node = helper.make_node(op, ["x"], ["y"], name="made_up", domain=domain, **attributes)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 5]) for n in "xy"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("example.vendor", 1)]
    graph = helper.make_graph([node], "net", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)

X = np.linspace(-3, 3, 10, dtype=np.float32).reshape(2, 5)
"""

# What is added; the files with the lines that are added before a text, or at the end; its use.
OPERATOR = (
    "Operator, pointwise",
    {
        "python/tvmrt/compiler/ir/pointwise.py": [
            (
                "",
                '\ndefine(PointwiseOp("squareplus example.vendor::Squareplus",'
                ' {"f32": "0.5f * ({0} + sqrtf({0} * {0} + {b}))"},'
                " lambda x, b: (x + np.sqrt(x * x + b)) / 2))\n",
            )
        ],
    },
    """
squareplus = model("Squareplus", domain="example.vendor", b=4.0)
library = tvmrt.compile(squareplus, target="host")
assert "sqrtf(a * a + 4" in "".join(library.sources.files.values())
found = tvmrt.load(squareplus, cache=False)(X)
np.testing.assert_allclose(found, (X + np.sqrt(X * X + 4)) / 2, rtol=1e-6)
""",
)
OPTION = (
    "Option",
    {
        "python/tvmrt/compiler/request.py": [
            (
                "    requantize:",
                '    tempo: float | None = _option(None, "Speed of the music.", kind="float",'
                ' form="N", group="Boards")\n',
            )
        ]
    },
    """
from tvmrt.cli import main
assert tvmrt.compile(model("Relu"), tempo=3).manifest["options"]["tempo"] == 3
assert main(["compile", "--help-all"]) == 0
""",
)
TARGET = (
    "Target",
    {
        "python/tvmrt/compiler/codegen/target.py": [
            ('    "cortex-m33": (', '    "cortex-m99": ("-mcpu=cortex-m4", "-mthumb"),\n'),
            ('    "cortex-m55": {"dsp", "mve"}', '    "cortex-m99": {"dsp"},\n'),
        ]
    },
    """
library = tvmrt.compile(model("Relu"), target="cortex-m99")
assert library.target.flags == ("-mcpu=cortex-m4", "-mthumb")
assert library.target.board == {"dsp"}
assert any("tvmgen_default_made_up" in text for text in library.sources.files.values())
""",
)
STAGE = (
    "Importer stage",
    {
        "python/tvmrt/compiler/frontend/onnx/import_passes.py": [
            (
                "PASSES = (",
                "def half_waves(request: ImportRequest) -> ImportRequest:\n"
                "    for node in request.model.graph.node:\n"
                '        if node.op_type == "HalfWave":\n'
                '            node.op_type, node.domain = "Relu", ""\n'
                "    return request\n\n\n",
            ),
            ("check_ssa,", "half_waves, "),
        ]
    },
    """
half_wave = model("HalfWave", domain="example.vendor")
np.testing.assert_array_equal(tvmrt.load(half_wave, cache=False)(X), np.maximum(X, 0))
""",
)


def run(what, changes, use, folder):
    """Run the program with the changes, which may touch only the files of the table's row."""
    touched = table()[what]
    edits = []
    for file, lines in changes.items():
        assert file in touched, f"the row {what} does not name {file}"
        name = file.removeprefix("python/").removesuffix(".py").replace("/", ".")
        edits.append((name, str(ROOT / file), lines))
    command = [sys.executable, "-c", PROGRAM + use, json.dumps(edits), str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("change", [OPERATOR, OPTION, TARGET, STAGE], ids=lambda c: c[0])
def test_a_change_of_these_files_is_enough(change, tmp_path):
    shown = run(*change, tmp_path)
    assert "--tempo N" in shown if change is OPTION else not shown


DEVICE = {
    "__init__.py": "",
    "plugin.py": """
from tvmrt.plugin import Plugin

REFERENCE = "tvmrt.plugins.metronome.device:Metronome"
PLUGIN = Plugin("metronome", "a device", devices={"metronome": REFERENCE})
""",
    "device.py": """
import numpy as np
from tvmrt import devices


@devices.register
class Metronome(devices.PythonDevice):
    name = "metronome"

    def supports(self, node):
        return None if node.op == "relu" else f"metronome does not support {node.op}"

    def compute(self, node, inputs):
        return np.maximum(inputs[0], 0) + 1
""",
}
USE_DEVICE = """
import tvmrt.plugins
tvmrt.plugins.__path__.append(sys.argv[2])
network = tvmrt.load(model("Relu"), devices=["metronome"], require_device=["metronome"])
np.testing.assert_array_equal(network(X), np.maximum(X, 0) + 1)
"""


@pytest.mark.slow
def test_a_device_is_a_plugin_of_three_files(tmp_path):
    touched = [file.rpartition("/")[2] for file in table()["Device"]]
    (tmp_path / "metronome").mkdir()
    for name, text in DEVICE.items():
        assert name in touched
        (tmp_path / "metronome" / name).write_text(text)
    run("Device", {}, USE_DEVICE, tmp_path)
