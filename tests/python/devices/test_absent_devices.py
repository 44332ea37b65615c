"""Devices without a runtime part on this machine are reported; rules that require them fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from onnx import parser

import tvmrt
from tvmrt.devices import CSource, Device, get
from tvmrt.error import UnsupportedError

TVMRT = [sys.executable, "-m", "tvmrt"]
NEEDED = ["--device", "acme", "--require-device", "acme"]
PACKAGE = '''
from tvmrt.devices import Device


class Acme(Device):
    """Rectifiers by Acme."""

    name = "acme"

    def supports(self, node):
        return None if node.op == "relu" else "only relu"
'''


class Gate(Device):
    """Device with a compiler part only."""

    name = "gate_without_half"

    def supports(self, node):
        return None if node.op == "relu" else "only relu"


class GateInC(Gate):
    """Device whose generated C is complete."""

    def codegen(self, regions, context):
        return CSource("", "packed")


def rectified():
    header = '<ir_version: 8, opset_import: ["" : 17]>'
    return parser.parse_model(header + "g (float[3] x) => (float[3] y) { y = Relu(x) }")


@pytest.fixture
def half_acme(tmp_path):
    """Return environment variables that make a device with a damaged library visible."""
    (tmp_path / "libtvmrt_device_acme.so").write_text("no shared object")
    (tmp_path / "acme_device.py").write_text(PACKAGE)
    package = tmp_path / "acme_device-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-device\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[tvmrt.devices]\nacme = acme_device:Acme\n")
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"PYTHONPATH": os.pathsep.join(paths), "TVMRT_DEVICE_PATH": str(tmp_path)}
    return {**os.environ, **own}


def tvmrt_command(environment, *words):
    return subprocess.run(
        [*TVMRT, *map(str, words)], env=environment, capture_output=True, text=True, check=False
    )


def test_list_reports_absent_devices_with_reasons(half_acme):
    done = tvmrt_command(half_acme, "device", "list", "--json")
    rows = {row["name"]: row for row in json.loads(done.stdout)["devices"]}
    assert "cannot load the plug-in" in rows["acme"]["absent"]
    assert "libtvmrt_device_acme.so" in rows["acme"]["absent"]
    assert rows["acme"]["text"] == "Rectifiers by Acme."
    assert rows["cpu"]["absent"] is rows["ccompiler"]["absent"] is None
    table = tvmrt_command(half_acme, "device", "list").stdout.splitlines()
    (row,) = (line for line in table if line.startswith("acme "))
    assert "absent: " in row
    assert "absent: " not in next(line for line in table if line.startswith("ccompiler "))


def test_command_requires_no_absent_device(half_acme, tmp_path):
    model, library = tmp_path / "net.onnx", tmp_path / "net.so"
    model.write_bytes(rectified().SerializeToString())
    done = tvmrt_command(half_acme, "compile", model, "-o", library, *NEEDED)
    assert done.returncode == 2
    assert "--require-device acme: device acme cannot run on this machine: " in done.stderr
    assert "cannot load the plug-in" in done.stderr
    assert not library.exists()


def test_required_device_without_a_plugin_is_refused():
    options = {"devices": [Gate()], "require_device": ["gate_without_half:Relu"]}
    words = r"gate_without_half cannot run .*put libtvmrt_device_gate_without_half\.so into"
    with pytest.raises(UnsupportedError, match=words):
        tvmrt.compile(rectified(), **options)
    assert len(tvmrt.compile(rectified(), target="host", **options).summary.regions) == 1
    assert len(tvmrt.compile(rectified(), devices=[Gate()]).summary.regions) == 1


def test_device_that_generates_c_is_never_absent():
    assert GateInC().absent() is None
    assert get("cpu").absent() is None
    assert get("ccompiler").absent() is None


def test_aot_executor_refuses_a_device_that_the_library_was_not_compiled_for(tmp_path):
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) { y = Neg(x) }'
    )
    tvmrt.compile(model, executor="aot").export_library(tmp_path / "n.so")
    library = tvmrt.runtime.load_module(tmp_path / "n.so")
    with pytest.raises(ValueError, match="was compiled for the CPU's memory"):
        library["default"](tvmrt.device("vulkan", 0))
    assert library["default"](tvmrt.cpu(0)).type_key == "AotExecutor"
